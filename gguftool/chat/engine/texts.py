"""Filters and methods of texts in llama.cpp's template engine (`common/jinja/value.cpp`, b11434)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gguftool.chat.engine.arguments import Builtin, named, need
from gguftool.chat.engine.values import (
    BLANKS,
    UNDEFINED,
    Args,
    EngineError,
    Undefined,
    by_bytes,
    cut,
    is_array,
    is_int,
    kind,
    text,
    to_json,
    truth,
)
from gguftool.chat.meter import Meter


def tojson(args: Args, meter: Meter) -> str:
    """The filter and the function."""
    if not 1 <= len(args) <= 5:
        raise EngineError("tojson takes one to five arguments")
    indent = named(args, "indent", 2)
    if truth(named(args, "sort_keys", 4)):
        raise EngineError("NotImplemented: tojson sort_keys=true")
    pair = named(args, "separators", 3)
    marks = [text(p, meter) for p in pair] if is_array(pair) else []
    width = indent if is_int(indent) else -1
    meter.width(max(width, 0), *marks)
    comma = marks[0] if marks else (", " if width < 0 else ",")
    out = to_json(args[0], meter, width, comma, marks[1] if len(marks) > 1 else ": ")
    if truth(named(args, "ensure_ascii", 1)) and not out.isascii():
        out = "".join(c if c < "\x80" else _escaped(c) for c in out)
    return out


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i] << 8 | units[i + 1]:04x}" for i in range(0, len(units), 2))


def edited(change: Callable[[str], str]) -> Builtin:
    """A change of a whole text."""

    def edited(args: Args, meter: Meter) -> str:
        need(args, str)
        meter.reads(args[0])
        return change(args[0])

    return edited


def strip(left: bool, right: bool) -> Builtin:
    """``strip`` and its halves."""

    def strip(args: Args, meter: Meter) -> str:
        need(args, str)
        meter.reads(args[0])
        chars = named(args, "chars", 1)
        marks = BLANKS if isinstance(chars, Undefined) else text(chars, meter)
        meter.product(args[0], marks)
        out: str = args[0].lstrip(marks) if left and marks else args[0]
        return out.rstrip(marks) if right and marks else out

    return strip


def split(from_right: bool) -> Builtin:
    """``split`` and ``rsplit``; without an argument at single blanks."""

    def split(args: Args, meter: Meter) -> list[str]:
        need(args, str)
        meter.reads(args[0])
        mark = text(args[1], meter) if len(args) > 1 else " "
        if not mark:
            raise EngineError("empty separator")
        most = args[2] if len(args) > 2 else -1
        if not isinstance(most, int):
            raise EngineError(f"{kind(most)} is not an int value")
        if from_right:
            meter.product(args[0], mark)
        out: list[str] = args[0].rsplit(mark, most) if from_right else args[0].split(mark, most)
        meter.tick(1 + len(out), len(args[0]))
        return out

    return split


def replace(args: Args, meter: Meter) -> str:
    """``replace``."""
    need(args, str, str, str)
    if len(args) > 3 and (not isinstance(args[3], int) or args[3] > 0):
        raise EngineError("NotImplemented: String replace with count argument")
    value, old, new = args[:3]
    meter.reads(value)
    meter.replaced(value, old, new)
    if not old:
        return by_bytes(value, lambda b: b.replace(b"", new.encode())) if old != new else value
    out: str = value.replace(old, new)
    return out


def formatted(args: Args, meter: Meter) -> str:
    """``format``: only ``{}``."""
    need(args, str)
    out: list[str] = []
    rest, place = args[0], 1
    while "{" in rest:
        head, _, rest = rest.partition("{")
        if not rest.startswith("}"):
            raise EngineError("NotImplemented: format() only supports simple '{}' placeholders")
        if place >= len(args):
            raise EngineError("format() has too few arguments")
        out += (head, text(args[place], meter))
        rest, place = rest[1:], place + 1
        meter.tick(1 + len(rest) // 256, len(out[-2]) + len(out[-1]))
    meter.joined("", out)
    return "".join((*out, rest))


def whole(args: Args, meter: Meter) -> int:
    """``int`` of a text: its beginning, as in C."""
    if not isinstance(args[0], str):
        raise EngineError("int() first argument must be a string")
    base = named(args, "base", 2, 10)
    if not is_int(base) or (base and not 2 <= base <= 36):
        raise EngineError("int() base must be 0 or between 2 and 36")
    other = named(args, "default", 1, 0)
    found = re.match(r"[ \t\n\v\f\r]*([+-]?(?:0[xX])?[0-9A-Za-z]{1,40})", args[0])
    digits = found[1] if found else ""
    while digits:
        try:
            value = int(digits, base)
        except ValueError:
            digits = digits[:-1]
            continue
        return value if -(1 << 31) <= value < 1 << 31 else int(other)
    return int(other)


def real(args: Args, meter: Meter) -> float:
    """``float`` of a text."""
    need(args, str)
    found = re.match(r"[ \t\n\v\f\r]*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)", args[0][:400])
    return float(found[1]) if found else float(named(args, "default", 1, 0.0))


def sliced(args: Args, meter: Meter) -> Any:
    """``slice``."""
    need(args[:2], (str, list, tuple), int)
    stop, step = (*args[2:], *(UNDEFINED, UNDEFINED))[:2]
    if len(args) < 4:
        stop, step = args[1] if len(args) == 2 else stop, 1
    if not is_int(stop) or not is_int(step):
        raise EngineError("slice needs integers")
    meter.reads(args[0])
    return cut(args[0], args[1], stop, step)


def indented(args: Args, meter: Meter) -> str:
    """``indent``."""
    need(args, str)
    width, first, blank = named(args, "width", 1), truth(named(args, "first", 2)), truth(named(args, "blank", 3))
    meter.reads(args[0])
    meter.width(width)
    fill = " " * max(width, 0) if is_int(width) else width if isinstance(width, str) else "    "
    meter.room(len(args[0]) + (args[0].count("\n") + 2) * (len(fill) + 1), 2)
    lines = args[0].split("\n")
    if lines[-1] == "":
        lines.pop()
    out: list[str] = []
    begun = False
    for line in lines:
        put = ("\n" if begun else "") + (fill if (line or blank if begun else first) else "") + line
        out.append(put)
        begun = begun or bool(put)
    return "".join(out) + ("\n" + (fill if blank else "") if args[0].endswith("\n") else "")
