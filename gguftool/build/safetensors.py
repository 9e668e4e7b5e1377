"""The header of a safetensors file: names, types, shapes and places, nothing of the data.

Eight bytes of length, then JSON; see the format's description in huggingface/safetensors.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

from gguftool.errors import FormatError
from gguftool.reading import from_json
from gguftool.source import LocalFile

_LONGEST_HEADER = 100_000_000
"""Bytes; the format itself allows no more."""
_LFS = b"version https://git-lfs"


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor: name, dtype as written (``BF16``), shape, bytes of data."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int

    @property
    def elements(self) -> int:
        """Number of elements."""
        n = 1
        for d in self.shape:
            n *= d
        return n


def read_header(path: str) -> list[Entry]:
    """The tensors of a safetensors file.

    Raises:
        MissingFile, Unreadable: no such file, no permission.
        FormatError: a Git LFS pointer, not safetensors, or shorter than its header says.
    """
    file = LocalFile(path)
    try:
        head = file.read_at(0, 8)
        if head and _LFS.startswith(head[:8]) and len(head) == 8:
            raise FormatError(
                f"{path}: is a Git LFS pointer, not the weights", "git lfs pull", offset=0, kind="lfs-pointer"
            )
        size = struct.unpack("<Q", head)[0] if len(head) == 8 else _LONGEST_HEADER + 1
        if size > _LONGEST_HEADER or 8 + size > file.size:
            raise FormatError(f"{path}: is not a safetensors file, or was cut off", offset=0, kind="truncated")
        return _entries(path, file.read_at(8, size), file.size - 8 - size)
    finally:
        file.close()


def _entries(path: str, text: bytes, data_size: int) -> list[Entry]:
    try:
        found = from_json(text)
        rows = [
            (str(name), str(row["dtype"]), _numbers(row["shape"]), _numbers(row["data_offsets"]))
            for name, row in found.items()
            if name != "__metadata__"
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise FormatError(f"{path}: the header of this safetensors file is broken", offset=8) from None
    out = []
    for name, dtype, shape, places in rows:
        if len(places) != 2 or not 0 <= places[0] <= places[1]:
            raise FormatError(f"{path}: {name} has a wrong place in the file", key=name)
        if places[1] > data_size:
            raise FormatError(
                f"{path}: is cut off: {name} ends {places[1] - data_size:,} bytes behind the end of the file",
                "download it again",
                key=name,
                kind="truncated",
            )
        out.append(Entry(name, dtype, shape, places[1] - places[0]))
    return out


def _numbers(row: object) -> tuple[int, ...]:
    if not isinstance(row, list) or any(type(n) is not int or not 0 <= n < 1 << 63 for n in row):
        raise ValueError("no list of sizes")
    return tuple(row)


def is_lfs_pointer(path: str) -> bool:
    """Whether a small file is a Git LFS pointer."""
    if os.path.getsize(path) > 1024:
        return False
    with open(path, "rb") as f:
        return f.read(len(_LFS)) == _LFS
