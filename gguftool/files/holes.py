"""Where a file has bytes and where it has holes: stretches that were never written and are read as zeros."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

Hole = Callable[[int], tuple[int, int]]
"""From an offset on: where the first hole begins and ends; twice the length of the file where none is left."""


def hole_at(fd: int, start: int, size: int) -> tuple[int, int]:
    """The first hole at or behind ``start``: where it begins and ends.

    Both are the length of the file where there is none, or where the system cannot tell.

    Args:
        fd: the file.
        start: an offset.
        size: length of the file.
    """
    if start >= size or not hasattr(os, "SEEK_HOLE"):
        return size, size
    try:
        first = os.lseek(fd, start, os.SEEK_HOLE)
    except OSError:
        return size, size
    try:
        return first, min(os.lseek(fd, first, os.SEEK_DATA), size)
    except OSError:
        return min(first, size), size


def data_in(hole: Hole, start: int, n: int) -> Iterator[tuple[int, int]]:
    """(start, length) of what is no hole in ``n`` bytes from ``start`` on, in order."""
    at, stop = start, start + n
    while at < stop:
        first, end = hole(at)
        if first < at or end < first or end == at:
            # Behind the end of the file, or a system that contradicts itself: taken for bytes, as reading will tell.
            yield at, stop - at
            return
        if first > at:
            yield at, min(first, stop) - at
        at = end


def holes_in(hole: Hole, size: int, most: int) -> list[tuple[int, int]] | None:
    """(start, length) of all holes of a file of ``size`` bytes; None when there are more than ``most``."""
    found: list[tuple[int, int]] = []
    at = 0
    while at < size:
        first, end = hole(at)
        if first >= size or first < at or end <= first:
            break
        if len(found) == most:
            return None
        found.append((first, end - first))
        at = end
    return found
