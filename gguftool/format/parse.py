"""Bytes to `Header`: one bounded walk over the records, strict or collecting.

Every count and length is compared with the bytes left in the file before any loop or allocation. The file is read in
growing pieces from the front, and no record is walked again because the piece ended in it; arrays are walked for their
length, never decoded (`strings.py`); `limits.py` says how much is read at most.
"""

from __future__ import annotations

import struct
import sys

from gguftool.errors import FormatError
from gguftool.format import foresee, limits
from gguftool.format.foresee import FIRST_READ, Array
from gguftool.format.header import Field, Header, Problem, TensorInfo, Walked, align
from gguftool.format.strings import skip_strings
from gguftool.format.types import ARR, DEFAULT_ALIGNMENT, MAGIC, STR, U32, VALUE_TYPES, Layout, value_type_name
from gguftool.format.walk import Stop, Walk
from gguftool.shell import gguftool, path_word
from gguftool.source import Memory, Source

MAX_NESTING = 8
_LARGE = 1 << 16
"""Bytes of an array of strings of which a copy costs something."""
_MODEL = 64
"""Bytes of the name of a tokenizer that are looked at: known names are shorter, and a string may be long."""
MOST_DIMS = 1024
"""A tensor with more dimensions than this is taken for damage (ggml has 4)."""


class _Found(Exception):
    """The walk is at the key that is looked for."""


def parse(source: Source, *, strict: bool = True, until: str | None = None) -> Header:
    """Read the header of a GGUF file.

    Args:
        source: the bytes.
        strict: raise at the first fault; else collect faults in ``problems`` and return the longest valid prefix.
        until: read no further than this key, when the file has it.

    Raises:
        NotGguf: the file is something else (in both moods).
        InterruptedEdit: the file carries the mark of an unfinished edit.
        FormatError: in strict mood, with byte offset and key.
    """
    # As much as a source has already costs nothing.
    buf = source.read_at(0, min(source.size, max(FIRST_READ, getattr(source, "ready", 0))))
    if buf[:4] != MAGIC:
        from gguftool.format.sniff import HEAD, identify

        error = identify(buf[:HEAD], source.size, source.name, getattr(source, "journaled", False), source.read_at)
        if error is not None:
            raise error
    header = _collect(Walk(min(source.size, sys.maxsize), memoryview(buf), source=source), until)
    if strict and header.problems:
        p = header.problems[0]
        hint = gguftool("lint", path_word(source.name))
        raise FormatError(f"{source.name}: {p.message}", hint, offset=p.offset, key=p.key, kind=p.kind)
    return header


def parse_bytes(data: bytes, *, strict: bool = True, size: int | None = None, name: str = "<memory>") -> Header:
    """`parse` over bytes in memory; ``size``: length of the whole file when ``data`` is only its front."""
    return parse(Memory(data, name, size), strict=strict)


_FieldRow = tuple[str, int, int, int, int, int | None, int | None, tuple[int, list[int]] | None]
_TensorRow = tuple[str, tuple[int, ...], int, int, int, int]


def _collect(walk: Walk, until: str | None = None) -> Header:
    """Walk all records; a fault ends the walk and is noted, the key that is looked for ends it."""
    problems: list[Problem] = []
    rows: list[_FieldRow] = []
    infos: list[_TensorRow] = []
    n_tensors = n_fields = end = 0
    try:
        n_tensors, n_fields = walk.seen.tensors, walk.seen.fields = _read_prelude(walk)
        end = walk.pos
        for _ in range(n_fields):
            rows.append(_read_field(walk))
            end = walk.pos
            walk.seen.done += 1
            if walk.key == until:
                raise _Found
        walk.key = None
        _check_count(walk, n_tensors, 2 * walk.layout.length_size + 8, "tensors", limits.TENSORS, walk.pos)
        walk.counted.tensors()
        walk.seen.first_tensor = walk.pos
        for _ in range(n_tensors):
            infos.append(_plain_tensor(walk) or _read_tensor(walk))
            end = walk.pos
            walk.seen.infos += 1
    except _Found:
        pass
    except Stop as stop:
        problems.append(stop.problem)
    except limits.Over as over:
        problems.append(Problem(over.kind, over.message, walk.pos, walk.key))

    buf, layout = walk.buf, walk.layout
    if not problems and walk.seen.grown:
        foresee.met(walk.seen, buf)
    fields = tuple(_field(buf, layout, row) for row in rows)
    alignment, fault = _alignment(fields)
    if fault:
        problems.insert(0, fault)
    tensors = tuple(TensorInfo(n, s, t, o, (a, b), buf[a:b]) for n, s, t, o, a, b in infos)
    data = align(end, alignment)
    return Header(layout, alignment, fields, tensors, end, data, n_fields, n_tensors, tuple(problems))


