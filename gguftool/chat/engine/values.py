"""Values of llama.cpp's template engine (`common/jinja/value.h`, `value.cpp`, b11434).

Python's own types stand for them; what is undefined, a loop's variable and functions have types of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gguftool.chat.meter import Meter
from gguftool.records import dataclass

BLANKS = " \t\n\v\f\r"
"""What ``isspace`` of C calls so."""


class EngineError(Exception):
    """The template fails in llama.cpp's engine."""


class Refused(EngineError):
    """The template itself called ``raise_exception``."""


class Undefined:
    """What has no value: empty as a text, a list and a condition."""

    __slots__ = ()


UNDEFINED = Undefined()


class Plain(dict[Any, Any]):
    """An object without methods: the variable ``loop``."""


@dataclass(frozen=True, slots=True)
class Keyword:
    """An argument given by name."""

    name: str
    value: Any


Args = list[Any]
"""Arguments in their order; those given by name are `Keyword`."""


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """Something that can be called.

    Attributes:
        name: for messages.
        call: from arguments and the names at the place of the call to a value.
        this: what a method belongs to, as a list of one or none.
    """

    name: str
    call: Callable[[Args, dict[str, Any]], Any]
    this: tuple[Any, ...] = ()


def kind(value: Any) -> str:
    """Name of a value's type in llama.cpp's messages."""
    return _KINDS.get(type(value), "Object" if isinstance(value, dict) else "Undefined")


_KINDS = {
    bool: "Boolean",
    int: "Integer",
    float: "Float",
    str: "String",
    list: "Array",
    tuple: "Tuple",
    dict: "Object",
    type(None): "None",
    Function: "Function",
    Keyword: "KwArg",
}


def is_number(value: Any) -> bool:
    """An integer or a float; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_int(value: Any) -> bool:
    """An integer; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_array(value: Any) -> bool:
    """A list or a tuple."""
    return isinstance(value, (list, tuple))


def truth(value: Any) -> bool:
    """The value as a condition."""
    if isinstance(value, Function):
        raise EngineError("Function is not a bool value")
    return not isinstance(value, Undefined) and bool(value)


