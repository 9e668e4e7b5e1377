"""The record of one edit: what the old file was, in terms of the new one.

It lies beside the model as ``m.gguf-journal`` while the edit runs (it is also the lock) and as ``m.gguf-undo-N`` when
it is done. One format serves going back after a crash, undo, and the hash of the published file.

Layout: magic, two lengths, JSON, saved bytes of the old file, sha256 of all that, zeros up to a multiple of 4096, then
one block of its own for the phase, so that a torn mark cannot hurt the record. A torn mark reads as phase 0.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator

from gguftool.brief import short_repr
from gguftool.edit.oslayer import BLOCK, OsLayer
from gguftool.format.frame import align
from gguftool.records import asdict, dataclass, field, replace
from gguftool.source import beside

MAGIC = b"gguftool-record\x01"
STARTED, INSERTED, ROLLBACK = 0, 1, 2
_HEAD = struct.Struct("<16sQQ")
_PHASE = struct.Struct("<8sI")
_PHASE_MAGIC = b"GGTPHASE"
RECORD_LIMIT = 3 << 30
LARGEST_FILE = 1 << 62
LAST_SECOND = 1 << 37
"""Seconds since 1970 that every calendar here still knows: the year 6325."""
MOST_HOLES = 1000
"""Holes that a record holds; a file with more is written anew, not moved."""
_DIGITS = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Record:
    """One edit.

    Attributes:
        strategy: ``patch``, ``insert`` or ``rewrite``.
        shift: bytes inserted in front (``insert``), else 0.
        old_size, new_size: length of the file before and after.
        old_front, new_front: how many bytes from the start `old_sha` and `new_sha` cover: the header with its padding.
        old_sha, new_sha: sha256 of the front before and after, hexadecimal.
        saved: ranges (start, length) of the old file whose bytes are in `payload`, one behind the other.
        moved: (start in the old file, start in the new file, length) of all other bytes of the old file.
        undo_of: number of the undo record this edit takes back, 0 for an ordinary edit.
        operations: what was done, a line each.
        argv: the command line.
        version: of gguftool. time: seconds since 1970. mtime: of the old file, in ns. group: id shared by the edits of
            one command.
        holes: (start, length) of the holes of the old file (``insert``); what is moved leaves another one meanwhile.
        payload: the saved bytes.
    """

    strategy: str
    shift: int
    old_size: int
    new_size: int
    old_front: int
    new_front: int
    old_sha: str
    new_sha: str
    saved: tuple[tuple[int, int], ...]
    moved: tuple[tuple[int, int, int], ...]
    undo_of: int = 0
    operations: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    version: str = ""
    time: float = 0.0
    mtime: int = 0
    group: str = ""
    holes: tuple[tuple[int, int], ...] = ()
    payload: bytes = field(default=b"", repr=False)

    __repr__ = short_repr

    def pieces(self) -> Iterator[tuple[int, int, int | None, int]]:
        """The old file from front to end: (start, length, start in `payload` or None, start in the new file)."""
        rows: list[tuple[int, int, int | None, int]] = []
        at = 0
        for start, n in self.saved:
            rows.append((start, n, at, 0))
            at += n
        rows.extend((old, n, None, new) for old, new, n in self.moved)
        return iter(sorted(rows))


def pack(record: Record, phase: int = STARTED) -> bytes:
    """The record as bytes, phase block included."""
    fields = asdict(replace(record, payload=b""))
    del fields["payload"]
    if not record.holes:
        # Older versions know no such field; so they can read all records but those of files with holes.
        del fields["holes"]
    text = json.dumps(fields, ensure_ascii=True, separators=(",", ":")).encode()
    # The payload may have many MB: one copy of it, not three.
    parts = [_HEAD.pack(MAGIC, len(text), len(record.payload)), text, record.payload]
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part)
    parts.append(whole.digest())
    size = sum(map(len, parts))
    parts += [bytes(align(size, BLOCK) - size), pack_phase(record, phase) if phase != STARTED else bytes(BLOCK)]
    return b"".join(parts)


def pack_phase(record: Record, phase: int) -> bytes:
    """The phase block; bound to the record, so that a block of another journal does not pass."""
    head = _PHASE.pack(_PHASE_MAGIC, phase)
    mark = head + hashlib.sha256(head + _token(record)).digest()
    return mark + bytes(BLOCK - len(mark))


def _token(record: Record) -> bytes:
    return f"{record.new_sha} {record.old_sha} {record.time}".encode()


def read(layer: OsLayer, fd: int) -> tuple[Record, int] | None:
    """Record and phase of an open journal or undo record; None when it is not whole."""
    size = layer.fstat(fd).st_size
    head = layer.read(fd, 0, _HEAD.size)
    if len(head) < _HEAD.size:
        return None
    magic, n_text, n_payload = _HEAD.unpack(head)
    end = _HEAD.size + n_text + n_payload + 32
    whole = align(end, BLOCK) + BLOCK
    if magic != MAGIC or end > RECORD_LIMIT or whole != size:
        return None
    body = layer.read(fd, 0, end)
    if len(body) != end or hashlib.sha256(memoryview(body)[:-32]).digest() != body[-32:]:
        return None
    from gguftool.reading import from_json

    try:
        fields = from_json(body[_HEAD.size : _HEAD.size + n_text], halves=True)
        for key in ("saved", "moved", *(("holes",) if "holes" in fields else ())):
            fields[key] = tuple(tuple(row) for row in fields[key])
        for key in ("operations", "argv"):
            fields[key] = tuple(str(line) for line in fields[key])
        record = Record(**fields, payload=body[_HEAD.size + n_text : -32])
        if not _sane(record):
            return None
    except (ValueError, TypeError, KeyError):
        return None
    return record, _read_phase(layer.read(fd, whole - BLOCK, BLOCK), record)


def begun(data: bytes) -> bool:
    """Whether bytes that are no whole record can be one whose writing was cut short: its beginning, or nothing."""
    return data[: len(MAGIC)] == MAGIC[: len(data)] or not any(data)


def _sane(record: Record) -> bool:
    """Whether all numbers are of the files they speak of; a record may come from anywhere."""
    sizes = (record.old_size, record.new_size, record.old_front, record.new_front, record.undo_of, record.mtime)
    if not all(type(n) is int and n >= 0 for n in sizes) or type(record.shift) is not int or record.shift < 0:
        return False
    if not _sane_words(record) or max(sizes) > LARGEST_FILE or max(record.old_front, record.new_front) > RECORD_LIMIT:
        return False
    if record.old_front > record.old_size or record.new_front > record.new_size:
        return False
    if record.strategy == "patch" and record.old_front != record.new_front:
        return False
    if record.strategy != "rewrite" and (record.shift % BLOCK or record.new_size - record.old_size != record.shift):
        return False
    if record.strategy not in ("patch", "insert", "rewrite") or (record.shift != 0) != (record.strategy == "insert"):
        return False
    for start, n in record.saved:
        if not (type(start) is int and type(n) is int and 0 <= start <= start + n <= record.old_size):
            return False
    for old, new, n in record.moved:
        if not all(type(x) is int and x >= 0 for x in (old, new, n)):
            return False
        if old + n > record.old_size or new + n > record.new_size:
            return False
    if not _sane_holes(record):
        return False
    in_place = record.strategy != "rewrite"
    first_is_front = bool(record.saved) and record.saved[0][0] == 0
    return sum(n for _, n in record.saved) == len(record.payload) and (first_is_front or not in_place)


def _sane_holes(record: Record) -> bool:
    """Whether the holes are some of the old file, in order and apart, and none is in its header."""
    if record.holes and (record.strategy != "insert" or len(record.holes) > MOST_HOLES):
        return False
    behind = align(record.old_front, BLOCK)
    for start, n in record.holes:
        if not (type(start) is int and type(n) is int and behind <= start and 0 < n <= record.old_size - start):
            return False
        behind = start + n + 1
    return True


def _sane_words(record: Record) -> bool:
    """Whether what is not a place is a text, a time or a sum."""
    if not all(isinstance(x, str) for x in (record.version, record.group, *record.operations, *record.argv)):
        return False
    if not all(isinstance(x, str) and len(x) == 64 and _DIGITS.issuperset(x) for x in (record.old_sha, record.new_sha)):
        return False
    return type(record.time) in (int, float) and 0 <= record.time < LAST_SECOND


def _read_phase(block: bytes, record: Record) -> int:
    for phase in (INSERTED, ROLLBACK):
        if block == pack_phase(record, phase):
            return phase
    return STARTED


def undo_path(path: str, number: int) -> str:
    """Undo record ``number`` of a model file."""
    return beside(path, f"-undo-{number}")
