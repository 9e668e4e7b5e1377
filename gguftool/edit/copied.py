"""Keys of one model given to another, with their types."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from gguftool.edit.ops import Delete, Operation, Set
from gguftool.edit.schema import type_text
from gguftool.errors import UsageError
from gguftool.format.filler import is_filler
from gguftool.format.header import Field
from gguftool.format.types import ARR, VALUE_TYPES
from gguftool.model import Model
from gguftool.near import near_names

_TEMPLATE = ("tokenizer.chat_template", "tokenizer.chat_template.*", "tokenizer.chat_templates")
GROUPS = {"template": _TEMPLATE, "tokenizer": ("tokenizer.*",), "sampling": ("general.sampling.*",)}
"""Names for keys that belong together: of the model copied to, those of the group that the other has not go."""


def copied(model: Model, other: Model, wanted: Sequence[str]) -> list[Operation]:
    """What gives a model the named keys of another.

    Keys under the other's architecture are written under the model's own.

    Args:
        model: what is edited.
        other: where values and types come from.
        wanted: keys (short ones too), patterns with ``*``, names of `GROUPS`.

    Raises:
        UsageError: the other model has none of them, or a value that cannot be copied.
    """
    gone: dict[str, Operation] = {}
    sets: dict[str, Operation] = {}
    for name in wanted:
        found = [f for f in other.fields.values() if _of_model(f.key) and _wanted(name, f.key, other)]
        if not found:
            near = near_names(name, [*GROUPS, *other.fields])
            hint = f"did you mean {' or '.join(near)}?" if near else f"groups: {', '.join(GROUPS)}"
            raise UsageError(f"{other.name}: has nothing to copy for {name}", hint)
        taken = {_own(f.key, model, other): f for f in found}
        sets |= {key: _set(key, f) for key, f in taken.items() if not _same(f, model.fields.get(key))}
        if name in GROUPS:
            others = (key for key in model.fields if _wanted(name, key, model) and key not in taken)
            gone |= {key: Delete(key) for key in others}
    return [*(op for key, op in gone.items() if key not in sets), *sets.values()]


def _of_model(key: str) -> bool:
    """Not what says how this very file is laid out."""
    return not is_filler(key) and key != "general.alignment" and not key.startswith("split.")


def _wanted(name: str, key: str, model: Model) -> bool:
    if name in GROUPS:
        template = any(fnmatchcase(key, pattern) for pattern in _TEMPLATE)
        return any(fnmatchcase(key, pattern) for pattern in GROUPS[name]) and template == (name == "template")
    if any(mark in name for mark in "*?["):
        return fnmatchcase(key, name)
    return key in (name, model.full_key(name))


def _own(key: str, model: Model, other: Model) -> str:
    """The key under the architecture of the model that gets it."""
    head = f"{other.architecture}."
    if other.architecture and model.architecture and key.startswith(head):
        return f"{model.architecture}.{key[len(head) :]}"
    return key


def _same(f: Field, present: Field | None) -> bool:
    if present is None or (f.type, f.element_type, f.count) != (present.type, present.element_type, present.count):
        return False
    return f.layout == present.layout and f.value_bytes == present.value_bytes


def _set(key: str, f: Field) -> Operation:
    kind = f.element_type if f.type == ARR else f.type
    if kind not in VALUE_TYPES or kind == ARR:
        raise UsageError(f"{f.key}: a value of type {f.type_name} cannot be copied")
    return Set(key, f.head(f.count or 0) if f.type == ARR else f.value, type_text(f))
