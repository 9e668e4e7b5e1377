"""How large the result of an operation of jinja2 can be, from all that is given to it, in every way to give it.

Every check runs before the operation, and refuses it or pays for what it reads. It hands back the value to work on:
what has no length yet is walked first, item by item.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from string import Formatter
from typing import Any

from gguftool.chat.meter import LimitReached, Meter, children
from gguftool.regex import regex

Named = dict[str, Any]
"""Arguments behind the value, by name."""
Check = Callable[[Meter, Any, Named], Any]
"""From a value and the other arguments to the value."""


def text(meter: Meter, value: Any) -> str:
    """A value as a text, when it fits."""
    if isinstance(value, str):
        return value
    meter.size(value)
    return str(value)


# -- patterns

_PERCENT = regex(r"[-+ #0]*(\*|\d*)(?:\.(\*|\d*))?[hlL]?(.?)", re.S)
_DIGITS = regex(r"\d+")
_CLOCK = regex(r"%[-_0^#+]*\d{3}")
_FLOAT = 330
"""Characters of the largest float, written out."""


def _percents(pattern: str) -> Iterator[tuple[str, str, str]]:
    """Width, precision and conversion of every field of a ``%`` pattern."""
    at = pattern.find("%")
    while at >= 0:
        at += 1
        if pattern.startswith("(", at):
            depth, at = 1, at + 1
            while depth and at < len(pattern):
                depth += {"(": 1, ")": -1}.get(pattern[at], 0)
                at += 1
        if found := _PERCENT.match(pattern, at):
            at = found.end()
            yield found[1], found[2] or "", found[3]
        at = pattern.find("%", at)


def percent(meter: Meter, pattern: str, values: Any) -> None:
    """``pattern % values``."""
    meter.reads(pattern)
    total, fields, shown = len(pattern), 0, False
    for width, precision, conversion in _percents(pattern):
        meter.tick()
        total += _numbers(meter, width, precision) + (_FLOAT if conversion in "eEfFgG" else 0)
        fields, shown = fields + 1, shown or conversion in "ra"
    parts = values if isinstance(values, tuple) else (values,)
    sizes = [meter.size([v] if shown else v) for v in parts]
    total += sum(sizes) if isinstance(values, tuple) else fields * sum(sizes)
    meter.room(total, meter.SLACK)


def braces(meter: Meter, pattern: str, args: tuple[Any, ...], named: Any) -> None:
    """``pattern.format(*args, **named)``."""
    meter.reads(pattern)
    total, fields, shown, opened = len(pattern), 0, False, False
    try:
        for _, field, spec, conversion in Formatter().parse(pattern):
            if field is None:
                continue
            meter.tick()
            if "{" in (spec or ""):
                raise LimitReached("a format string with a computed width")
            total += _numbers(meter, *_DIGITS.findall(spec or "")) + (_FLOAT if spec else 0)
            fields, opened = fields + 1, opened or "." in field or "[" in field
            shown = shown or conversion in ("r", "a")
    except ValueError:
        return  # what does the formatting says what is wrong
    values = (*args, *(named.values() if isinstance(named, Mapping) else (named,)))
    sizes = [meter.size([v] if shown else v, opened=opened) for v in values]
    meter.room(total + fields * max(sizes, default=0), meter.SLACK)


def _numbers(meter: Meter, *digits: str) -> int:
    """Widths and precisions of a field."""
    total = 0
    for width in digits:
        if width == "*" or len(width) > 9:
            raise LimitReached("a format string with a very large or computed width")
        number = int(width or 0)
        meter.width(number)
        total += number
    return total


def clock(meter: Meter, pattern: Any) -> str:
    """A pattern of ``strftime``."""
    out = text(meter, pattern)
    meter.width(out)
    if _CLOCK.search(out):
        raise LimitReached("a time with a very large width")
    return out


# -- operators


def operator(meter: Meter, sign: str, left: Any, right: Any) -> None:
    """``left sign right``."""
    if isinstance(left, int) and isinstance(right, int):
        a, b = left.bit_length(), right.bit_length()
        if sign == "**":
            meter.bits(a * max(right, 0))
        else:
            meter.bits(a + b if sign == "*" else 0)
            meter.tick(1 + (a * b >> 20))
    elif sign == "*":
        for many, times in ((left, right), (right, left)):
            if isinstance(many, (str, bytes, list, tuple)) and isinstance(times, int):
                meter.times(many, times)
    elif sign == "%" and isinstance(left, str):
        percent(meter, left, right)
    elif sign == "+" and isinstance(left, (str, list, tuple)) and isinstance(right, (str, list, tuple)):
        meter.room(len(left) + len(right))
    else:
        meter.reads(left)
        meter.reads(right)


# -- methods


def method(meter: Meter, name: str, owner: Any, args: tuple[Any, ...], named: Named) -> tuple[Any, ...]:
    """``owner.name(*args, **named)``; the arguments to call it with."""
    meter.reads(owner)
    for arg in args:
        meter.reads(arg)
    if not isinstance(owner, str):
        return args
    if name == "join" and args:
        items = _items(meter, args[0])
        _joined(meter, items, owner)
        return (items, *args[1:])
    if name == "replace" and len(args) >= 2 and isinstance(args[0], str) and isinstance(args[1], str):
        meter.replaced(owner, *args)
    elif name in _WIDTHS:
        meter.width(*args, *named.values())
    elif name in _BY_CHARACTER:
        meter.product(owner, args[0] if args else named.get("sep", ""))
    if name in _CUT:
        meter.tick(0, len(owner))
    return args


_WIDTHS = frozenset("center ljust rjust zfill".split())
_BY_CHARACTER = frozenset("strip lstrip rstrip rfind rindex rsplit rpartition".split())
"""Methods of texts that can look at every character once for each of their argument's."""
_CUT = frozenset("split rsplit splitlines partition rpartition".split())


