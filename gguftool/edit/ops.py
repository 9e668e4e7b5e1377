"""Edit operations as data, and what they do to a header.

An operation says what to change, not how it gets onto the disk; `gguftool.edit.plan` decides that. Lint fixes are
tuples of operations. `apply` is pure: header in, header out. Fields that no operation names keep their raw bytes and
their place.
"""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.brief import short_repr
from gguftool.edit.schema import architecture, brief, key_types, resolve_type, type_text
from gguftool.errors import UsageError
from gguftool.format.filler import is_filler
from gguftool.format.header import Field, Header, align
from gguftool.format.render import length, make_tensor_info
from gguftool.format.types import ARR, DEFAULT_ALIGNMENT, VALUE_TYPES, value_type_name
from gguftool.format.values import make_field, plain
from gguftool.near import near_names
from gguftool.records import dataclass, replace
from gguftool.shell import blank, shell


@dataclass(frozen=True, slots=True)
class Set:
    """Give ``key`` the value; ``type`` as ``u32`` or ``[str]``, by the schema of known keys when None."""

    key: str
    value: object
    type: str | None = None

    __repr__ = short_repr

    def describe(self) -> str:
        """One line for people."""
        return f"set {self.key} to {brief(self.value)}"


@dataclass(frozen=True, slots=True)
class SetElement:
    """Give one element of an array another value; ``index`` counts from 0."""

    key: str
    index: int
    value: object

    __repr__ = short_repr

    def describe(self) -> str:
        """One line for people."""
        return f"set {self.key}[{self.index}] to {brief(self.value)}"


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a key, with all its duplicates."""

    key: str

    __repr__ = short_repr

    def describe(self) -> str:
        """One line for people."""
        return f"delete {self.key}"


@dataclass(frozen=True, slots=True)
class Rename:
    """Give a field another key; its value stays."""

    old: str
    new: str

    __repr__ = short_repr

    def describe(self) -> str:
        """One line for people."""
        return f"rename {self.old} to {self.new}"


@dataclass(frozen=True, slots=True)
class Dedupe:
    """Of fields with the same key keep the first, which is the one readers find."""

    __repr__ = short_repr

    def describe(self) -> str:
        """One line for people."""
        return "remove duplicate keys (the first of each stays)"


@dataclass(frozen=True, slots=True)
class Repack:
    """Lay the tensor data out anew: in file order, without gaps or trailing bytes."""

    __repr__ = short_repr

    def describe(self) -> str:
        """One line for people."""
        return "lay out the tensor data without gaps"


@dataclass(frozen=True, slots=True)
class Realign:
    """Lay the tensor data out with another alignment, a power of two."""

    alignment: int

    __repr__ = short_repr

    def describe(self) -> str:
        """One line for people."""
        return f"align the tensor data to {self.alignment} bytes"


@dataclass(frozen=True, slots=True)
class Strip:
    """Remove the filler and the room it kept."""

    __repr__ = short_repr

    def describe(self) -> str:
        """One line for people."""
        return "remove the filler"


@dataclass(frozen=True, slots=True)
class Reserve:
    """Keep ``size`` bytes of room in the header, so that later edits need not move the tensor data."""

    size: int

    __repr__ = short_repr

    def describe(self) -> str:
        """One line for people."""
        return f"reserve {self.size:,} bytes of room in the header"


@dataclass(frozen=True, slots=True)
class Front:
    """Give the file a front that is there already (`gguftool.edit.patch`): the bytes before its data."""

    front: bytes
    header: Header
    did: tuple[str, ...]

    __repr__ = short_repr

    def describe(self) -> str:
        """One line for people."""
        return f"by a patch: {'; '.join(self.did)}"


Operation = Set | SetElement | Delete | Rename | Dedupe | Repack | Realign | Strip | Reserve | Front


def apply(ops: Sequence[Operation], header: Header, *, force: bool = False) -> Header:
    """The header as it is after the operations; the room (`Reserve`, `Strip`) is `gguftool.edit.layout`'s business.

    Args:
        ops: what to do, in order.
        header: a header read without fatal problems.
        force: take a type other than the known one, and an alignment that contradicts the layout.

    Returns:
        A header with new fields and tensor infos, whose ``end`` and ``data_offset`` are those of its bytes.

    Raises:
        UsageError: no such key, a wrong type or value, a key that is there already.
    """
    for op in ops:
        header = _step(op, header, force)
    alignment = header.alignment
    end = length(header.layout, header.fields, header.tensors)
    n_fields, n_tensors = len(header.fields), len(header.tensors)
    return replace(
        header,
        end=end,
        data_offset=align(end, alignment),
        declared_fields=n_fields,
        declared_tensors=n_tensors,
    )


def _step(op: Operation, header: Header, force: bool) -> Header:
    match op:
        case Set():
            return _set(op, header, force)
        case SetElement():
            return _set_element(op, header)
        case Delete():
            _require(op.key, header)
            return replace(header, fields=tuple(f for f in header.fields if f.key != op.key))
        case Rename():
            return _rename(op, header, force)
        case Dedupe():
            first: dict[str, Field] = {}
            for f in header.fields:
                first.setdefault(f.key, f)
            return replace(header, fields=tuple(first.values()))
        case Repack():
            return _repack(header, header.alignment)
        case Realign():
            return _realign(op, header)
        case Strip():
            return replace(header, fields=tuple(f for f in header.fields if not is_filler(f.key)))
        case Reserve():
            return header
        case Front():
            return op.header


def _set(op: Set, header: Header, force: bool) -> Header:
    if not op.key:
        raise UsageError("an empty key is not possible")
    value = plain(op.value)
    is_list = hasattr(value, "__iter__") and not isinstance(value, (str, bytes))
    type_name = resolve_type(op.key, is_list, op.type, header, force=force)
    if type_name in ("f32", "f64") and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    new = make_field(op.key, type_name, value, header.layout)
    for i, f in enumerate(header.fields):
        if f.key == op.key:
            return replace(header, fields=(*header.fields[:i], new, *header.fields[i + 1 :]))
    at = place(op.key, header.fields)
    return replace(header, fields=(*header.fields[:at], new, *header.fields[at:]))


def place(key: str, fields: Sequence[Field]) -> int:
    """Where a new field goes: behind the last one of its kind, in front of the token arrays and of the filler."""
    front = next((i for i, f in enumerate(fields) if is_filler(f.key) or _is_token_array(f)), len(fields))
    head = key.split(".", 1)[0] + "."
    kin = [i for i, f in enumerate(fields[:front]) if f.key.startswith(head)]
    return kin[-1] + 1 if kin else front


def _is_token_array(field: Field) -> bool:
    return field.key.startswith("tokenizer.") and field.type == ARR


def _set_element(op: SetElement, header: Header) -> Header:
    f = _require(op.key, header)
    if f.type != ARR or f.element_type is None or f.count is None:
        raise UsageError(f"{op.key} is {type_text(f)}, not an array")
    if not 0 <= op.index < f.count:
        raise UsageError(f"{op.key} has elements 0 to {f.count - 1}, not {op.index}")
    kind = VALUE_TYPES.get(f.element_type)
    if kind is None or f.element_type == ARR:
        raise UsageError(f"{op.key}: elements of type {value_type_name(f.element_type)} cannot be set one by one")
    one = make_field("", f"[{kind.name}]", [op.value], header.layout)
    start = f.value_at
    if kind.size:
        start += op.index * kind.size
        stop = start + kind.size
    else:
        size, order = header.layout.length_size, "big" if header.layout.big_endian else "little"
        for _ in range(op.index):
            start += size + int.from_bytes(f.buffer[start : start + size], order)  # type: ignore[arg-type]
        stop = start + size + int.from_bytes(f.buffer[start : start + size], order)  # type: ignore[arg-type]
    raw = b"".join((f.buffer[:start], one.value_bytes, f.buffer[stop:]))
    new = replace(f, buffer=memoryview(raw))
    return replace(header, fields=tuple(new if x is f else x for x in header.fields))


def _rename(op: Rename, header: Header, force: bool) -> Header:
    _require(op.old, header)
    if not op.new:
        raise UsageError("an empty key is not possible")
    if header.get(op.new) is not None:
        raise UsageError(f"{op.new} is there already", f"delete one of the two: {shell(('--delete', op.old))}")
    allowed = key_types(op.new, architecture(header))
    # Duplicates go together, as with Delete: else the second would take the place of the first.
    fields = [_renamed(f, op.new, allowed, force) if f.key == op.old else f for f in header.fields]
    return replace(header, fields=tuple(fields))


def _renamed(f: Field, new: str, allowed: Sequence[str], force: bool) -> Field:
    if allowed and type_text(f) not in allowed and not force:
        right = " or ".join(allowed)
        raise UsageError(
            f"{new} is {right}, {f.key} is {type_text(f)}",
            shell(("--delete", f.key, "--set", blank(f"{new}="))),
        )
    size, order = f.layout.length_size, "big" if f.layout.big_endian else "little"
    old_key = int.from_bytes(f.buffer[:size], order)  # type: ignore[arg-type]
    name = new.encode("utf-8", "surrogateescape")
    raw = b"".join((len(name).to_bytes(size, order), name, f.buffer[size + old_key :]))  # type: ignore[arg-type]
    return replace(f, key=new, value_at=f.value_at + len(name) - old_key, buffer=memoryview(raw))


def _require(key: str, header: Header) -> Field:
    f = header.get(key)
    if f is None:
        near = near_names(key, (x.key for x in header.fields))
        raise UsageError(f"there is no key {key} in this file", f"did you mean {' or '.join(near)}?" if near else None)
    return f


def _repack(header: Header, alignment: int) -> Header:
    """Tensor infos with the offsets llama.cpp computes: running sums of padded sizes, in file order."""
    offset, infos = 0, []
    for t in header.tensors:
        if t.nbytes is None:
            raise UsageError(f"tensor {t.name}: the size of type {t.type_name} is unknown, so its data cannot be moved")
        same = t.offset == offset
        infos.append(t if same else make_tensor_info(t.name, t.shape, t.type_id, offset, header.layout))
        offset += align(t.nbytes, alignment)
    return replace(header, tensors=tuple(infos), alignment=alignment)


def _realign(op: Realign, header: Header) -> Header:
    n = op.alignment
    if n < 1 or n & (n - 1) or n > 1 << 20:
        raise UsageError(f"alignment must be a power of two from 1 to 1,048,576, not {n}")
    if n == DEFAULT_ALIGNMENT:
        # What is the default is not written down: some readers stumble over the key, whatever its value.
        without = tuple(f for f in header.fields if f.key != "general.alignment")
        return _repack(replace(header, fields=without), n)
    return _repack(_set(Set("general.alignment", n, "u32"), header, True), n)
