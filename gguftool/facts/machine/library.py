"""What C and C++ bring along, for programs that the machine runs: casts, formats, small functions of numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from gguftool.facts.machine.cnumbers import coerced, whole
from gguftool.facts.machine.ends import Unknown
from gguftool.facts.machine.values import Vector
from gguftool.regex import regex

_SPEC = regex(r"%([-+ 0#]*\d*(?:\.\d+)?)(?:hh|h|ll|l|z|t|j)?([diuxXfgeGsc%p])")


def string_format(template: str, *values: Any) -> str:
    """``printf``."""
    rest = list(values)

    def one(m: re.Match[str]) -> str:
        if m[2] == "%":
            return "%"
        if not rest:
            raise Unknown("a message is made of something that is not there")
        value = rest.pop(0)
        kind = "d" if m[2] in "iu" else m[2]
        if kind in "dxX":
            return f"%{m[1]}{kind}" % whole(value)
        if kind in "fgeG":
            return f"%{m[1]}{kind}" % float(value)
        return f"%{m[1]}s" % ("(null)" if value is None else value)

    return _SPEC.sub(one, template)


def _vector(n: Any = 0, fill: Any = 0) -> Vector:
    if not isinstance(n, int):
        return Vector(n)
    if not 0 <= n <= 1 << 20:
        raise Unknown("a vector too long to follow")
    return Vector([fill] * n)


def _array_of(values: list[Any], n: int, fill: Any = 0) -> list[Any]:
    out = Vector(values)
    out.extend([fill] * (n - len(out)))
    return out


def _sqrt(value: Any) -> float:
    return math.sqrt(value) if value >= 0 else math.nan


def _power(a: Any, b: Any) -> float:
    try:
        return float(math.pow(a, b))
    except (OverflowError, ValueError):
        return math.inf


def _replaced(text: str, old: str, new: str) -> None:
    raise Unknown("a string is changed in place")


def std() -> dict[str, Callable[..., Any]]:
    """Functions by name."""
    return {
        "cast": coerced,
        "sizeof": lambda what: 8 if "*" in what or "64" in what else 4,
        "max": lambda *v: max(*v) if len(v) > 1 else max(v[0]),
        "min": lambda *v: min(*v) if len(v) > 1 else min(v[0]),
        "sqrt": _sqrt,
        "sqrtf": _sqrt,
        "pow": _power,
        "powf": _power,
        **dict.fromkeys(("log", "logf"), lambda v: math.log(v) if v > 0 else -math.inf),
        **dict.fromkeys(("exp", "expf"), lambda v: math.exp(min(v, 700))),
        **dict.fromkeys(("floor", "floorf"), math.floor),
        **dict.fromkeys(("ceil", "ceilf"), math.ceil),
        "round": round,
        "abs": abs,
        "fabs": abs,
        "string_format": string_format,
        "to_string": str,
        "string": lambda v="": v,
        "move": lambda v: v,
        "find": lambda where, _, what: True if what in where else None,
        "vector": _vector,
        "array_of": _array_of,
        "mapping": dict,
        "string_ends_with": lambda text, end: text.endswith(end),
        "string_replace_all": _replaced,
    }
