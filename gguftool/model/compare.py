"""Two models side by side: keys, tensors, and on request the tensor data.

Data is compared byte for byte; where bytes differ and both types can be dequantised, the distance is given too.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gguftool.brief import short_repr, shown, table
from gguftool.errors import FormatError
from gguftool.format.header import Field
from gguftool.format.types import ARR, STR
from gguftool.model.arrays import floats
from gguftool.model.bytemap import is_filler
from gguftool.model.model import Model
from gguftool.model.part import Tensor

if TYPE_CHECKING:
    import numpy as np

CHUNK = 16 << 20
"""Bytes of tensor data held at a time, each side."""


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A key that is not the same in both; a side is None where the key is missing."""

    key: str
    old: Field | None
    new: Field | None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class TensorChange:
    """A tensor whose type or shape differs, or that only one side has."""

    name: str
    old: Tensor | None
    new: Tensor | None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class DataChange:
    """A tensor whose data differs.

    ``mean`` and ``largest`` are absolute differences of the dequantised weights, ``cosine`` their cosine similarity;
    all None when they could not be computed, and ``why`` says so.
    """

    name: str
    mean: float | None
    largest: float | None
    cosine: float | None
    why: str = ""

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between two models.

    Attributes:
        keys, tensors, data: what is not the same in both.
        compared: tensors whose data was read; None when that was not asked for.
        room: the room that gguftool keeps in the header for later edits differs, which is no difference of the models.
    """

    keys: tuple[KeyChange, ...]
    tensors: tuple[TensorChange, ...]
    data: tuple[DataChange, ...] = ()
    compared: int | None = None
    room: bool = False

    __repr__ = short_repr

    def _repr_html_(self) -> str:
        rows = [(k.key, shown(k.old.told) if k.old else "", shown(k.new.told) if k.new else "") for k in self.keys]
        for t in self.tensors:
            old, new = (f"{x.type_name} {x.shape}" if x is not None else "" for x in (t.old, t.new))
            rows.append((t.name, old, new))
        return table(f"{len(self.keys)} keys, {len(self.tensors)} tensors differ", ("", "a", "b"), rows)

    @property
    def same(self) -> bool:
        """True when nothing differs."""
        return not (self.keys or self.tensors or self.data)


def compare(a: Model, b: Model, *, data: bool = False) -> Difference:
    """Compare metadata and tensor lists, with ``data`` also the weights of tensors that both have."""
    both_ways = [
        KeyChange(f.key, f, b.fields.get(f.key)) for f in a.fields.values() if not _same_field(f, b.fields.get(f.key))
    ]
    both_ways += [KeyChange(f.key, None, f) for f in b.fields.values() if f.key not in a.fields]
    keys = tuple(change for change in both_ways if not is_filler(change.key))
    room = len(keys) < len(both_ways)
    tensors = [
        TensorChange(t.name, t, b.tensors.get(t.name))
        for t in a.tensors.values()
        if not _same_tensor(t, b.tensors.get(t.name))
    ]
    tensors += [TensorChange(t.name, None, t) for t in b.tensors.values() if t.name not in a.tensors]
    if not data:
        return Difference(keys, tuple(tensors), room=room)
    both = [t for t in a.tensors.values() if t.name in b.tensors and b.tensors[t.name].shape == t.shape]
    changed = [c for c in (_compare_data(t, b.tensors[t.name]) for t in both) if c is not None]
    return Difference(keys, tuple(tensors), tuple(changed), len(both), room)


def _same_field(a: Field, b: Field | None) -> bool:
    """Same type and value; raw bytes suffice when both are written the same way."""
    if b is None or (a.type, a.element_type, a.count) != (b.type, b.element_type, b.count):
        return False
    if a.layout == b.layout:
        return a.value_bytes == b.value_bytes
    if a.type == STR:
        return a.value_bytes[a.layout.length_size :] == b.value_bytes[b.layout.length_size :]
    return a.value == b.value


def _same_tensor(a: Tensor, b: Tensor | None) -> bool:
    return b is not None and (a.info.type_id, a.shape) == (b.info.type_id, b.shape)


def first_difference(old: Field, new: Field) -> int | None:
    """Index of the first element that differs between two arrays of one type; None when they are no such arrays."""
    if not (old.type == new.type == ARR and old.element_type == new.element_type):
        return None
    a, b = old.value, new.value
    if not (isinstance(a, (list, array)) and isinstance(b, (list, array))):
        return None
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def is_text(f: Field | None) -> bool:
    """True for a string field of more than one line, which a line diff shows best."""
    return f is not None and f.type == STR and "\n" in str(f.told)


def _compare_data(a: Tensor, b: Tensor) -> DataChange | None:
    """None when the data is equal."""
    if a.info.type_id == b.info.type_id and a.nbytes is not None:
        if _same_bytes(a, b):
            return None
        if a.part.header.big_endian != b.part.header.big_endian:
            return DataChange(a.name, None, None, None, "byte orders differ")
    try:
        return _distance(a, b)
    except FormatError as e:
        return DataChange(a.name, None, None, None, str(e) or "cannot be dequantised")


def _same_bytes(a: Tensor, b: Tensor) -> bool:
    n = a.nbytes or 0
    for at in range(0, n, CHUNK):
        size = min(CHUNK, n - at)
        if _read(a, at, size) != _read(b, at, size):
            return False
    return True


def _read(t: Tensor, at: int, size: int) -> bytes:
    data = t.part.source.read_at(t.offset + at, size)
    if len(data) < size:
        raise FormatError(f"{t.name}: data passes the end of {t.part.name}", offset=t.offset + at, kind="truncated")
    return data


def _distance(a: Tensor, b: Tensor) -> DataChange | None:
    import numpy as np

    n, total, largest, dot, aa, bb = 0, 0.0, 0.0, 0.0, 0.0, 0.0
    for x, y in zip(_floats(a), _floats(b), strict=True):
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            return DataChange(a.name, None, None, None, "holds NaN or infinity")
        d = np.abs(x.astype(np.float64) - y)
        n += d.size
        total += float(d.sum())
        largest = max(largest, float(d.max(initial=0.0)))
        dot += float(np.dot(x.astype(np.float64), y.astype(np.float64)))
        aa += float(np.dot(x.astype(np.float64), x.astype(np.float64)))
        bb += float(np.dot(y.astype(np.float64), y.astype(np.float64)))
    cosine = dot / math.sqrt(aa * bb) if aa > 0 and bb > 0 else None
    return DataChange(a.name, total / n if n else 0.0, largest, cosine)


def _floats(t: Tensor) -> Iterator[np.ndarray[Any, Any]]:
    """The weights as float32, in pieces of the same number of elements for every type."""
    if t.info.type is None or t.nbytes is None:
        raise FormatError(f"{t.type_name} is unknown")
    if t.part.header.big_endian:
        raise FormatError("big-endian data is not dequantised")
    # A multiple of every block size, so that both sides are cut at the same weights.
    step = 256 * 4096
    block = t.info.type
    for first in range(0, t.info.elements, step):
        count = min(step, t.info.elements - first)
        raw = _read(t, first // block.block_size * block.block_bytes, count // block.block_size * block.block_bytes)
        yield floats(t.info, raw)
