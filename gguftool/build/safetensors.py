"""The header of a safetensors file: names, types, shapes and places, nothing of the data.

Eight bytes of length, then JSON; see the format's description in huggingface/safetensors.
"""

from __future__ import annotations

import os
import struct
from typing import Any

from gguftool.errors import FormatError
from gguftool.format.sniff import HEAD, what_is
from gguftool.reading import from_json
from gguftool.records import dataclass
from gguftool.source import LocalFile

_LONGEST_HEADER = 100_000_000
"""Bytes; the format itself allows no more."""
_MOST = 1 << 18
"""Tensors of one file; the largest models have 212,000 in all their files together."""
_DEEPEST = 16
"""Dimensions of a tensor."""
_LFS = b"version https://git-lfs"
BITS = {
    "F64": 64, "I64": 64, "U64": 64, "C64": 64,
    "F32": 32, "I32": 32, "U32": 32,
    "F16": 16, "BF16": 16, "I16": 16, "U16": 16,
    "BOOL": 8, "U8": 8, "I8": 8,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}  # fmt: skip
"""Bits of one element of each data type (`safetensors/src/tensor.rs:Dtype`)."""
FLOATS = frozenset({"F64", "F32", "F16", "BF16"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor.

    Attributes:
        name: its name.
        dtype: as written (``BF16``).
        shape: sizes, the outermost first.
        nbytes: bytes of data.
        begin: where they begin, behind the header.
        file: name of the file.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    begin: int = 0
    file: str = ""

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
        FormatError: not safetensors, shorter than its header says, or with more than is read; ``kind`` says which:
            ``lfs-pointer``, ``empty-file``, ``never-written``, ``truncated``, ``broken-header``, ``not-safetensors``,
            ``too-many``.
    """
    file = LocalFile(path)
    try:
        head = file.read_at(0, 8)
        size = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
        start = file.read_at(8, 1)
        if not size or start != b"{":
            raise _something_else(path, file.read_at(0, HEAD), file.size)
        if size > _LONGEST_HEADER or 8 + size > file.size:
            words = f"{path}: is cut off inside its header, which has {size:,} bytes; the file {file.size:,}"
            raise FormatError(words, "download it again", offset=0, kind="truncated")
        return _entries(path, file.read_at(8, size), file.size - 8 - size)
    finally:
        file.close()


def _something_else(path: str, head: bytes, size: int) -> FormatError:
    """What lies there instead."""
    kind, what, hint, _ = what_is(head, size, path)
    names = {"empty": "empty-file", "zeros": "never-written", "lfs-pointer": "lfs-pointer"}
    if kind == "unknown" or (kind not in names and size < 8):
        what, hint = "it is not a safetensors file, or was cut off", "download it again"
    elif kind == "lfs-pointer":
        hint = "git lfs pull"
    named = names.get(kind, "not-safetensors" if size >= 8 else "truncated")
    return FormatError(f"{path}: {what}", hint, offset=0, kind=named)


def _entries(path: str, text: bytes, data_size: int) -> list[Entry]:
    # Counted before anything is made of it: 100 MB of brackets come to gigabytes of objects.
    if text.count(b"{") > _MOST or text.count(b"[") > 4 * _MOST or text.count(b",") > _DEEPEST * _MOST:
        words = f"{path}: its header holds more than the {_MOST:,} tensors that are read"
        raise FormatError(words, "is it the model?", offset=8, kind="too-many")
    name = os.path.basename(path)
    try:
        found = from_json(text)
        out = [_entry(key, row, name) for key, row in found.items() if key != "__metadata__"]
    except (ValueError, KeyError, TypeError, AttributeError):
        words = f"{path}: the header of this safetensors file is broken"
        raise FormatError(words, "download it again", offset=8, kind="broken-header") from None
    end = max((e.begin + e.nbytes for e in out), default=0)
    if end > data_size:
        first = next(e for e in out if e.begin + e.nbytes > data_size)
        over = first.begin + first.nbytes - data_size
        words = f"{path}: is cut off: {first.name} ends {over:,} bytes behind the end of the file"
        raise FormatError(words, "download it again", key=first.name, kind="truncated")
    return out


def _entry(name: str, row: Any, file: str) -> Entry:
    shape, places = row["shape"], row["data_offsets"]
    if not isinstance(row["dtype"], str) or len(shape) > _DEEPEST or type(shape) is not list or len(places) != 2:
        raise ValueError("not a tensor")
    for n in (*shape, *places):
        if type(n) is not int or not 0 <= n < 1 << 63:
            raise ValueError("not a size")
    begin, end = places
    if end < begin:
        raise ValueError("ends before it begins")
    return Entry(name, row["dtype"], tuple(shape), end - begin, begin, file)


def is_lfs_pointer(path: str) -> bool:
    """Whether a small file is a Git LFS pointer."""
    try:
        if os.path.getsize(path) > 1024:
            return False
        with open(path, "rb") as f:
            return f.read(len(_LFS)) == _LFS
    except OSError:
        return False
