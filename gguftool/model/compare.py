"""Two models side by side: keys and tensors. Their data is compared by `gguftool.build.datadiff`."""

from __future__ import annotations

from array import array

from gguftool.brief import short_repr, shown, table
from gguftool.format.filler import is_filler
from gguftool.format.header import Field
from gguftool.format.types import ARR, STR
from gguftool.model.model import Model
from gguftool.model.part import Tensor
from gguftool.records import dataclass

MUCH_WORSE = 1.5
"""Times the error of our own quantiser from which a tensor is much worse than its type. One that was made with an
importance matrix has up to 1.3 times that of one without, one that went through Q4_0 before 3.8 and more (measured on
SmolLM2-135M and gemma-3-270m with importances over four orders of magnitude)."""


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
    """A tensor whose data differs; what could not be computed is None, and ``why`` says why.

    Attributes:
        name, old_type, new_type: the tensor and its types in both.
        mean, largest: absolute differences of the dequantised weights.
        cosine: their cosine similarity.
        relative: ‖W-Ŵ‖²/‖W‖², W being the old ones.
        norm: ‖W‖².
        expected: the relative error of the new type when our own quantiser makes it of the old weights, on some rows;
            None where that says nothing (the old ones are no finer) or we do not make that type.
        found: the relative error of the same rows in the new file.
        why: why there are no numbers.
    """

    name: str
    mean: float | None = None
    largest: float | None = None
    cosine: float | None = None
    why: str = ""
    old_type: str = ""
    new_type: str = ""
    relative: float | None = None
    norm: float = 0.0
    expected: float | None = None
    found: float | None = None

    @property
    def times(self) -> float | None:
        """How much larger the error is than what our own quantiser makes of the type."""
        return self.found / self.expected if self.expected and self.found is not None else None

    @property
    def suspicious(self) -> bool:
        """Much worse than its type is when it is made of the old weights."""
        return self.times is not None and self.times > MUCH_WORSE

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


def compare(a: Model, b: Model) -> Difference:
    """Compare metadata and tensor lists."""
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
    return Difference(keys, tuple(tensors), room=room)


def _same_field(a: Field, b: Field | None) -> bool:
    """Same type and value; raw bytes suffice when both are written the same way."""
    if b is None or (a.type, a.element_type, a.count) != (b.type, b.element_type, b.count):
        return False
    if a.layout == b.layout:
        return _same_bytes(a.value_bytes, b.value_bytes)
    if a.type == STR:
        return _same_bytes(a.value_bytes[a.layout.length_size :], b.value_bytes[b.layout.length_size :])
    return a.value == b.value


def _same_bytes(a: memoryview, b: memoryview) -> bool:
    """Views are compared number by number, bytes as blocks; small ones, for which no memory is asked of the system."""
    pieces = range(0, len(a), _BLOCK)
    return len(a) == len(b) and all(bytes(a[at : at + _BLOCK]) == bytes(b[at : at + _BLOCK]) for at in pieces)


_BLOCK = 1 << 16


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
