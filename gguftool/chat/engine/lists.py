"""Filters and methods of lists and objects in llama.cpp's template engine (`common/jinja/value.cpp`, b11434)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from typing import Any

from gguftool.chat.engine.arguments import Builtin, attribute, named, need
from gguftool.chat.engine.tests import TESTS
from gguftool.chat.engine.values import (
    UNDEFINED,
    Args,
    EngineError,
    Keyword,
    Undefined,
    compared,
    is_int,
    is_number,
    text,
    truth,
)
from gguftool.chat.meter import LimitReached, Meter


def select(reject: bool) -> Builtin:
    """``select``, ``selectattr`` and their opposites."""

    def select(args: Args, meter: Meter) -> list[Any]:
        if not 2 <= len(args) <= 4:
            raise EngineError("selectattr takes one to three arguments")
        need(args, (list, tuple), str)
        meter.reads(args[0])
        name = args[1]
        if len(args) == 2:
            return [i for i in args[0] if truth(attribute(i, name, UNDEFINED)) is not reject]
        test, extra = (name, args[2]) if len(args) == 3 else (text(args[2], meter), args[3])
        check = TESTS.get(test)
        if check is None:
            raise EngineError(f"selectattr: unknown test '{test}'")
        out = []
        for item in args[0]:
            meter.tick()
            value = item if len(args) == 3 else attribute(item, name, UNDEFINED)
            if truth(check([value, extra], meter)) is not reject:
                out.append(item)
        return out

    return select


def end(last: bool) -> Builtin:
    """``first`` and ``last``."""

    def end(args: Args, meter: Meter) -> Any:
        return args[0][-1 if last else 0] if args[0] else UNDEFINED

    return end


def joined(args: Args, meter: Meter) -> str:
    """``join``."""
    glue, name = named(args, "d", 1), named(args, "attribute", 2)
    mark = "" if isinstance(glue, Undefined) else text(glue, meter)
    items = args[0] if isinstance(name, Undefined) else [attribute(i, name, UNDEFINED) for i in args[0]]
    if not all(isinstance(i, str) or is_number(i) for i in items):
        raise EngineError("join() can only join arrays of strings or numerics")
    texts = [text(i, meter) for i in items]
    meter.reads(texts)
    meter.joined(mark, texts)
    return mark.join(texts)


def mapped(args: Args, meter: Meter) -> Any:
    """``map(attribute=…)``."""
    if len(args) < 2 or not isinstance(args[1], Keyword):
        raise EngineError("NotImplemented: map: filter-mapping")
    name, default = named(args, "attribute"), named(args, "default")
    meter.reads(args[0])
    return type(args[0])(attribute(i, name, default) for i in args[0])


def append(args: Args, meter: Meter) -> Any:
    """``append``: changes the list itself."""
    if len(args) != 2 or not isinstance(args[0], list):
        raise EngineError("append: needs an array that can change and a value")
    if len(args[0]) >= meter.WEIGHT:
        raise LimitReached(f"a list of more than {meter.WEIGHT:,} elements")
    args[0].append(args[1])
    return args[0]


def pop(args: Args, meter: Meter) -> Any:
    """``pop``: changes the list itself."""
    place = args[1] if len(args) > 1 else -1
    if not isinstance(args[0], list) or not is_int(place):
        raise EngineError("pop: needs an array that can change")
    if not -len(args[0]) <= place < len(args[0]):
        raise EngineError(f"Index {place} out of bounds for array of size {len(args[0])}")
    return args[0].pop(place)


def _by(name: Any, operator: str) -> Callable[[Any], Any]:
    def order(a: Any, b: Any) -> int:
        if not isinstance(name, Undefined):
            a, b = attribute(a, name, UNDEFINED), attribute(b, name, UNDEFINED)
        return -1 if compared(a, b, operator) else int(compared(b, a, operator))

    return cmp_to_key(order)


def sort(args: Args, meter: Meter) -> Any:
    """``sort``, case sensitive."""
    meter.ordered(args[0])
    operator = "gt" if truth(named(args, "reverse", 1)) else "lt"
    return type(args[0])(sorted(args[0], key=_by(named(args, "attribute", 3), operator)))


def extreme(operator: str) -> Builtin:
    """``min`` and ``max``."""

    def extreme(args: Args, meter: Meter) -> Any:
        meter.tick(1 + len(args[0]) // 2)
        return min(args[0], key=_by(named(args, "attribute", 2), operator)) if args[0] else UNDEFINED

    return extreme


def get(args: Args, meter: Meter) -> Any:
    """``get`` of an object."""
    if not 2 <= len(args) <= 3 or not isinstance(args[1], str):
        raise EngineError("get: needs a key that is a string")
    return args[0].get(args[1], args[2] if len(args) == 3 else None)


def dictsort(args: Args, meter: Meter) -> dict[Any, Any]:
    """``dictsort``: an object in another order."""
    meter.ordered(args[0])
    operator = "gt" if truth(named(args, "reverse", 3)) else "lt"
    by = 1 if named(args, "by", 2) == "value" else 0
    return dict(sorted(args[0].items(), key=_by(by, operator)))


def listed(take: Callable[[Any], Any]) -> Builtin:
    """``keys``, ``values``, ``items`` and ``list``."""

    def listed(args: Args, meter: Meter) -> list[Any]:
        meter.tick(1 + len(args[0]) // 4)
        return list(take(args[0]))

    return listed
