"""Scalar metadata as a TOML text, to look at, to edit, to give to another model; and back.

Every key is quoted whole, so that dots mean nothing. A value whose type follows from its key stands as it is; any other
names its type: ``"my.key" = { u16 = 5 }``. Long arrays and text that is not UTF-8 are left out, with a comment. What is
read back is to the bit what was written, but for the payload of a NaN.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping

from gguftool.brief import short_repr
from gguftool.edit.ops import Delete, Operation, Set
from gguftool.edit.schema import key_types, spell_type, type_text
from gguftool.edit.texts import LONGEST_KEY
from gguftool.errors import UsageError
from gguftool.format.filler import is_filler
from gguftool.format.header import LONG, Field
from gguftool.format.types import ARR, VALUE_TYPES
from gguftool.format.values import make_field
from gguftool.model import Model
from gguftool.reading import Malformed
from gguftool.reading import from_toml as read_toml
from gguftool.records import dataclass

BEGIN = "# gguftool metadata 1"
"""What a text of ours begins with."""
SHORT = 64
"""Elements of the longest array that is written down."""


@dataclass(frozen=True, slots=True)
class Given:
    """A value as the text gives it; ``type`` is None where it follows from the key."""

    type: str | None
    value: object

    __repr__ = short_repr


def to_toml(model: Model, meaning: Callable[[str], str] = lambda key: "") -> str:
    """The metadata of a model, without what says where its tensors stand.

    Args:
        model: whose.
        meaning: what a key means, for the comment above it; "" when nobody knows.
    """
    lines = [BEGIN, f"# of {_basic(model.name)}", ""]
    for f in model.fields.values():
        if not _editable(f.key):
            continue
        if len(f.key) > LONGEST_KEY:
            lines += [f"# a key of {len(f.key):,} characters, longer than GGUF allows, left out", ""]
            continue
        left_out = _left_out(f)
        if left_out:
            lines += [f"# {_basic(f.key)}: {left_out}", ""]
            continue
        about = meaning(f.key)
        lines.append(f"# {type_text(f)}" + (f": {about}" if about else ""))
        known = key_types(f.key, model.architecture)
        said = _value(f)
        plain = bool(known) and known[0] == type_text(f)
        lines += [f"{_basic(f.key)} = " + (said if plain else f"{{ {_type_word(f)} = {said} }}"), ""]
    return "\n".join(lines)


def _editable(key: str) -> bool:
    return not is_filler(key) and key != "general.alignment" and not key.startswith("split.")


def _left_out(f: Field) -> str:
    """Why a field is not written down; "" when it is."""
    kind = f.element_type if f.type == ARR else f.type
    if kind not in VALUE_TYPES or kind == ARR:
        return f"{f.type_name}, left out"
    if f.type == ARR and (f.count or 0) > SHORT:
        return f"{type_text(f)} of {f.count:,} elements, left out"
    if len(f.value_bytes) > LONG:
        return f"{type_text(f)} of {len(f.value_bytes):,} bytes, left out"
    try:
        "".join(str(v) for v in (f.head(SHORT) if f.type == ARR else [f.value])).encode()
        f.key.encode()
    except UnicodeEncodeError:
        return f"{type_text(f)} that is not UTF-8, left out"
    return ""


def _type_word(f: Field) -> str:
    return type_text(f) if f.type != ARR else f'"{type_text(f)}"'


def _value(f: Field) -> str:
    kind = VALUE_TYPES[f.type if f.type != ARR or f.element_type is None else f.element_type].name
    if f.type == ARR:
        return f"[{', '.join(_scalar(v, kind, long=False) for v in f.head(SHORT))}]"
    return _scalar(f.value, kind, long=True)


def _scalar(value: object, kind: str, *, long: bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return decimal(value, kind)
    if isinstance(value, str):
        return _string(value) if long else _basic(value)
    return str(value)


def decimal(value: float, kind: str) -> str:
    """The shortest decimal that is this number, in its own width."""
    if not math.isfinite(value):
        return ("-" if math.copysign(1, value) < 0 else "") + ("nan" if math.isnan(value) else "inf")
    said = repr(value)
    if kind == "f32":
        short = (f"{value:.{digits}g}" for digits in range(1, 10))
        said = next((text for text in short if _as_f32(float(text)) == value), said)
    return said if any(mark in said for mark in ".e") else f"{said}.0"


def _as_f32(value: float) -> float | None:
    try:
        (found,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return None
    return float(found)


def _string(text: str) -> str:
    """Text of several lines as it is, where TOML can say it so; else with escapes."""
    if "\n" not in text:
        return _basic(text)
    if "'''" not in text and not text.endswith("'") and not any(_escaped(c) for c in text if c not in '\n"\\'):
        return f"'''\n{text}'''"
    return '"""\n' + "\n".join(_basic(line)[1:-1] for line in text.split("\n")) + '"""'


def _basic(text: str) -> str:
    return '"' + "".join(_escaped(c) or c for c in text) + '"'


_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r"}


def _escaped(char: str) -> str:
    """How TOML writes a character that must not stand as it is; "" when it may."""
    if char in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[char]
    code = ord(char)
    # Beside what TOML forbids, what an editor would not show: a line separator, a byte order mark, marks of direction.
    hidden = 0x7F <= code <= 0x9F or 0x200B <= code <= 0x200F or 0x2028 <= code <= 0x202E or code == 0xFEFF
    return f"\\u{code & 0xFFFF:04x}" if (code < 0x20 and char != "\t") or hidden or 0xD800 <= code <= 0xDFFF else ""


def from_toml(text: str, name: str) -> dict[str, Given]:
    """What a text gives, by key; keys of tables are joined by dots.

    Args:
        text: TOML.
        name: what messages call it.

    Raises:
        UsageError: it is no TOML, or a value that GGUF does not have; the message says where.
    """
    try:
        found = read_toml(text)
    except Malformed as error:
        raise UsageError(f"{name}: {error}") from None
    out: dict[str, Given] = {}
    for key, given in _flat("", found, name):
        if key in out:
            raise UsageError(f"{name}: {key} is given twice")
        out[key] = given
    return out


def _flat(prefix: str, table: Mapping[str, object], name: str) -> Iterator[tuple[str, Given]]:
    for word, value in table.items():
        key = prefix + word
        if isinstance(value, dict):
            types = [_type_named(inner) for inner in value]
            if len(types) == 1 and types[0] is not None and not isinstance(inner := next(iter(value.values())), dict):
                _check(key, inner, name)
                yield key, Given(types[0], inner)
            else:
                yield from _flat(f"{key}.", value, name)
        else:
            _check(key, value, name)
            yield key, Given(None, value)


def _type_named(word: str) -> str | None:
    try:
        return spell_type(word)
    except UsageError:
        return None


def _check(key: str, value: object, name: str) -> None:
    items = value if isinstance(value, list) else [value]
    for item in items:
        if not isinstance(item, (str, bool, int, float)):
            raise UsageError(f"{name}: {key}: GGUF has no value of the kind {type(item).__name__}")


def operations(model: Model, given: Mapping[str, Given], before: Mapping[str, Given] | None = None) -> list[Operation]:
    """What makes the metadata that of a text.

    Args:
        model: as it is.
        given: what the text gives.
        before: the text as it was before somebody edited it: what is the same in both stays, what has gone is deleted.
            None: nothing is deleted.

    Raises:
        UsageError: a type that is not possible, or that cannot be told.
    """
    gone = [Delete(key) for key in before or {} if key not in given and key in model.fields]
    sets: list[Operation] = []
    said = given.get("general.architecture")
    arch = str(said.value) if said is not None else model.architecture
    for written, one in given.items():
        if before is not None and written in before and _same(before[written], one):
            continue
        key = model.full_key(written)
        kind = one.type or _type_of(key, one.value, arch, model)
        present = model.fields.get(key)
        if present is None or type_text(present) != kind or not _equal(present, kind, one.value):
            sets.append(Set(key, one.value, kind))
    return [*gone, *sets]


def _same(a: Given, b: Given) -> bool:
    # By what they look like: NaN is NaN, -0.0 is not 0.0, and true is not 1.
    return (a.type, repr(a.value)) == (b.type, repr(b.value))


def _type_of(key: str, value: object, arch: str, model: Model) -> str:
    """The type of a value that stands without one: by its key, else as in the file."""
    is_list = isinstance(value, list)
    known = key_types(key, arch) or key_types(key, model.architecture)
    fitting = [kind for kind in known if kind.startswith("[") == is_list]
    if fitting or known:
        return (fitting or list(known))[0]
    field = model.fields.get(key)
    if field is None:
        example = '{ "[u32]" = [1, 2] }' if is_list else "{ u32 = 1 }"
        raise UsageError(f"{key} is not a known key, so its type must be named", f'for example: "{key}" = {example}')
    return type_text(field)


def _equal(present: Field, kind: str, value: object) -> bool:
    """Whether the field has that value already; one NaN is like another."""
    if kind in ("f32", "f64") and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    made = make_field(present.key, kind, value, present.layout)
    if made.value_bytes == present.value_bytes and made.count == present.count:
        return True
    return "f" in kind and made.count == present.count and repr(_listed(made)) == repr(_listed(present))


def _listed(f: Field) -> list[object]:
    return f.head(f.count or 0) if f.type == ARR else [f.value]
