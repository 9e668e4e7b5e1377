"""Filters, methods and functions of llama.cpp's template engine by type and name (`common/jinja/value.cpp`, b11434).

A filter and a method are the same thing there: ``x|upper`` and ``x.upper()``, by the type of ``x``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gguftool.chat.engine.arguments import Builtin, key, lacking, named, need, pair
from gguftool.chat.engine.lists import append, dictsort, end, extreme, get, joined, listed, mapped, pop, select, sort
from gguftool.chat.engine.texts import edited, formatted, indented, real, replace, sliced, split, strip, tojson, whole
from gguftool.chat.engine.values import (
    UNDEFINED,
    Args,
    EngineError,
    Keyword,
    Plain,
    Refused,
    Undefined,
    by_bytes,
    is_array,
    is_int,
    kind,
    size,
    text,
    truth,
)
from gguftool.chat.meter import LimitReached, Meter


def _object(args: Args, meter: Meter) -> dict[Any, Any]:
    out: dict[Any, Any] = {}
    first: Any = args[0] if args else UNDEFINED
    rest = args
    if is_array(first) or isinstance(first, dict):
        rest = args[1:]
        for pair in list(first.items() if isinstance(first, dict) else first):
            if not (is_array(pair) and len(pair) == 2):
                raise EngineError(f"namespace/dict() needs pairs, not {kind(pair)}")
            out[key(pair[0])] = pair[1]
    for arg in rest:
        if not isinstance(arg, Keyword):
            raise EngineError(f"namespace/dict() takes arguments by name, not {kind(arg)}")
        out[arg.name] = arg.value
    meter.tick(1 + len(out))
    return out


def _range(args: Args, meter: Meter) -> list[int]:
    if not 1 <= len(args) <= 3 or not all(is_int(a) for a in args):
        raise EngineError("range() takes one to three integers")
    if len(args) == 3 and args[2] == 0:
        raise EngineError("range() step argument must not be zero")
    numbers = range(*args)
    if len(numbers) > meter.WEIGHT:
        raise LimitReached(f"a range of more than {meter.WEIGHT:,} numbers")
    meter.tick(1 + len(numbers))
    return list(numbers)


def _raise(args: Args, meter: Meter) -> Any:
    need(args, str)
    raise Refused(args[0])


def _default(args: Args, meter: Meter) -> Any:
    if not 2 <= len(args) <= 3:
        raise EngineError("default takes one or two arguments")
    lacks = (
        not truth(args[0]) if truth(named(args, "boolean", 2)) else args[0] is None or isinstance(args[0], Undefined)
    )
    return args[1] if lacks else args[0]


def _default_text(args: Args, meter: Meter) -> Any:
    other = args[1] if len(args) > 1 and not isinstance(args[1], Undefined) else ""
    return other if truth(named(args, "boolean", 2)) and not args[0] else args[0]


def _as_text(args: Args, meter: Meter) -> str:
    return text(args[0], meter)


def _same(args: Args, meter: Meter) -> Any:
    return args[0]


def _empty(make: Callable[[], Any]) -> Builtin:
    return lambda args, meter: make()


_NUMBER: dict[str, Builtin] = {
    "default": _default,
    "abs": lambda args, meter: abs(args[0]),
    "int": lambda args, meter: int(args[0]),
    "float": lambda args, meter: float(args[0]),
    **dict.fromkeys(("safe", "string", "tojson"), tojson),
}
_SELECTS: dict[str, Builtin] = {
    "selectattr": select(False),
    "select": select(False),
    "rejectattr": select(True),
    "reject": select(True),
}
_ARRAY: dict[str, Builtin] = {
    "default": _default,
    "list": listed(lambda v: v),
    "first": end(False),
    "last": end(True),
    "length": lambda args, meter: len(args[0]),
    "slice": sliced,
    **_SELECTS,
    "join": joined,
    "string": _as_text,
    "tojson": tojson,
    "map": mapped,
    "append": append,
    "pop": pop,
    "sort": sort,
    "reverse": lambda args, meter: args[0][::-1],
    "min": extreme("lt"),
    "max": extreme("gt"),
    "unique": lacking("Array unique builtin"),
}
_MAKES: dict[Callable[[], Any], str] = {
    str: "capitalize join lower replace safe string strip title truncate upper",
    list: "items list map reject rejectattr reverse select selectattr sort unique",
    int: "length sum wordcount",
    Undefined: "first last max min",
}
BUILTINS: dict[type, dict[str, Builtin]] = {
    int: _NUMBER,
    float: _NUMBER,
    bool: {
        "default": _default,
        "int": _NUMBER["int"],
        "float": _NUMBER["float"],
        "safe": _as_text,
        "string": _as_text,
        "tojson": tojson,
    },
    str: {
        "default": _default_text,
        "upper": edited(lambda s: by_bytes(s, bytes.upper)),
        "lower": edited(lambda s: by_bytes(s, bytes.lower)),
        "capitalize": edited(lambda s: by_bytes(s, bytes.capitalize)),
        "title": edited(lambda s: re.sub(r"[^ \t\n\v\f\r]+", lambda word: by_bytes(word[0], bytes.capitalize), s)),
        "strip": strip(True, True),
        "lstrip": strip(True, False),
        "rstrip": strip(False, True),
        "length": lambda args, meter: size(args[0]),
        "startswith": lambda args, meter: pair(args)[0].startswith(args[1]),
        "endswith": lambda args, meter: pair(args)[0].endswith(args[1]),
        "split": split(False),
        "rsplit": split(True),
        "replace": replace,
        "format": formatted,
        "int": whole,
        "float": real,
        "string": _same,
        "safe": _same,
        "slice": sliced,
        "tojson": tojson,
        "indent": indented,
        "join": lacking("String join builtin"),
    },
    list: _ARRAY,
    tuple: _ARRAY,
    dict: {
        "get": get,
        "keys": listed(dict.keys),
        "values": listed(dict.values),
        "items": listed(dict.items),
        "tojson": tojson,
        "string": _as_text,
        "length": lambda args, meter: len(args[0]),
        "dictsort": dictsort,
        "join": lacking("object join"),
    },
    type(None): {
        "default": _default,
        "tojson": tojson,
        "string": _as_text,
        "safe": _as_text,
        **dict.fromkeys("items map reject rejectattr select selectattr unique".split(), _empty(list)),
    },
    Undefined: {"default": _default, **{n: _empty(make) for make, ns in _MAKES.items() for n in ns.split()}},
    Plain: {},
}
"""By type and name."""


GLOBALS: dict[str, Builtin] = {
    "raise_exception": _raise,
    "dict": _object,
    "namespace": _object,
    "range": _range,
    "tojson": tojson,
}
"""Functions by name; ``strftime_now`` knows the clock of the rendering and is added there."""
ALIASES = {"count": "length", "d": "default", "e": "escape", "trim": "strip"}
"""Filters with two names."""
OF_TEXT = frozenset("capitalize lower replace strip title upper wordcount".split())
"""Filters that make a text of what they are given."""
