"""Tests of llama.cpp's template engine: ``x is y`` (`common/jinja/value.cpp`, b11434)."""

from __future__ import annotations

from collections.abc import Callable

from gguftool.chat.engine.arguments import Builtin, key, lacking, need
from gguftool.chat.engine.values import (
    Args,
    EngineError,
    Function,
    Undefined,
    by_bytes,
    compared,
    is_array,
    is_int,
    kind,
    same,
    text,
)
from gguftool.chat.meter import Meter


def _is(*types: type) -> Builtin:
    def check(args: Args, meter: Meter) -> bool:
        return isinstance(args[0], types) and not (isinstance(args[0], bool) and bool not in types)

    return check


def _compare(operator: str) -> Builtin:
    def compare(args: Args, meter: Meter) -> bool:
        if len(args) != 2:
            raise EngineError("a comparison needs two values")
        return compared(args[0], args[1], operator)

    return compare


def is_in(args: Args, meter: Meter) -> bool:
    """The test and the operator ``in``."""
    needle, hay = args[0], args[1]
    if isinstance(hay, Undefined):
        return False
    meter.reads(hay)
    if is_array(hay):
        return any(same(needle, item, meter) for item in hay)
    if isinstance(hay, str):
        if not isinstance(needle, str):
            raise EngineError(f"'in' test expects a string in a string, got {kind(needle)}")
        return needle in hay
    if isinstance(hay, dict):
        return key(needle) in hay
    raise EngineError(f"'in' test expects iterable, got {kind(hay)}")


def _same_as(args: Args, meter: Meter) -> bool:
    a, b = args[0], args[1]
    if isinstance(a, Undefined) or isinstance(b, Undefined):
        return False
    if is_int(a) and is_int(b):
        return bool(a == b and -5 <= a <= 256)
    return a is b


def _parity(odd: int) -> Builtin:
    def parity(args: Args, meter: Meter) -> bool:
        need(args, int)
        return bool(args[0] % 2 == odd)

    return parity


def _divisible(args: Args, meter: Meter) -> bool:
    need(args, int, int)
    if args[1] == 0:
        raise EngineError("division by zero")
    return bool(args[0] % args[1] == 0)


def _case(method: Callable[[bytes], bytes]) -> Builtin:
    def case(args: Args, meter: Meter) -> bool:
        need(args, str)
        return bool(by_bytes(args[0], method) == args[0])

    return case


TESTS: dict[str, Builtin] = {
    "boolean": _is(bool),
    "callable": _is(Function),
    "odd": _parity(1),
    "even": _parity(0),
    "false": lambda args, meter: args[0] is False,
    "true": lambda args, meter: args[0] is True,
    "divisibleby": _divisible,
    "string": _is(str),
    "integer": _is(int),
    "float": _is(float),
    "number": _is(int, float),
    "iterable": _is(dict, list, tuple, str, Undefined),
    "sequence": _is(dict, list, tuple, str, Undefined),
    "mapping": _is(dict),
    "lower": _case(bytes.lower),
    "upper": _case(bytes.upper),
    "none": lambda args, meter: args[0] is None,
    "defined": lambda args, meter: not isinstance(args[0], Undefined),
    "undefined": _is(Undefined),
    "eq": _compare("eq"),
    "equalto": _compare("eq"),
    "ge": _compare("ge"),
    "gt": _compare("gt"),
    "greaterthan": _compare("gt"),
    "lt": _compare("lt"),
    "lessthan": _compare("lt"),
    "ne": _compare("ne"),
    "in": is_in,
    "test": lambda args, meter: text(args[0], meter) in TESTS,
    "sameas": _same_as,
    "escaped": lacking("escaped test"),
    "filter": lacking("filter test"),
}
"""By name, without ``is``."""
