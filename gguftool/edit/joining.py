"""Two undo records in a row as one, which leads from the later state of the file to the earlier in one step."""

from __future__ import annotations

import contextlib
import os
from bisect import bisect_right
from collections.abc import Iterator

from gguftool.edit.journal import Record, pack, undo_path
from gguftool.edit.oslayer import OsLayer
from gguftool.edit.records import KEEP, drop_record, record_at, undo_numbers
from gguftool.records import replace

JOINED_LIMIT = 256 << 20
"""Saved bytes of a joined record, at most; larger ones stay apart."""
_LINES = 100
"""Operations that a joined record names, at most."""


def join_oldest(layer: OsLayer, path: str) -> None:
    """Make one record of the two oldest, until no more than `KEEP` are left.

    The joined one replaces the younger of the two in one step. The older one then leads to a state that is behind the
    file, whatever is undone; it goes in the same way when a run that was killed has left it.
    """
    numbers = undo_numbers(layer, path)
    while len(numbers) > KEEP:
        # Where an edit kept no record, the two beside it do not fit together.
        for index in range(len(numbers) - 1, 1, -1):
            if _join_two(layer, path, numbers[index], numbers[index - 1]):
                del numbers[index]
                break
        else:
            return


def _join_two(layer: OsLayer, path: str, older: int, younger: int) -> bool:
    first = record_at(layer, undo_path(path, older))
    second = record_at(layer, undo_path(path, younger))
    if first is None or second is None:
        return False
    if (first.old_size, first.old_sha) != (second.old_size, second.old_sha):
        joined = join(first, second)
        if joined is None:
            return False
        _replace(layer, path, younger, joined)
    drop_record(layer, path, older, first)
    return True


def _replace(layer: OsLayer, path: str, number: int, record: Record) -> None:
    """Another content for an undo record, in one step, durably."""
    name = undo_path(path, number)
    layer.sweep(path)
    there = layer.open(name, write=False)
    try:
        fd, draft = layer.draft(path)
        try:
            layer.pwrite(fd, 0, pack(record))
            layer.copy_attributes(there, fd)
            layer.fsync(fd)
            layer.rename(draft, name)
            layer.syncdir(os.path.dirname(path))
        except BaseException:
            with contextlib.suppress(OSError):
                layer.unlink(draft)
            raise
        finally:
            layer.close(fd)
    finally:
        layer.close(there)


def join(first: Record, second: Record) -> Record | None:
    """One record for two edits in a row; None when the second did not start from what the first left."""
    end = (first.new_size, first.new_front, first.new_sha)
    if end != (second.old_size, second.old_front, second.old_sha) or first.undo_of or second.undo_of:
        return None
    pieces = list(second.pieces())
    starts = [row[0] for row in pieces]
    saved: list[tuple[int, memoryview]] = []
    moved: list[tuple[int, int, int]] = []
    for old, length, at, between in first.pieces():
        if at is not None:
            saved.append((old, memoryview(first.payload)[at : at + length]))
            continue
        # Where the second edit has brought what the first one moved.
        index = max(0, bisect_right(starts, between) - 1)
        stop = between + length
        while index < len(pieces) and pieces[index][0] < stop:
            start, n, kept, new = pieces[index]
            index += 1
            a, b = max(start, between), min(start + n, stop)
            if a >= b:
                continue
            if kept is None:
                moved.append((old + a - between, new + a - start, b - a))
            else:
                part = memoryview(second.payload)[kept + a - start : kept + b - start]
                saved.append((old + a - between, part))
    if sum(len(part) for _, part in saved) > JOINED_LIMIT:
        return None
    shift = first.shift + second.shift
    copied = "rewrite" in (first.strategy, second.strategy)
    lines = first.operations + second.operations
    if len(lines) > _LINES:
        lines = (*lines[: _LINES // 2], "…", *lines[1 - _LINES // 2 :])
    return replace(
        second,
        strategy="rewrite" if copied else "insert" if shift else "patch",
        shift=0 if copied else shift,
        old_size=first.old_size,
        old_front=first.old_front,
        old_sha=first.old_sha,
        holes=() if copied else first.holes if first.shift else second.holes,
        saved=tuple(_runs((start, len(part)) for start, part in saved)),
        moved=_joined_moves(moved),
        operations=lines,
        mtime=first.mtime,
        payload=b"".join(part for _, part in saved),
    )


def _runs(ranges: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ranges (start, length) in order, neighbours made one."""
    at, size = -1, 0
    for start, n in ranges:
        if at + size == start:
            size += n
            continue
        if size:
            yield at, size
        at, size = start, n
    if size:
        yield at, size


def _joined_moves(moved: list[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
    out: list[tuple[int, int, int]] = []
    for old, new, n in moved:
        if out and (out[-1][0] + out[-1][2], out[-1][1] + out[-1][2]) == (old, new):
            out[-1] = (out[-1][0], out[-1][1], out[-1][2] + n)
        else:
            out.append((old, new, n))
    return tuple(out)
