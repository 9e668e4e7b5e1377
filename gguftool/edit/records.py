"""The undo records beside a model, as a history: joined when they become many, found again under a former name.

Every record leads from one state of the file to the one before it, and two of them in a row can be made one that
leads from the later state to the earlier in one step. So the number of records stays small, and the first file stays
in reach.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator

from gguftool.edit.journal import MAGIC, Record, read, undo_path
from gguftool.edit.oslayer import OsLayer
from gguftool.records import replace

KEEP = 5
"""Undo records kept beside a file; the oldest ones are joined."""
_BETWEEN = "-undo-"
_DIGITS = 18
"""Of the number of a record, at most."""


def undo_numbers(layer: OsLayer, path: str) -> list[int]:
    """Numbers of the undo records beside a file, the newest first; what does not begin as one is none."""
    return [number for number in numbered(layer, path) if _begins(layer, undo_path(path, number))]


def numbered(layer: OsLayer, path: str) -> list[int]:
    """Numbers of the files beside a model that have the name of an undo record, the newest first."""
    stem = os.path.basename(undo_path(path, 1)).removesuffix("-undo-1")
    return _families(layer, os.path.dirname(path)).get(stem, [])


def _begins(layer: OsLayer, path: str) -> bool:
    try:
        fd = layer.open(path, write=False)
    except OSError:
        return False
    try:
        return layer.read(fd, 0, len(MAGIC)) == MAGIC
    finally:
        layer.close(fd)


def _families(layer: OsLayer, folder: str) -> dict[str, list[int]]:
    """The numbers of all files in a folder that are named like undo records, by what stands in front, newest first."""
    found: dict[str, list[int]] = {}
    for name in layer.listdir(folder):
        stem, _, number = name.rpartition(_BETWEEN)
        if not (stem and number.isascii() and number.isdecimal() and number[0] != "0" and len(number) <= _DIGITS):
            continue
        s = layer.stat(os.path.join(folder, name))
        if s is not None and stat.S_ISREG(s.st_mode):
            found.setdefault(stem, []).append(int(number))
    return {stem: sorted(numbers, reverse=True) for stem, numbers in found.items()}


def next_path(layer: OsLayer, path: str) -> str:
    """The name of the next undo record; nothing has it."""
    numbers = numbered(layer, path)
    number = numbers[0] + 1 if numbers else 1
    taken = set(layer.listdir(os.path.dirname(path)))
    while os.path.basename(undo_path(path, number)) in taken:
        number += 1
    return undo_path(path, number)


def record_at(layer: OsLayer, path: str) -> Record | None:
    """The undo record of that name; None when it cannot be read or is not whole."""
    try:
        fd = layer.open(path, write=False)
    except OSError:
        return None
    try:
        found = read(layer, fd)
    finally:
        layer.close(fd)
    return found[0] if found is not None else None


def history(path: str, layer: OsLayer | None = None) -> Iterator[tuple[int, Record | None]]:
    """The undo records of a file, the newest first, damaged ones as None; those of its former name when it has none."""
    layer = layer or OsLayer()
    path = os.path.realpath(path)
    numbers = numbered(layer, path)
    if not numbers and layer.stat(path) is not None:
        former = former_path(layer, path)
        if former is not None:
            path, numbers = former, numbered(layer, former)
    for number in numbers:
        yield number, record_at(layer, undo_path(path, number))


def undo_records(path: str, layer: OsLayer | None = None) -> Iterator[tuple[int, Record]]:
    """The readable undo records of a file, the newest first."""
    for number, record in history(path, layer):
        if record is not None:
            yield number, record


def drop_record(layer: OsLayer, path: str, number: int, record: Record) -> None:
    """Remove an undo record, when it is the one that is meant.

    Args:
        layer: the operating system.
        path: the model.
        number: of the undo record.
        record: the edit, or the one that took it back.
    """
    there = record_at(layer, undo_path(path, number))
    ends = ((record.old_size, record.old_sha), (record.new_size, record.new_sha))
    if there is not None and (there.new_size, there.new_sha) in ends:
        layer.unlink(undo_path(path, number))


# -- the former name


def former_path(layer: OsLayer, path: str, state: tuple[int, str] | None = None) -> str | None:
    """The name a file had before, by an undo record whose model is gone and that leads to just this file.

    Args:
        layer: the operating system.
        path: the file.
        state: its length and the hash of its front, when they are known; else they are read.
    """
    folder = os.path.dirname(path)
    families = _families(layer, folder)
    if not families:
        return None
    names = set(layer.listdir(folder))
    for stem, numbers in families.items():
        if stem in names:
            continue
        record = record_at(layer, os.path.join(folder, f"{stem}-undo-{numbers[0]}"))
        if record is not None and (state or _state(layer, path, record.new_front)) == (record.new_size, record.new_sha):
            return os.path.join(folder, stem)
    return None


def _state(layer: OsLayer, path: str, front: int) -> tuple[int, str]:
    fd = layer.open(path, write=False)
    try:
        return layer.fstat(fd).st_size, hashlib.sha256(layer.read(fd, 0, front)).hexdigest()
    finally:
        layer.close(fd)


def adopt(layer: OsLayer, path: str, state: tuple[int, str] | None = None) -> bool:
    """Give the records of a file's former name its present one; False when there are none. See `former_path`."""
    former = former_path(layer, path, state)
    if former is None:
        return False
    # The newest last: until it has the new name, all is found under the former one.
    for number in reversed(undo_numbers(layer, former)):
        layer.rename(undo_path(former, number), undo_path(path, number))
    layer.syncdir(os.path.dirname(path))
    return True


# -- what an edit has not changed


def as_it_stands(record: Record, read_at: Callable[[int, int], bytes]) -> Record:
    """The record with the tensor bytes among the saved ones as they are now.

    Whole blocks are saved, and the last one of a header holds tensor data too. It stands in the file, unchanged by the
    edit; when something else has changed it since (a repair, another program), that is how it stays.

    Args:
        record: an undo record that fits the file.
        read_at: bytes of the file: (offset, length).

    Returns:
        The same object when nothing differs.
    """
    if record.strategy == "rewrite":
        return record  # what it saved stands nowhere else
    payload, at = bytearray(record.payload), 0
    for start, n in record.saved:
        cut = max(record.old_front, start)
        if cut < start + n:
            payload[at + cut - start : at + n] = read_at(cut + record.shift, start + n - cut)
        at += n
    return record if payload == record.payload else replace(record, payload=bytes(payload))
