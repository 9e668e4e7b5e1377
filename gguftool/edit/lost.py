"""A file in the middle of an edit whose journal is gone: whether one of its undo records tells what it was."""

from __future__ import annotations

import hashlib

from gguftool.edit.gaps import moved_up
from gguftool.edit.journal import Record
from gguftool.edit.oslayer import OsLayer
from gguftool.edit.records import undo_records
from gguftool.format.frame import MAGIC
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class Found:
    """An undo record that fits.

    Attributes:
        number: of the record.
        record: what it says.
        front: the whole front of the old or the new file, which stands there but for the magic; None when the saved
            bytes of the old one are needed.
        is_new: `front` is that of the new file.
    """

    number: int
    record: Record
    front: bytes | None = None
    is_new: bool = False


def fitting(layer: OsLayer, path: str, model: int) -> Found | None:
    """The newest undo record with which the bytes of a file that has lost its magic make sense.

    Proof is the hash of a whole front: of the new file as it stands, of the old one as it stands, or of the old one
    made of the saved bytes and of those that stand there.
    """
    size = layer.fstat(model).st_size
    for number, record in undo_records(path, layer):
        if record.strategy == "rewrite" or size not in (record.old_size, record.new_size):
            continue  # a new file has its magic from the start
        there = layer.read(model, 0, max(record.old_front, record.new_front))
        for length, is_new in ((record.new_front, True), (record.old_front, False)):
            front = MAGIC + there[4:length]
            wanted = (record.new_size, record.new_sha) if is_new else (record.old_size, record.old_sha)
            if (size, _sha(front)) == wanted:
                return Found(number, record, front, is_new)
        shift = record.shift if size == record.new_size else 0
        whole = not shift or moved_up(layer, model, record)
        if whole and _sha(_old_front(layer, model, record, shift)) == record.old_sha:
            return Found(number, record)
    return None


def _old_front(layer: OsLayer, model: int, record: Record, shift: int) -> bytes:
    """The front of the old file: saved bytes, and those that stand in the file, moved by ``shift``."""
    front, at = bytearray(layer.read(model, shift, record.old_front)), 0
    for start, n in record.saved:
        part = record.payload[at : at + n][: max(0, record.old_front - start)]
        front[start : start + len(part)] = part
        at += n
    return bytes(front)


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
