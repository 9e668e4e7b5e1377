"""What lies in a zip file, and in a program with a zip file at its end: names, sizes, and where the bytes begin.

Only the list at the end is read (APPNOTE.TXT of PKWARE, 4.3.12 to 4.3.16), with limits; nothing is unpacked. Python's
own `zipfile` would read a list of any length.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from gguftool.records import dataclass

Read = Callable[[int, int], bytes]
"""At most n bytes from an offset of the file."""

_TAIL = 1 << 16
_LIST = 8 << 20
"""Bytes of a list that are read."""
_MOST = 100_000
_WHOLE = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Member:
    """One file in a zip: its name, its length, whether it is stored as it is, where its bytes begin (0: unknown)."""

    name: str
    size: int
    stored: bool
    offset: int


def members(read: Read, size: int) -> list[Member]:
    """What the zip holds that ends with the file; empty when there is none, or its list is damaged.

    Args:
        read: the file.
        size: its length in bytes.
    """
    try:
        return list(_members(read, size))
    except (struct.error, OSError):
        return []


def _members(read: Read, size: int) -> Iterator[Member]:
    start = max(0, size - _TAIL - 22)
    tail = read(start, size - start)
    at = tail.rfind(b"PK\5\6")
    if at < 0:
        return
    count, length, begin = struct.unpack_from("<HII", tail, at + 10)
    end = start + at
    if at >= 20 and tail[at - 20 : at - 16] == b"PK\6\7":
        far = struct.unpack_from("<Q", tail, at - 20 + 8)[0]
        record = read(far, 56)
        if record[:4] == b"PK\6\6":
            count, length, begin = struct.unpack_from("<QQQ", record, 32)
            end = far
    if length > _LIST or length > end:
        return
    # Of a zip that was put behind a program the offsets may count from the zip's own beginning.
    shift = end - length - begin
    listed = read(end - length, length)
    pos = 0
    for _ in range(min(count, _MOST)):
        if listed[pos : pos + 4] != b"PK\1\2":
            return
        method = struct.unpack_from("<H", listed, pos + 10)[0]
        packed, full, name_length, extra_length, note_length = struct.unpack_from("<IIHHH", listed, pos + 20)
        where = struct.unpack_from("<I", listed, pos + 42)[0]
        name = listed[pos + 46 : pos + 46 + name_length].decode("utf-8", "replace")
        extra = listed[pos + 46 + name_length : pos + 46 + name_length + extra_length]
        full, where = _long(extra, full, packed, where)
        yield Member(name, full, method == 0, _data(read, where + shift) if method == 0 else 0)
        pos += 46 + name_length + extra_length + note_length


def _long(extra: bytes, full: int, packed: int, where: int) -> tuple[int, int]:
    """Length and place from the field of zip64, which holds what does not fit into 32 bits, in this order."""
    pos = 0
    while pos + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, pos)
        if kind == 1:
            values = iter(struct.unpack_from(f"<{min(length, 24) // 8}Q", extra, pos + 4))
            full = next(values, full) if full == _WHOLE else full
            if packed == _WHOLE:
                next(values, None)
            where = next(values, where) if where == _WHOLE else where
        pos += 4 + length
    return full, where


def _data(read: Read, where: int) -> int:
    """Where the bytes of a member begin: behind the record in front of them, which has lengths of its own."""
    record = read(where, 30) if where >= 0 else b""
    if record[:4] != b"PK\3\4":
        return 0
    name, extra = struct.unpack_from("<HH", record, 26)
    return where + 30 + int(name) + int(extra)