def text(value: Any, meter: Meter, *, fits: bool = False) -> str:
    """The value as a text, where one is asked for; ``fits``: what it is a part of was measured."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return _scalar(value)
    if isinstance(value, (list, tuple, dict)):
        if not fits:
            meter.size(value)
        meter.tick(1 + len(value))
        if isinstance(value, dict):
            body = ", ".join(f"{_quoted(k, meter)}: {_quoted(v, meter)}" for k, v in value.items())
            out = f"{{{body}}}"
        else:
            body = ", ".join(_quoted(v, meter) for v in value)
            out = f"[{body}]" if isinstance(value, list) else f"({body}{',' if len(value) == 1 else ''})"
        meter.weigh(out)
        return out
    raise EngineError(f"{kind(value)} is not a string value")


def _scalar(value: Any) -> str:
    if isinstance(value, float):
        out = f"{value:.6f}".rstrip("0")
        return out + "0" if out.endswith(".") else out
    return str(value)


def _quoted(value: Any, meter: Meter) -> str:
    if isinstance(value, str):
        return to_json(value, meter) if "'" in value else f"'{value}'"
    return "Undefined" if isinstance(value, Undefined) else text(value, meter, fits=True)


def shown(value: Any, meter: Meter) -> str:
    """What ``{{ value }}`` writes: items of a list one behind the other, nothing for objects, none and undefined."""
    if is_array(value):
        meter.tick(1 + len(value))
        return "".join(shown(v, meter) for v in value)
    if isinstance(value, (str, bool, int, float)):
        out = text(value, meter)
        meter.tick(1, len(out))
        return out
    return ""


def same(a: Any, b: Any, meter: Meter) -> bool:
    """The operator ``==``: numbers by value, texts, and lists and objects whose items cannot change."""
    if isinstance(a, (bool, int, float)):
        return isinstance(b, (bool, int, float)) and a == b
    if isinstance(a, Undefined) or isinstance(b, Undefined):
        return isinstance(a, Undefined) and isinstance(b, Undefined)
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple, dict)):
        meter.tick(1 + len(a) // 16)
    if is_array(a):
        if not (hashable(a) and hashable(b) and len(a) == len(b)):
            return False
        return all(same(x, y, meter) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        if not (hashable(a) and hashable(b) and len(a) == len(b)):
            return False
        return all(same(j, k, meter) and same(x, y, meter) for (j, x), (k, y) in zip(a.items(), b.items(), strict=True))
    return a is b if isinstance(a, Function) else bool(a == b)


def hashable(value: Any) -> bool:
    """Whether nothing in a list or an object can change."""
    items = value.values() if isinstance(value, dict) else value
    return all(v is None or isinstance(v, (str, bool, int, float, tuple)) for v in items)


def compared(a: Any, b: Any, operator: str) -> bool:
    """The tests ``eq``, ``ne``, ``lt``, ``gt``, ``ge``; a number beside a text is compared as a text."""
    if is_number(a) and is_number(b):
        return bool(_ORDER[operator](a, b))
    if (isinstance(a, str) or is_number(a)) and (isinstance(b, str) or is_number(b)):
        return bool(_ORDER[operator](_scalar(a), _scalar(b)))
    if isinstance(a, bool) and isinstance(b, bool):
        if operator not in ("eq", "ne"):
            raise EngineError("Unsupported comparison operator for bool type")
        return (a == b) is (operator == "eq")
    return False


_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_TABLE = {i: _ESCAPES.get(chr(i), f"\\u{i:04x}") for i in range(0x20)} | {ord(k): v for k, v in _ESCAPES.items()}


def to_json(value: Any, meter: Meter, indent: int = -1, comma: str = ", ", colon: str = ": ") -> str:
    """The filter ``tojson``: objects in their order, texts as they are."""
    # A text alone is written like one in a list.
    meter.size([value], glue=2 + len(comma) + len(colon), indent=max(indent, 0))
    out = "".join(_json(value, meter, 0, indent, comma, colon))
    meter.weigh(out)
    return out


def _json(value: Any, meter: Meter, level: int, indent: int, comma: str, colon: str) -> Iterator[str]:
    meter.tick(1)
    if isinstance(value, bool):
        yield "true" if value else "false"
    elif is_int(value):
        yield str(value)
    elif isinstance(value, float):
        yield f"{value:g}"
    elif isinstance(value, str):
        meter.tick(1, len(value))
        yield f'"{value.translate(_TABLE)}"'
    elif isinstance(value, (list, tuple, dict)):
        new_line, outer = "\n" if indent >= 0 else "", " " * (level * max(indent, 0))
        inner, last = outer + " " * max(indent, 0), len(value) - 1
        yield "{" if isinstance(value, dict) else "["
        if value:
            yield new_line
            for i, item in enumerate(value):
                yield inner
                if isinstance(value, dict):
                    yield f'"{text(item, meter).translate(_TABLE)}"' + colon
                    item = value[item]
                yield from _json(item, meter, level + 1, indent, comma, colon)
                yield (comma if i < last else "") + new_line
            yield outer
        yield "}" if isinstance(value, dict) else "]"
    else:
        yield "null"


def size(value: str) -> int:
    """Length of a text as the engine counts it: bytes."""
    return len(value) if value.isascii() else len(_bytes(value))


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")


def by_bytes(value: str, change: Callable[[bytes], bytes]) -> str:
    """Change a text byte by byte, as the engine does."""
    return change(_bytes(value)).decode("utf-8", "surrogateescape")


def cut(value: Any, start: int, stop: int, step: int) -> Any:
    """A slice; texts are cut by bytes."""
    if isinstance(value, str):
        return by_bytes(value, lambda b: bytes(b[i] for i in _places(len(b), start, stop, step)))
    return type(value)(value[i] for i in _places(len(value), start, stop, step))


def _places(length: int, start: int, stop: int, step: int) -> range:
    if step == 0:
        raise EngineError("slice step cannot be zero")
    if step > 0:
        first = max(length + start, 0) if start < 0 else min(start, length)
        last = max(length + stop, 0) if stop < 0 else min(stop, length)
    else:
        first = max(length + start, 0) if start < 0 else min(start, length - 1)
        last = max(length + stop, -1) if stop < -1 else min(stop, length - 1)
    places = range(first, last, step)
    return places if all(0 <= i < length for i in (places[:1] or [0])) and length else range(0)
