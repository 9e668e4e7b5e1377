"""The header of a GGUF file as data: fields, tensor infos and problems, with their raw bytes kept.

Nothing here is interpreted: unknown types, duplicate keys, odd order and bad UTF-8 stay as they are, so that
an edit of one field writes every other byte back untouched.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from gguftool.brief import line, short_repr, shown
from gguftool.format.decode import elements, value
from gguftool.format.frame import align as align
from gguftool.format.types import (
    ARR,
    STR,
    TENSOR_TYPES,
    VALUE_TYPES,
    Layout,
    TensorType,
    tensor_type_name,
    value_type_name,
)
from gguftool.records import dataclass, field

LONG = 1 << 20
"""No text that llama.cpp, or a person, makes something of is longer than this, in bytes."""
NAME = 1 << 10
"""Nor is the name of an architecture, which stands in front of every key and in many sentences."""
MANY = 1 << 16
"""Nor is a list that means something by itself longer, in elements: one number a layer, labels, tags."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault noticed while reading.

    ``kind`` is one of: ``truncated`` (a record passes the end of the file), ``bad-version``, ``bad-count``,
    ``unknown-value-type``, ``nested-too-deep``, ``too-large``, ``too-many``, ``key-empty``, ``key-duplicate``,
    ``tensor-duplicate``, ``nested-array`` (more of it than is read; all of these end the walk: ``fatal``),
    ``alignment-type``, ``bad-alignment`` (the walk goes on with 32).
    """

    kind: str
    message: str
    offset: int
    key: str | None = None
    fatal: bool = True

    __repr__ = short_repr


@dataclass(frozen=True, slots=True, eq=False)
class Walked:
    """What the walk over an array of many strings, or of long ones, left, so that nobody needs to go that way again.

    Attributes:
        buffer: the record that was walked; one with other bytes is another array.
        name: of the vocabulary that the array is of, byte by byte (`gguftool.format.vocabularies.KNOWN`); else 0.
        places: where every `gguftool.format.strings.STEP`-th string begins, the first at 0 left out; empty where the
            array is known.
        at: where the record begins in the bytes that the parser read.
    """

    buffer: memoryview
    name: int
    places: list[int]
    at: int


@dataclass(frozen=True, slots=True)
class Field:
    """One metadata record: key, value type id and raw bytes; the value is decoded on demand.

    Attributes:
        key: the key; bytes that are not UTF-8 are kept as surrogate escapes.
        type: value type id (`gguftool.format.types.VALUE_TYPES`).
        span: start and end of the record in the file, in bytes.
        value_at: offset of the value inside the record (after key and type; for arrays after the count).
        element_type: element type id of an array, else None.
        count: number of elements of an array, else None.
        walked: what the parser learnt of an array of strings, see `strings`.
    """

    key: str
    type: int
    span: tuple[int, int]
    value_at: int
    element_type: int | None
    count: int | None
    layout: Layout
    buffer: memoryview
    walked: Walked | None = field(default=None, compare=False)

    @property
    def strings(self) -> Walked | None:
        """What the parser learnt of a large array of strings; None where these are not the bytes that it walked."""
        return self.walked if self.walked is not None and self.walked.buffer is self.buffer else None

    @property
    def raw(self) -> bytes:
        """The record as it stands in the file: key, type and value."""
        return bytes(self.buffer)

    @property
    def value_bytes(self) -> memoryview:
        """The bytes of the value (of an array: its elements)."""
        return self.buffer[self.value_at :]

    @property
    def stands(self) -> tuple[bytes, int, int]:
        """Bytes that hold those of the value, its start in them and its end: of a large array of strings no copy."""
        whole, walked = self.buffer.obj, self.strings
        if walked is not None and isinstance(whole, bytes):
            return whole, walked.at + self.value_at, walked.at + len(self.buffer)
        data = bytes(self.value_bytes)
        return data, 0, len(data)

    @property
    def type_name(self) -> str:
        """``u32``, ``str`` or ``arr[str]`` (nested: ``arr[arr]``)."""
        if self.type == ARR and self.element_type is not None:
            return f"arr[{value_type_name(self.element_type)}]"
        return value_type_name(self.type)

    @property
    def value(self) -> object:
        """The decoded value: int, float, bool, str, a list of str, bool or lists, or `array.array` of numbers.

        Strings that are not UTF-8 carry surrogate escapes. See `gguftool.format.decode`.
        """
        if self.type == ARR:
            return elements(self.element_type, self.count or 0, self.value_bytes, self.layout, as_array=True)
        return value(self.type, self.value_bytes, self.layout)

    @property
    def told(self) -> object:
        """As `value`, of a string the first `LONG` bytes, of an array the first `MANY` elements.

        What rules and reports work with: it costs the same whatever a file holds.
        """
        if self.type == ARR:
            view = self.value_bytes
            return elements(self.element_type, self.count or 0, view, self.layout, 0, MANY, as_array=True, most=LONG)
        if self.type != STR:
            return value(self.type, self.value_bytes, self.layout)
        return value(STR, self.value_bytes, self.layout, self._most)

    def beginning(self, most: int) -> object:
        """As `told`, of a string the first ``most`` bytes."""
        return self.told if self.type != STR else value(STR, self.value_bytes, self.layout, min(most, self._most))

    @property
    def untold(self) -> int:
        """Bytes of a string that are left out of `told`."""
        return max(0, len(self.value_bytes) - self.layout.length_size - self._most) if self.type == STR else 0

    @property
    def _most(self) -> int:
        return NAME if self.key == "general.architecture" else LONG

    def __repr__(self) -> str:
        return line("Field", [shown(self.key), self.type_name, self.shown()])

    def shown(self) -> str:
        """The value in a few words."""
        if self.type != ARR:
            return shown(self.told) if self.type in VALUE_TYPES else f"<{len(self.value_bytes):,} bytes>"
        first = ", ".join(shown(v) for v in self.head(3, most=1 << 10)) if self.element_type in VALUE_TYPES else "…"
        return f"[{first}{', …' if (self.count or 0) > 3 else ''}] of {self.count or 0:,}"

    def head(self, n: int, start: int = 0, most: int | None = None) -> list[object]:
        """Elements ``start .. start+n`` of an array without decoding the rest; of each the first ``most`` bytes."""
        return elements(self.element_type, self.count or 0, self.value_bytes, self.layout, start, n, most=most)


MOST = 1 << 64
"""Elements or bytes of a tensor that are more than ggml can count: nobody needs to know by how much, and no float meets
what a header of sixty dimensions comes to."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor as the header describes it.

    Attributes:
        name: tensor name (surrogate escapes for bad UTF-8).
        shape: sizes in GGML order, the fastest running dimension first.
        type_id: ggml tensor type id.
        offset: bytes from the start of the data section, as stored.
        span: start and end of the record in the file, in bytes.
        stored: bytes of the data where the type is that of a fork, which llama.cpp does not have under that number.
    """

    name: str
    shape: tuple[int, ...]
    type_id: int
    offset: int
    span: tuple[int, int]
    buffer: memoryview
    stored: int | None = None

    def __repr__(self) -> str:
        return line("TensorInfo", [shown(self.name), self.type_name, str(self.shape), f"offset {self.offset:,}"])

    @property
    def raw(self) -> bytes:
        """The record as it stands in the file."""
        return bytes(self.buffer)

    @property
    def type(self) -> TensorType | None:
        """Block layout of the tensor type; None for a type newer than we are or one that was removed."""
        return TENSOR_TYPES.get(self.type_id)

    @property
    def type_name(self) -> str:
        """``Q4_K``; ``type99`` for an unknown id."""
        return tensor_type_name(self.type_id)

    @property
    def elements(self) -> int:
        """Number of elements; 1 for a tensor without dimensions, `MOST` where 64 bits do not hold it."""
        return _elements(self.shape)

    @property
    def nbytes(self) -> int | None:
        """Bytes of the data without padding; None when the type is unknown or rows do not divide into blocks."""
        if self.stored is not None:
            return min(self.stored, MOST)
        return _nbytes(self.shape, self.type_id)


@lru_cache(1 << 12)
def _elements(shape: tuple[int, ...]) -> int:
    n = 1
    for d in shape:
        n *= d
    return n if n < MOST else MOST


@lru_cache(1 << 12)
def _nbytes(shape: tuple[int, ...], type_id: int) -> int | None:
    """Asked again and again, and of many tensors the same."""
    t = TENSOR_TYPES.get(type_id)
    row = shape[0] if shape else 1
    if t is None or row % t.block_size:
        return None
    return min(_elements(shape) // t.block_size * t.block_bytes, MOST)


@dataclass(frozen=True, slots=True)
class Header:
    """Everything in front of the tensor data.

    Attributes:
        layout: version and byte order.
        alignment: of the data section and of every tensor, in bytes.
        fields: metadata records in file order, duplicates kept.
        tensors: tensor infos in file order, duplicates kept.
        end: offset just behind the last record read.
        data_offset: ``end`` rounded up to ``alignment``; the data section starts here.
        declared_fields, declared_tensors: the counts the file states (larger than what was read when it breaks off).
        problems: faults noticed, in file order.
    """

    layout: Layout
    alignment: int
    fields: tuple[Field, ...]
    tensors: tuple[TensorInfo, ...]
    end: int
    data_offset: int
    declared_fields: int
    declared_tensors: int
    problems: tuple[Problem, ...] = ()

    __repr__ = short_repr

    @property
    def version(self) -> int:
        """GGUF version."""
        return self.layout.version

    @property
    def big_endian(self) -> bool:
        """True when the file is written most significant byte first."""
        return self.layout.big_endian

    @property
    def complete(self) -> bool:
        """True when every declared record was read."""
        return not any(p.fatal for p in self.problems)

    def get(self, key: str) -> Field | None:
        """The first field of that key, as gguf readers find it."""
        for f in self.fields:
            if f.key == key:
                return f
        return None

    def where(self, tensor: TensorInfo) -> tuple[int, int | None]:
        """Absolute start and end of a tensor's data in the file; end None when its size is unknown."""
        start = self.data_offset + tensor.offset
        return start, None if tensor.nbytes is None else start + tensor.nbytes

    def data_end(self) -> int | None:
        """Where the file must reach at least: the end of the last tensor; None when a size is unknown."""
        end = self.data_offset if self.tensors else self.end
        for tensor in self.tensors:
            n = tensor.nbytes
            if n is None:
                return None
            end = max(end, self.data_offset + tensor.offset + n)
        return end

    def duplicates(self) -> Iterator[Field]:
        """Fields whose key an earlier field has."""
        seen: set[str] = set()
        for f in self.fields:
            if f.key in seen:
                yield f
            seen.add(f.key)
