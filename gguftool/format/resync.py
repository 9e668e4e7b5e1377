"""Past a value whose type is newer than we are: its length is found by what must stand behind it.

GGUF stores no length of a value, so a reader that does not know a type cannot step over it. An editor only has to: it
writes the value back as it is. Here every length is tried, and one is accepted only when it is the only one for which
all the rest is right: exactly the declared number of fields and tensors, tensor offsets without gaps in file order,
data that ends in the file. Without tensors there is no such evidence, and nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from gguftool.format.header import Field, Header, TensorInfo, align
from gguftool.format.limits import Over
from gguftool.format.parse import (
    _alignment,
    _array_head,
    _read_tensor,
    _skip_elements,
    _skip_scalar,
)
from gguftool.format.types import ARR, STR, VALUE_TYPES
from gguftool.format.walk import Short, Stop, Walk
from gguftool.records import dataclass
from gguftool.source import Source

MAX_SIZE = 1 << 16
"""Longest value of an unknown type that is looked for, in bytes (of an array: of its elements)."""
WINDOW = 64 << 20
"""The whole header must lie in this many bytes."""
WORK = 1 << 17
"""Records walked in all attempts together, 32 strings of an array as one; a real file needs one or two attempts. A
file that is made for it has thousands of lengths behind which records begin, and that fail in the last of them."""
_STRINGS = 32


class _Spent(Exception):
    """More was walked than `WORK`."""


@dataclass(slots=True)
class _Work:
    """What may still be walked."""

    left: int = WORK

    def take(self, n: int = 1) -> None:
        self.left -= n
        if self.left < 0:
            raise _Spent


def walk_past(source: Source, header: Header) -> Header | None:
    """The whole header, when the only thing in the way is one value type that we do not know.

    All values of that type are taken to have the same length, as all number types have.

    Args:
        source: the file.
        header: as `gguftool.format.parse.parse` returns it with ``strict=False``.

    Returns:
        A header whose fields of the unknown type have their raw bytes and no value; None when no length fits, several
        do, or too many look as if they would.
    """
    fatal = [p for p in header.problems if p.fatal]
    if len(fatal) != 1 or fatal[0].kind != "unknown-value-type" or not header.declared_tensors:
        return None
    buf = memoryview(source.read_at(0, min(source.size, WINDOW)))
    found: Header | None = None
    work = _Work()
    try:
        for size in _plausible(buf, header):
            candidate = _attempt(buf, source.size, header, size, work)
            if candidate is not None:
                if found is not None:
                    return None
                found = candidate
    except _Spent:
        return None
    return found


def _plausible(buf: memoryview, header: Header) -> Iterator[int]:
    """Lengths behind which a record could begin: what a whole attempt need not look at is sorted out quickly."""
    walk = Walk(len(buf), buf, header.layout, header.end)
    try:
        walk.string("key")
        type_id, count = walk.number("I", 4, "type"), 1
        if type_id == ARR:
            type_id, count = _array_head(walk)
    except (Stop, Short, Over):
        return
    last = header.declared_fields - len(header.fields) == 1
    # What follows the name: of a field its type, of a tensor its number of dimensions.
    allowed = frozenset(range(5)) if last else frozenset({*VALUE_TYPES, type_id})
    length = Struct(header.layout.order + header.layout.length_code).unpack_from
    number = Struct(header.layout.order + "I").unpack_from
    width, limit = header.layout.length_size, len(buf) - header.layout.length_size - 4
    for size in range(MAX_SIZE + 1):
        at = walk.pos + size * count
        if at > limit:
            return
        n = length(buf, at)[0]
        if 0 < n <= limit - at and number(buf, at + width + n)[0] in allowed:
            yield size


def _attempt(buf: memoryview, file_size: int, header: Header, size: int, work: _Work) -> Header | None:
    walk = Walk(len(buf), buf, header.layout, header.end)
    fields = list(header.fields)
    infos: list[TensorInfo] = []
    unknown: set[int] = set()
    try:
        for _ in range(header.declared_fields - len(header.fields)):
            work.take()
            fields.append(_field(walk, size, unknown))
            if len(unknown) > 1:
                return None
        for _ in range(header.declared_tensors):
            work.take()
            name, shape, type_id, offset, start, end = _read_tensor(walk)
            infos.append(TensorInfo(name, shape, type_id, offset, (start, end), buf[start:end]))
    except (Stop, Short, Over):
        return None
    finally:
        work.left -= walk.counted.strings // _STRINGS
    alignment, fault = _alignment(tuple(fields))
    data = align(walk.pos, alignment)
    if not _fits(infos, data, alignment, file_size):
        return None
    return Header(
        header.layout,
        alignment,
        tuple(fields),
        tuple(infos),
        walk.pos,
        data,
        header.declared_fields,
        header.declared_tensors,
        (fault,) if fault else (),
    )


def _field(walk: Walk, size: int, unknown: set[int]) -> Field:
    start = walk.pos
    key = walk.key = walk.string("key").decode("utf-8", "surrogateescape")
    if not key:
        raise Stop("malformed", "an empty key", start)
    type_id = walk.number("I", 4, "type")
    element = count = None
    if type_id == ARR:
        element, count = _array_head(walk)
        value_at = walk.pos
        if element in VALUE_TYPES:
            _skip_elements(walk, element, count, 1)
        else:
            unknown.add(element)
            if count > len(walk.buf):
                raise Stop("truncated", "too many elements", walk.pos)
            walk.reach(count * size, "elements")
    else:
        value_at = walk.pos
        if type_id in VALUE_TYPES or type_id == STR:
            _skip_scalar(walk, type_id)
        else:
            unknown.add(type_id)
            walk.reach(size, "value")
    return Field(
        key, type_id, (start, walk.pos), value_at - start, element, count, walk.layout, walk.buf[start : walk.pos]
    )


def _fits(infos: list[TensorInfo], data: int, alignment: int, file_size: int) -> bool:
    """Whether the tensors follow one another without gaps and end in the file."""
    offset = 0
    for i, t in enumerate(infos):
        if not t.name or len(t.shape) > 4 or t.offset != offset:
            return False
        if t.nbytes is not None:
            if data + offset + t.nbytes > file_size:
                return False
            offset += align(t.nbytes, alignment)
        elif i + 1 < len(infos):
            # A tensor type that we do not know either: the next tensor says how long it is.
            offset = infos[i + 1].offset
            if offset <= t.offset or offset % alignment:
                return False
    return data <= file_size