def _read_prelude(walk: Walk) -> tuple[int, int]:
    """Magic, version, byte order and the two counts (the walk's layout is set here)."""
    walk.reach(4, "magic")
    at = walk.reach(4, "version")
    raw = bytes(walk.buf[at : at + 4])
    version = int.from_bytes(raw, "little")
    big = version & 0xFFFF == 0 and version != 0
    if big:
        version = int.from_bytes(raw, "big")
    if version not in (1, 2, 3):
        why = "0 is not a version" if version == 0 else f"version {version} is newer than this program (1 to 3)"
        raise Stop("bad-version", f"GGUF {why}", 4)
    walk.layout = Layout(version, big)
    n_tensors = walk.length("number of tensors")
    at = walk.pos
    n_fields = walk.length("number of metadata fields")
    _check_count(walk, n_fields, walk.layout.length_size + 5, "metadata fields", limits.FIELDS, at)
    _check_count(walk, n_tensors, 2 * walk.layout.length_size + 8, "tensors", limits.TENSORS, 8)
    return n_tensors, n_fields


def _check_count(walk: Walk, count: int, least: int, what: str, most: int, at: int) -> None:
    """Stop at a count that is absurd; one that a truncated file may have stated in good faith is walked until the end.

    Every record takes ``least`` bytes, and nothing is allocated ahead.
    """
    if count <= most:
        return
    left = walk.size - walk.pos
    if count > left // least:
        raise Stop("bad-count", f"{count:,} {what} cannot fit into the {left:,} bytes left", at)
    raise Stop("too-many", f"{count:,} {what}, more than the {most:,} that are read", at)


def _field(buf: memoryview, layout: Layout, row: _FieldRow) -> Field:
    key, type_id, start, end, value_at, element, count, learnt = row
    view = buf[start:end]
    walked = Walked(view, *learnt, at=start) if learnt else None
    return Field(key, type_id, (start, end), value_at - start, element, count, layout, view, walked)


def _read_field(walk: Walk) -> _FieldRow:
    start = walk.pos
    walk.key = None
    raw = walk.string("key")
    key = walk.key = raw.decode("utf-8", "surrogateescape")
    walk.counted.key(key, len(raw))
    type_id = walk.number("I", 4, "type of the value")
    element = count = learnt = None
    if type_id == ARR:
        element, count = _array_head(walk)
        value_at = walk.pos
        if element != ARR:
            walk.seen.arrays[key] = Array(value_at, count, 0, value_at, element == STR)
        _skip_elements(walk, element, count, 1)
        if element != ARR:
            walk.seen.arrays[key] = Array(value_at, count, count, walk.pos, element == STR)
        if element == STR and (walk.name or walk.places or walk.pos - value_at > _LARGE):
            learnt = walk.name, walk.places
    else:
        value_at = walk.pos
        _skip_scalar(walk, type_id)
        if key == foresee.MODEL and type_id == STR:
            name_at = value_at + walk.layout.length_size
            walk.seen.model = bytes(walk.buf[name_at : min(walk.pos, name_at + _MODEL)])
        walk.seen.template = walk.seen.template or key == foresee.CHAT
    return key, type_id, start, walk.pos, value_at, element, count, learnt


def _array_head(walk: Walk) -> tuple[int, int]:
    return walk.number("I", 4, "array element type"), walk.length("array length")


def _skip_scalar(walk: Walk, type_id: int) -> None:
    if type_id == STR:
        n = walk.length("string length")
        walk.reach(n, "string")
        return
    t = VALUE_TYPES.get(type_id)
    if t is None:
        at = walk.pos - 4
        message = f"key {walk.key!r} has value type {type_id}, unknown to GGUF; nothing behind it can be read"
        raise Stop("unknown-value-type", message, at, walk.key)
    walk.reach(t.size, f"value of type {t.name}")


