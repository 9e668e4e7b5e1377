"""A broken header, walked as `gguf.cpp:gguf_init_from_reader` (b11434) walks it, to say the same first words.

Only used when our own parser could not read the header to its end, or when it reads what llama.cpp does not (GGUF v1,
big-endian files, nested arrays).
"""

from __future__ import annotations

import struct
from copy import copy
from weakref import WeakKeyDictionary

from gguftool.facts.marks import bears, borne
from gguftool.format import limits
from gguftool.format.header import TensorInfo
from gguftool.format.types import ARR, MAX_DIMS, MAX_NAME, STR, U32, VALUE_TYPES, value_type_name
from gguftool.predict.verdict import UNKNOWN, LoadEnds
from gguftool.predict.words import (
    KV_FAILED,
    SIZE_MAX,
    TENSOR_FAILED,
    alignment_abort,
    check_offsets,
    empty_key,
    failed,
    init,
    key_twice,
    shape_fault,
    signed64,
    tensor_twice,
    type_fault,
)
from gguftool.source import Source

MAX_STRING = MAX_ELEMENTS = 1 << 30
"""Limits of `gguf.cpp` for the length of a string and of an array."""
SIZEOF_TENSOR_INFO, SIZEOF_KV = 344, 88
"""Sizes of two C++ structures that bound the counts (`gguf.cpp`, x86-64)."""
_MOST_LENGTH = (1 << 62) - 1
_MOST_ROOM = 64 << 30
"""What a std::string can hold, and a machine."""
_CHUNK = 1 << 20
_MOST_STRINGS = limits.STRINGS + limits.FIELDS + limits.TENSORS


class _Eof(Exception):
    """A read passes the end of the file; ``lines``: what llama.cpp printed on the way."""

    def __init__(self, *lines: str) -> None:
        self.lines = lines


