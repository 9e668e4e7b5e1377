"""What a file was before gguftool edited it, out of the undo records beside it, without undoing anything."""

from __future__ import annotations

import hashlib

from gguftool.edit.journal import Record
from gguftool.edit.records import as_it_stands, undo_records
from gguftool.source import LocalFile, Source
from gguftool.verify.hashes import hash_file
from gguftool.verify.stream import Progress


class Before:
    """A file as it was before one edit: bytes the edit replaced come from its record, all others from the file."""

    def __init__(self, source: Source, record: Record) -> None:
        self.name = source.name
        self.size = record.old_size
        self._source = source
        self._record = record
        self._pieces = list(record.pieces())

    def read_at(self, offset: int, n: int) -> bytes:
        """As `Source.read_at`."""
        end = min(offset + n, self.size)
        parts: list[bytes] = []
        for start, length, saved, now in self._pieces:
            a, b = max(start, offset), min(start + length, end)
            if a >= b:
                continue
            if saved is None:
                parts.append(self._source.read_at(now + a - start, b - a))
            else:
                parts.append(self._record.payload[saved + a - start : saved + b - start])
        return b"".join(parts)

    def close(self) -> None:
        """The source belongs to somebody else."""


def original(path: str, sha256: str, progress: Progress | None = None) -> int | None:
    """How many edits ago a file had that sha256; None when its undo records do not lead there.

    Args:
        path: the file as it is now.
        sha256: the hash it should have had.
        progress: called with the bytes hashed.
    """
    file = LocalFile(path)
    try:
        source: Source = file
        for steps, (_, record) in enumerate(undo_records(path), start=1):
            front = source.read_at(0, record.new_front)
            if source.size != record.new_size or hashlib.sha256(front).hexdigest() != record.new_sha:
                return None
            source = Before(source, as_it_stands(record, source.read_at))
            if hash_file(source, progress=progress).file == sha256:
                return steps
        return None
    finally:
        file.close()