def _skip_elements(walk: Walk, element: int, count: int, depth: int) -> None:
    if element == STR:
        skip_strings(walk, count)
    elif element == ARR:
        if depth >= MAX_NESTING:
            raise Stop("nested-too-deep", f"arrays nested deeper than {MAX_NESTING}", walk.pos, walk.key)
        walk.bound(count, 4 + walk.layout.length_size, "arrays")
        walk.counted.elements(count, "arrays")
        for _ in range(count):
            inner, n = _array_head(walk)
            _skip_elements(walk, inner, n, depth + 1)
    else:
        t = VALUE_TYPES.get(element)
        if t is None:
            message = f"array of value type {element}, unknown to GGUF; nothing behind it can be read"
            raise Stop("unknown-value-type", message, walk.pos, walk.key)
        walk.bound(count, t.size, f"{value_type_name(element)} elements")
        walk.counted.elements(count, "numbers")
        walk.reach(count * t.size, f"array of {count:,} {t.name}")


_RECORDS = tuple(struct.Struct(f"<{n}QIQ") for n in range(5))
"""Shape, type and offset of a tensor, by its number of dimensions."""


def _plain_tensor(walk: Walk) -> _TensorRow | None:
    """As `_read_tensor`, for a record as nearly all are: in the buffer, little-endian, of four dimensions at most."""
    buf, start = walk.buf, walk.pos
    if walk.layout.length_size != 8 or walk.layout.big_endian or start + 8 > len(buf):
        return None
    length = int.from_bytes(buf[start : start + 8], "little")
    at = start + 8 + length
    n_dims = int.from_bytes(buf[at : at + 4], "little") if at + 4 <= len(buf) else len(_RECORDS)
    if n_dims >= len(_RECORDS) or at + 4 + _RECORDS[n_dims].size > len(buf):
        return None
    name = walk.key = str(buf[start + 8 : at], "utf-8", "surrogateescape")
    walk.pos = at
    walk.counted.tensor(name, length)
    *shape, type_id, offset = _RECORDS[n_dims].unpack_from(buf, at + 4)
    walk.pos = at + 4 + _RECORDS[n_dims].size
    return name, tuple(shape), type_id, offset, start, walk.pos


def _read_tensor(walk: Walk) -> _TensorRow:
    start = walk.pos
    walk.key = None
    raw = walk.string("tensor name")
    name = walk.key = raw.decode("utf-8", "surrogateescape")
    walk.counted.tensor(name, len(raw))
    n_dims = walk.number("I", 4, "number of dimensions")
    size = walk.layout.length_size
    if n_dims > min((walk.size - walk.pos) // size, MOST_DIMS):
        left = walk.size - walk.pos
        raise Stop(
            "bad-count", f"tensor {name!r} claims {n_dims:,} dimensions, {left:,} bytes left", walk.pos - 4, name
        )
    at = walk.reach(n_dims * size, "shape")
    shape = struct.unpack_from(f"{walk.layout.order}{n_dims}{walk.layout.length_code}", walk.buf, at)
    at = walk.reach(12, "type and offset")
    type_id, offset = struct.unpack_from(walk.layout.order + "IQ", walk.buf, at)
    return name, shape, type_id, offset, start, walk.pos


def _alignment(fields: tuple[Field, ...]) -> tuple[int, Problem | None]:
    """`general.alignment`, or 32 with the fault that makes it unusable."""
    for f in fields:
        if f.key == "general.alignment":
            if f.type != U32:
                message = f"general.alignment is {f.type_name}, must be u32"
                return DEFAULT_ALIGNMENT, Problem("alignment-type", message, f.span[0], f.key, fatal=False)
            value = int.from_bytes(f.value_bytes, "big" if f.layout.big_endian else "little")
            if value == 0 or value & (value - 1):
                message = f"general.alignment is {value}, not a power of 2"
                return DEFAULT_ALIGNMENT, Problem("bad-alignment", message, f.span[0], f.key, fatal=False)
            return value, None
    return DEFAULT_ALIGNMENT, None