# -- filters


def _items(meter: Meter, value: Any) -> Any:
    """What has items as a list; anything else as it is."""
    return meter.listed(value) if value and hasattr(type(value), "__iter__") else value


def _joined(meter: Meter, items: Any, glue: str, *, opened: bool = False) -> None:
    if isinstance(items, list):
        texts = all(isinstance(i, str) for i in items)
        meter.room(len(glue) * max(len(items) - 1, 0))
        total = 0
        for item in items:
            total += len(glue) + meter.size(item, opened=opened)
            meter.room(total, 2 if texts else meter.SLACK)


def _steps(named: Named) -> int:
    """Names that are looked up in every item: ``attribute="a.b,c"``."""
    return 1 + sum(n.count(".") + n.count(",") for n in named.values() if isinstance(n, str))


def _walked(meter: Meter, value: Any, named: Named) -> Any:
    items = _items(meter, value)
    if isinstance(items, list):
        meter.tick(len(items) * _steps(named) // 2)
    return items


def _sorted(meter: Meter, value: Any, named: Named) -> Any:
    items = _walked(meter, value, named)
    if isinstance(items, list):
        meter.weigh(items)
        meter.ordered(items)
    return items


def _dictsort(meter: Meter, value: Any, named: Named) -> Any:
    if (inside := children(value)) is not None:
        meter.weigh(list(inside))
        meter.ordered(inside)
    return value


def _text(meter: Meter, value: Any, named: Named) -> Any:
    meter.size(value)
    return value


def _trim(meter: Meter, value: Any, named: Named) -> Any:
    whole = text(meter, value)
    meter.product(whole, named.get("chars"))
    return value


def _center(meter: Meter, value: Any, named: Named) -> Any:
    meter.width(*named.values())
    return _text(meter, value, named)


def _replace(meter: Meter, value: Any, named: Named) -> Any:
    old, new = text(meter, named.get("old", "")), text(meter, named.get("new", ""))
    whole = text(meter, value)
    meter.replaced(whole, old, new, named.get("count"))
    return whole


def _indent(meter: Meter, value: Any, named: Named) -> Any:
    width = named.get("width", 4)
    meter.width(width)
    fill = len(width) if isinstance(width, str) else width if isinstance(width, int) else 0
    if isinstance(value, str):
        meter.room(len(value) + (len(value.splitlines()) + 1) * (max(fill, 0) + 1), 2)
    return value


def _tojson(meter: Meter, value: Any, named: Named) -> Any:
    indent, marks = named.get("indent"), named.get("separators")
    meter.width(indent)
    pair = [marks] if isinstance(marks, str) else children(marks) or ()
    meter.width(*pair)
    fill = len(indent) if isinstance(indent, str) else indent if isinstance(indent, int) else 0
    # A text alone is written like one in a list.
    meter.size([value], glue=4 + sum(len(m) for m in pair if isinstance(m, str)), indent=max(fill, 0))
    return value


def _parts(meter: Meter, value: Any, named: Named) -> Any:
    meter.width(*named.values())
    return _items(meter, value)


def _join(meter: Meter, value: Any, named: Named) -> Any:
    items = _walked(meter, value, {"attribute": named.get("attribute")})
    _joined(meter, items, text(meter, named.get("d", "")), opened=named.get("attribute") is not None)
    return items


def _sum(meter: Meter, value: Any, named: Named) -> Any:
    items = _walked(meter, value, named)
    numbers = [named.get("start", 0)]
    if isinstance(items, list) and named.get("attribute") is None:
        numbers += items
    if not all(isinstance(n, (int, float)) for n in numbers):
        raise LimitReached("a sum of other things than numbers")
    return items


def _format(meter: Meter, value: Any, named: Named) -> Any:
    whole = text(meter, value)
    places = tuple(v for k, v in named.items() if k.isdecimal())
    percent(meter, whole, places or dict(named))
    return whole


def _round(meter: Meter, value: Any, named: Named) -> Any:
    meter.width(*named.values())
    return value


def _read(meter: Meter, value: Any, named: Named) -> Any:
    meter.reads(value)
    return value


FILTERS: dict[str, Check] = {
    **dict.fromkeys("capitalize e escape lower safe string title truncate upper wordcount".split(), _text),
    **dict.fromkeys("map max min reject rejectattr select selectattr unique".split(), _walked),
    **dict.fromkeys(("sort", "groupby"), _sorted),
    **dict.fromkeys(("batch", "slice"), _parts),
    "center": _center,
    "dictsort": _dictsort,
    "format": _format,
    "indent": _indent,
    "join": _join,
    "replace": _replace,
    "round": _round,
    "sum": _sum,
    "tojson": _tojson,
    "trim": _trim,
}
"""By name; any other filter gives no more than it is given, and pays for reading it."""
ARGUMENTS: dict[str, tuple[str, ...]] = {
    name: tuple(names.split())
    for name, names in {
        "batch": "linecount fill_with",
        "center": "width",
        "dictsort": "case_sensitive by reverse",
        "groupby": "attribute default case_sensitive",
        "indent": "width first blank",
        "join": "d attribute",
        "max": "case_sensitive attribute",
        "min": "case_sensitive attribute",
        "replace": "old new count",
        "round": "precision method",
        "slice": "slices fill_with",
        "sort": "reverse case_sensitive attribute",
        "sum": "attribute start",
        "tojson": "ensure_ascii indent separators sort_keys",
        "trim": "chars",
        "truncate": "length killwords end leeway",
        "unique": "case_sensitive attribute",
    }.items()
}
"""Names of the arguments behind the value (`jinja2/filters.py`, 3.1); those of others go by their place."""


def filtered(meter: Meter, name: str, value: Any, rest: tuple[Any, ...], given: Named) -> Any:
    """``value|name(*rest, **given)``; the value to work on."""
    names = ARGUMENTS.get(name) or tuple(map(str, range(len(rest))))
    for arg in (*rest, *given.values()):
        meter.reads(arg)
    return FILTERS.get(name, _read)(meter, value, dict(zip(names, rest, strict=False)) | given)


TESTS = frozenset("== eq equalto != ne > gt greaterthan >= ge < lt lessthan <= le in lower upper".split())
"""Tests that read all of a value."""


def tested(meter: Meter, name: str, args: tuple[Any, ...]) -> None:
    """``args[0] is name(…)``."""
    for arg in args:
        meter.reads(arg)
    if name in ("lower", "upper"):
        meter.size(args[0])
