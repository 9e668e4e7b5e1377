"""Values that are stored as what differs from another one: JSON in, JSON out.

A difference is a list whose first word says what it is::

    ["="]                      nothing differs
    ["v", value]               another value
    ["d", {key: difference}, [keys that are gone]]
    ["l", step, …]             a list, front to back: n keeps n entries, -n leaves n out, {"+": [entries]} puts them in,
                               a difference changes one entry
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def applied(value: Any, difference: Sequence[Any]) -> Any:
    """The value that the difference leads to; ``value`` itself is left as it is."""
    kind = difference[0]
    if kind == "=":
        return value
    if kind == "v":
        return difference[1]
    if kind == "d":
        out = dict(value)
        for key in difference[2]:
            out.pop(key, None)
        for key, inner in difference[1].items():
            out[key] = applied(value.get(key), inner)
        return out
    entries: list[Any] = []
    at = 0
    for step in difference[1:]:
        if isinstance(step, int):
            if step > 0:
                entries += value[at : at + step]
            at += abs(step)
        elif isinstance(step, dict):
            entries += step["+"]
        else:
            entries.append(applied(value[at], step))
            at += 1
    return entries
