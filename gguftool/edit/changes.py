"""What an edit changes, key by key, for people and for JSON."""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.brief import short_repr
from gguftool.edit.layout import room
from gguftool.edit.ops import Operation, Realign, Repack, Reserve, SetElement, Strip
from gguftool.edit.schema import type_text
from gguftool.format.filler import FILLER_KEY, is_filler
from gguftool.format.header import Field, Header
from gguftool.format.types import ARR, VALUE_TYPES
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """One key (or array element, ``key[5]``) that differs.

    Attributes:
        key: the key.
        old, new: decoded values; None where the key is absent.
        type: type after the edit (before it, for a key that goes).
        old_type: type before, when it is another one.
    """

    key: str
    old: object
    new: object
    type: str
    old_type: str | None = None

    __repr__ = short_repr


def changes_of(old: Header, new: Header, ops: Sequence[Operation], filler: int) -> tuple[Change, ...]:
    """Keys that differ between two headers, in file order of the new one, then those that go."""
    elements = {op.key: op.index for op in ops if isinstance(op, SetElement)}
    several = {k for k in elements if sum(isinstance(op, SetElement) and op.key == k for op in ops) > 1}
    before = _by_key(old)
    after = _by_key(new)
    out: list[Change] = []
    for key, now in after.items():
        was = before.get(key)
        if was is now or (was is not None and was.buffer == now.buffer):
            continue
        if was is not None and key in elements and key not in several and was.count == now.count:
            i = elements[key]
            out.append(Change(f"{key}[{i}]", was.head(1, i)[0], now.head(1, i)[0], type_text(now)))
            continue
        other = type_text(was) if was is not None and type_text(was) != type_text(now) else None
        out.append(Change(key, _value(was) if was is not None else None, _value(now), type_text(now), other))
    for key, was in before.items():
        if key not in after:
            out.append(Change(key, _value(was), None, type_text(was)))
    removed = len(list(old.duplicates())) - len(list(new.duplicates()))
    if removed > 0:
        kept = {f.key for f in old.duplicates()}
        out.extend(
            Change(key, "several fields", "the first of them", type_text(after[key])) for key in kept & set(after)
        )
    if any(isinstance(op, (Reserve, Strip)) for op in ops) and room(old) != filler:
        out.append(Change(FILLER_KEY, _bytes(room(old)), _bytes(filler), "str"))
    if any(isinstance(op, (Repack, Realign)) for op in ops):
        moved = sum(a.offset != b.offset for a, b in zip(old.tensors, new.tensors, strict=False))
        out.append(Change("tensor offsets", "as stored", f"{moved:,} changed", "u64"))
    return tuple(out)


def _value(field: Field) -> object:
    """The decoded value; of a type that we do not know, how long it is."""
    kind = field.element_type if field.type == ARR else field.type
    return field.told if kind in VALUE_TYPES else f"{len(field.value_bytes):,} bytes"


def _bytes(n: int) -> str | None:
    return f"{n:,} bytes of room" if n else None


def _by_key(header: Header) -> dict[str, Field]:
    out: dict[str, Field] = {}
    for f in header.fields:
        if not is_filler(f.key):
            out.setdefault(f.key, f)
    return out
