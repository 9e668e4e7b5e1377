"""Numbers as variables of C keep them: cut off, wrapped around."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def whole(value: Any) -> int:
    """A number without what stands behind the point; what is none is the number that x86 makes of it."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return -(1 << 31)
        return int(value)
    return int(value)


def _signed(bits: int) -> Callable[[Any], int]:
    half = 1 << (bits - 1)
    return lambda v: (whole(v) + half) % (1 << bits) - half


_COERCE: dict[str, Callable[[Any], Any]] = {
    "i": _signed(32),
    "l": _signed(64),
    "u": lambda v: whole(v) & 0xFFFFFFFF,
    "z": lambda v: whole(v) & 0xFFFFFFFFFFFFFFFF,
    "B": lambda v: whole(v) & 0xFF,
    "f": float,
    "b": bool,
}


def coerced(code: str, value: Any) -> Any:
    """A value as a variable of that type keeps it."""
    convert = _COERCE.get(code)
    if convert is None or not isinstance(value, (int, float)):
        return value
    return convert(value)
