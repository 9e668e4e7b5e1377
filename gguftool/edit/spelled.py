"""Operations as the options of ``gguftool fix`` that say them, and what those options cannot say."""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.edit.ops import (
    Dedupe,
    Delete,
    Front,
    Operation,
    Realign,
    Rename,
    Repack,
    Reserve,
    Set,
    SetElement,
    Strip,
)
from gguftool.edit.schema import ELEMENT, TYPED, architecture, key_types, spell_type
from gguftool.format.header import Field, Header
from gguftool.format.types import ARR, VALUE_TYPES
from gguftool.regex import regex
from gguftool.shell import ELLIPSIS, path_word, shell


def command(ops: Sequence[Operation], path: str, header: Header | None = None) -> str:
    """The ``gguftool fix`` line that does the same; see `spellable`."""
    words = ["gguftool", "fix", path_word(path)]
    for op in ops:
        words.extend(_option(op, architecture(header) if header is not None else ""))
    return shell(words)


def spellable(op: Operation) -> bool:
    """Whether an option of ``gguftool fix`` can say it: no zero bytes, no key that is read as key and type or value."""
    match op:
        case Set():
            return spellable_key(op.key) and "\0" not in value_text(op.value) and value_text(op.value) != ELLIPSIS
        case SetElement():
            said = value_text(op.value)
            return "\0" not in op.key + said and "=" not in op.key and said != ELLIPSIS
        case Delete():
            return bool(op.key) and "\0" not in op.key
        case Rename():
            many = op.old.endswith(".*") and op.new.endswith(".*")
            return bool(op.old) and "\0" not in op.old + op.new and "=" not in op.new and not many
        case _:
            return True


def spellable_key(key: str) -> bool:
    """Whether ``KEY=VALUE`` can give this key a value."""
    return bool(key) and "=" not in key and "\0" not in key and TYPED.match(key) is None and ELEMENT.match(key) is None


_SAFE_IN_LIST = regex(r"\s*[^\s,\[\]][^,\[\]]*")


def _option(op: Operation, arch: str) -> list[str]:
    match op:
        case Set():
            arch = arch or op.key.partition(".")[0]
            known = key_types(op.key, arch)
            named = op.type is not None and (not known or spell_type(op.type) != known[0])
            return ["--set", f"{op.key}{':' + op.type if named and op.type else ''}={value_text(op.value)}"]
        case SetElement():
            return ["--set", f"{op.key}[{op.index}]={value_text(op.value)}"]
        case Delete():
            return ["--delete", op.key]
        case Rename():
            return ["--rename", f"{op.old}={op.new}"]
        case Dedupe():
            return ["--dedupe"]
        case Repack():
            return ["--repack"]
        case Realign():
            return ["--realign", str(op.alignment)]
        case Strip():
            return ["--strip-padding"]
        case Reserve():
            return ["--reserve", str(op.size)]
        case Front():
            return ["--patch", ELLIPSIS]


WHOLE = 64
"""Elements of the longest array that is one text."""


def field_text(field: Field) -> str | None:
    """The value of a field as ``KEY=VALUE`` takes it; None of a long, nested or unknown one."""
    kind = field.element_type if field.type == ARR else field.type
    if kind not in VALUE_TYPES or kind == ARR or field.untold or (field.count or 0) > WHOLE:
        return None
    values = field.head(WHOLE) if field.type == ARR else [field.value]
    if values and all(isinstance(value, float) for value in values):
        from gguftool.edit.toml import decimal

        return ",".join(decimal(value, VALUE_TYPES[kind].name) for value in values if isinstance(value, float))
    return value_text(values if field.type == ARR else field.value)


def value_text(value: object) -> str:
    """A value as ``KEY=VALUE`` takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (str, int)):
        return str(value)
    items = list(value)  # type: ignore[call-overload]
    if all(isinstance(v, str) for v in items) and not all(_SAFE_IN_LIST.fullmatch(v) for v in items):
        import json

        return json.dumps(items)
    return ",".join(value_text(v) for v in items)