class _Cursor:
    """Sequential reads, with the file's length as the only limit."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.pos = 0
        self.base = 0
        self.buf = b""
        self.strings = 0

    @property
    def left(self) -> int:
        return self.source.size - self.pos

    def over(self, n: int) -> None:
        """Step over what nobody asks for: it may be 100 MB long."""
        if n > self.left:
            raise _Eof()
        if self.pos + n > limits.HEADER:
            raise _endless(f"{limits.HEADER >> 20} MiB")
        self.pos += n

    def take(self, n: int) -> bytes:
        self.over(n)
        self.pos -= n
        start = self.pos - self.base
        if start + n > len(self.buf):
            self.base, start = self.pos, 0
            self.buf = self.source.read_at(self.pos, max(n, _CHUNK))
        self.pos += n
        return self.buf[start : start + n]

    def number(self, code: str) -> int:
        return int(struct.unpack("<" + code, self.take(struct.calcsize(code)))[0])

    def string(self, *, kept: bool = True) -> bytes:
        n = self.number("Q")
        self.strings += 1
        if self.strings > _MOST_STRINGS:
            raise _endless(f"{limits.STRINGS:,} strings")
        if not bears("string-limit"):
            return self.unlimited(n, kept=kept)
        if n > MAX_STRING:
            raise _Eof(f"read: string length {n} exceeds maximum {MAX_STRING}")
        if n > self.left:
            raise _Eof(f"read: string length {n} exceeds remaining file size {self.left} bytes")
        return self._text(n, kept=kept)

    def skip(self, count: int) -> None:
        """Step over strings, as so many calls of `string` would."""
        unpack = struct.Struct("<Q").unpack_from
        if self.strings + count > _MOST_STRINGS:
            raise _endless(f"{limits.STRINGS:,} strings")
        while count:
            at, buf = self.pos - self.base, self.buf
            last = len(buf) - 8
            before = count
            while count and at <= last:
                n = unpack(buf, at)[0]
                if at + 8 + n > last + 8 or n > MAX_STRING:
                    break
                at += 8 + n
                count -= 1
            self.strings += before - count
            self.pos = self.base + at
            if count:
                # The next one passes the end of what was read, or has something to be said of.
                self.string(kept=False)
                count -= 1

    def unlimited(self, n: int, *, kept: bool = True) -> bytes:
        """A string as builds before b8672 read it: room for all of it is made first."""
        if n > _MOST_ROOM:
            raise _TooLong("length_error" if n > _MOST_LENGTH else "bad_alloc")
        return self._text(n, kept=kept)

    def _text(self, n: int, *, kept: bool) -> bytes:
        if kept and n:
            return self.take(n)
        self.over(n)
        return b""


def _endless(limit: str) -> LoadEnds:
    return LoadEnds((f"the header goes on for more than {limit}",), verdict=UNKNOWN)


class _TooLong(Exception):
    """There is no room for so much."""


def walk(source: Source, path: str) -> None:
    """Raise what llama.cpp says of this file; return when it would read it after all.

    Builds that look at the same things are asked once.

    Raises:
        LoadEnds: refused, with the error lines.
    """
    known = _WALKED.setdefault(source, {})
    key = (path, borne())
    if key not in known:
        try:
            _walk(source, path)
            known[key] = None
        except LoadEnds as e:
            # Without its traceback, which would keep the file.
            known[key] = copy(e)
    if (end := known[key]) is not None:
        raise copy(end)


_WALKED: WeakKeyDictionary[Source, dict[tuple[str, frozenset[str] | None], LoadEnds | None]] = WeakKeyDictionary()


def _walk(source: Source, path: str) -> None:
    cursor = _Cursor(source)
    n_tensors, n_kv = _prelude(cursor, path)
    alignment = _fields(cursor, n_kv, path)
    tensors = _tensors(cursor, n_tensors, path)
    check_offsets(tensors, cursor.pos, alignment, source.size, path)


def _prelude(cursor: _Cursor, path: str) -> tuple[int, int]:
    """Magic, version and the two counts."""
    try:
        magic = cursor.take(4)
    except _Eof:
        raise LoadEnds(failed(path, f"{init()}failed to read magic")) from None
    if magic != b"GGUF":
        printable = bears("printable-magic")
        shown = "".join(chr(b) if 32 <= b < 127 or not printable else "?" for b in magic).partition("\0")[0]
        raise LoadEnds(failed(path, f"{init()}invalid magic characters: '{shown}', expected 'GGUF'"))
    end = f"{init()}failed to read header"
    try:
        fault = _version_fault(cursor.number("I"))
        if fault:
            raise LoadEnds(failed(path, init() + fault, end), where="header")
        n_tensors = cursor.number("q")
        limit = SIZE_MAX // SIZEOF_TENSOR_INFO
        if not 0 <= n_tensors <= limit:
            line = f"{init()}number of tensors is {n_tensors} but must be in [0, {limit}]"
            raise LoadEnds(failed(path, line, end), where="header")
        n_kv = cursor.number("q")
        limit = SIZE_MAX // SIZEOF_KV
        if not 0 <= n_kv <= limit:
            line = f"{init()}number of key value pairs is {n_kv} but must be in [0, {limit}]"
            raise LoadEnds(failed(path, line, end), where="header")
    except _Eof as e:
        raise LoadEnds(failed(path, *e.lines, end)) from None
    return n_tensors, n_kv


def _version_fault(version: int) -> str:
    if version == 0 and bears("version-0"):
        return "bad GGUF version: 0"
    if version & 0xFFFF == 0 and bears("other-endian"):
        return (
            f"failed to load model: this GGUF file version {version} is extremely large, "
            "is there a mismatch between the host and model endianness?"
        )
    if version == 1:
        return "GGUFv1 is no longer supported, please use a more up-to-date version"
    return f"this GGUF file is version {version} but this software only supports up to version 3" if version > 3 else ""


def _fields(cursor: _Cursor, n_kv: int, path: str) -> int:
    """All key-value pairs; returns the alignment."""
    seen: dict[bytes, int] = {}
    alignment: tuple[int, bytes] | None = None
    looks = bears("key-twice")
    for index in range(n_kv):
        if index == limits.FIELDS:
            raise _endless(f"{limits.FIELDS:,} fields")
        key = b""
        try:
            key = cursor.string()
            text = key.decode("utf-8", "surrogateescape")
            if not key and bears("empty-key"):
                raise _Eof(f"{init()}key {index} is empty")
            if looks and key in seen:
                raise _Eof(init() + key_twice(text, seen[key], index))
            first = key not in seen
            seen[key] = index
            type_id, raw = _value(cursor, text)
            if looks and not key:
                raise empty_key()
        except _TooLong as e:
            what = f"value for key '{key.decode('utf-8', 'surrogateescape')}'" if key else f"key {index}"
            line = f"{init()}encountered {e} error while reading {what}".replace("length_error error", "length_error")
            raise LoadEnds(failed(path, line, init() + KV_FAILED), where="header") from None
        except _Eof as e:
            where = f"field:{key.decode('utf-8', 'surrogateescape')}" if key else "header"
            raise LoadEnds(failed(path, *e.lines, init() + KV_FAILED), where=where) from None
        if key == b"general.alignment" and first:
            alignment = type_id, raw
    return _alignment(alignment, path)


def _alignment(stored: tuple[int, bytes] | None, path: str) -> int:
    if stored is None:
        return 32
    type_id, raw = stored
    where = "field:general.alignment"
    if type_id != U32 and not bears("alignment-type"):
        raise alignment_abort(None)
    if type_id != U32:
        line = f"{init()}key 'general.alignment' must be of type u32 but is {value_type_name(type_id)}"
        raise LoadEnds(failed(path, line), where=where)
    value = int.from_bytes(raw, "little")
    if value == 0 or value & (value - 1):
        raise LoadEnds(failed(path, f"{init()}alignment {value} is not a power of 2"), where=where)
    return value


def _value(cursor: _Cursor, key: str) -> tuple[int, bytes]:
    """Step over one value; its type id (9 for arrays) and, of a scalar number, its bytes."""
    type_id = element = cursor.number("i")
    count = 1
    if type_id == ARR:
        element = cursor.number("i")
        count = cursor.number("Q")
    t = VALUE_TYPES.get(element)
    if t is None or element == ARR:
        raise _Eof(f"{init()}key '{key}' has invalid GGUF type {element}")
    if type_id == ARR and bears("string-limit") and (count > MAX_ELEMENTS or cursor.left < count * (t.size or 8)):
        raise _Eof()
    if element == STR:
        cursor.skip(count)
        return type_id, b""
    if type_id == ARR:
        cursor.over(count * t.size)
        return type_id, b""
    return type_id, cursor.take(t.size)


def _tensors(cursor: _Cursor, n_tensors: int, path: str) -> list[TensorInfo]:
    out: list[TensorInfo] = []
    seen: dict[bytes, int] = {}
    for index in range(n_tensors):
        if index == limits.TENSORS:
            raise _endless(f"{limits.TENSORS:,} tensors")
        name = b""
        start = cursor.pos
        try:
            name = cursor.string()
            text = name.decode("utf-8", "surrogateescape")
            if len(name) >= MAX_NAME:
                raise _Eof(f"{init()}tensor name {index} is too long: {len(name)} >= {MAX_NAME}")
            if name in seen:
                raise _Eof(init() + tensor_twice(text, seen[name], index))
            seen[name] = index
            n_dims = cursor.number("I")
            if n_dims > MAX_DIMS:
                raise _Eof(f"{init()}tensor '{text}' has invalid number of dimensions: {n_dims} > {MAX_DIMS}")
            shape = tuple(_dim(cursor, text, j) for j in range(n_dims))
            fault = shape_fault(text, shape)
            if fault:
                raise _Eof(init() + fault)
            type_id = cursor.number("I")
            fault = type_fault(text, shape, type_id)
            if fault:
                raise _Eof(init() + fault)
            offset = cursor.number("Q")
        except _TooLong as e:
            line = f"{init()}encountered {e} error while reading tensor name {index}"
            line = line.replace("length_error error", "length_error")
            raise LoadEnds(failed(path, line, init() + TENSOR_FAILED), where="header") from None
        except _Eof as e:
            where = f"tensor:{name.decode('utf-8', 'surrogateescape')}" if name else "header"
            raise LoadEnds(failed(path, *e.lines, init() + TENSOR_FAILED), where=where) from None
        out.append(TensorInfo(text, shape, type_id, offset, (start, cursor.pos), memoryview(b"")))
    return out


def _dim(cursor: _Cursor, name: str, j: int) -> int:
    n = cursor.number("Q")
    if signed64(n) < 0:
        raise _Eof(f"{init()}tensor '{name}' dimension {j} has invalid number of elements: {signed64(n)} < 0")
    return n
