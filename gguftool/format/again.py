"""Large arrays that many files share: a fleet of thousands of models has a few dozen vocabularies.

In a process that looks at many models the last few different ones are remembered, with what was found out about each,
so that the next file with the same one is compared with it, byte by byte, in place of being walked. Nothing is
remembered unless `remember` was called.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from gguftool.format.header import Field
from gguftool.format.types import STR, Layout
from gguftool.records import dataclass, field

T = TypeVar("T")
MANY = 1 << 12
"""Strings of an array; fewer are walked in no time."""
LEAST = 1 << 16
"""Bytes of an array; a smaller one is walked in no time."""


@dataclass(frozen=True, slots=True, eq=False)
class _Array:
    """The bytes of an array of strings, how it is laid out, and what was found out about it."""

    data: bytes
    count: int
    layout: Layout
    found: dict[str, Any] = field(default_factory=dict)


_LOCK = threading.Lock()
_ROOM = 0
_KNOWN: deque[_Array] = deque()
"""The last one that was met at its end."""


def remember(room: int) -> None:
    """From now on remember the last arrays, together up to so many bytes of their files; 0 forgets them all."""
    global _ROOM
    with _LOCK:
        _ROOM = room
        _trim()


def _trim() -> None:
    while _KNOWN and sum(len(one.data) for one in _KNOWN) > _ROOM:
        _KNOWN.popleft()


def length(buffer: memoryview, at: int, count: int, layout: Layout) -> int:
    """Bytes of the array of strings at a place in a buffer, where it is one that was met before; else 0."""
    for one in tuple(_KNOWN) if count > MANY else ():
        n = len(one.data)
        if one.count == count and one.layout == layout and _stands(one.data, buffer, at):
            return n
    return 0


def _stands(data: bytes, buffer: memoryview, at: int) -> bool:
    whole = buffer.obj
    # A view compares number by number, bytes compare as a block.
    if isinstance(whole, bytes) and len(whole) == len(buffer):
        return whole.startswith(data, at)
    return len(data) + at <= len(buffer) and bytes(buffer[at : at + len(data)]) == data


def of(f: Field, name: str, compute: Callable[[bytes, int, int], T]) -> T:
    """What is found out about the strings of an array, under a name; it must not hold the model.

    ``compute`` takes bytes that hold them, their start there and their end. What is remembered gets bytes of its own.
    """
    view, count = f.value_bytes, f.count or 0
    if not LEAST <= len(view) <= _ROOM or f.element_type != STR:
        return compute(*f.stands)
    with _LOCK:
        alike = (one for one in _KNOWN if (one.count, len(one.data), one.layout) == (count, len(view), f.layout))
        known = next((one for one in alike if bytes(view) == one.data), None)
        if known is None:
            known = _Array(bytes(view), count, f.layout)
        else:
            _KNOWN.remove(known)
        _KNOWN.append(known)
        _trim()
    if name not in known.found:
        known.found[name] = compute(known.data, 0, len(known.data))
    value: T = known.found[name]
    return value
