"""A metadata value made new: Python to bytes, and the text form ``KEY:TYPE=VALUE``."""

from __future__ import annotations

import math
import operator
import struct

from gguftool.errors import UsageError
from gguftool.format.header import Field
from gguftool.format.types import ARR, BOOL, STR, VALUE_TYPE_BY_NAME, VALUE_TYPES, Layout, ValueType
from gguftool.reading import Malformed, from_json


def make_field(key: str, type_name: str, value: object, layout: Layout | None = None) -> Field:
    """A new field with its raw bytes.

    Args:
        key: the key.
        type_name: ``u32``, ``str``, ``[u32]`` or ``arr[u32]`` for arrays.
        value: int, float, bool, str, or a sequence of them for arrays.
        layout: version and byte order of the file it goes into; GGUF v3 little-endian when None.

    Raises:
        UsageError: unknown type, or a value the type cannot hold.
    """
    layout = layout or Layout()
    type_id, element = parse_type(type_name)
    value = plain(value)
    head = _pack_string(key, layout) + struct.pack(layout.order + "I", type_id)
    count = None
    if element is None:
        body = _pack(VALUE_TYPES[type_id], value, layout, key)
    else:
        if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
            raise UsageError(f"{key}: an array needs a list of values, got {value!r}")
        items = [plain(item) for item in value]
        count = len(items)
        head += struct.pack(layout.order + "I" + layout.length_code, element, count)
        body = b"".join(_pack(VALUE_TYPES[element], v, layout, key) for v in items)
    raw = head + body
    return Field(key, type_id, (0, len(raw)), len(head), element, count, layout, memoryview(raw))


def plain(value: object) -> object:
    """The Python value of a number or array of another library (numpy's scalars and arrays, `array.array`).

    A whole number of another kind has ``__index__``, a real one ``__float__``; what is neither comes back as it is.
    """
    if value is None or isinstance(value, (bool, int, float, str, bytes, list, tuple)):
        return value
    if callable(convert := getattr(value, "tolist", None)):
        return convert()
    if hasattr(value, "__index__"):
        return operator.index(value)
    return float(value) if hasattr(value, "__float__") else value


def type_of(value: object) -> str | None:
    """The type that a number or array of numpy names by itself, as `parse_type` takes it; None for other values."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind not in _KINDS:
        return None
    bits = 8 * int(getattr(value, "itemsize", 0))
    name = _KINDS[kind] if kind in "bU" else f"{_KINDS[kind]}{max(bits, 32) if kind == 'f' else bits}"
    return f"[{name}]" if getattr(value, "ndim", 0) else name


_KINDS = {"b": "bool", "i": "i", "u": "u", "f": "f", "U": "str"}
"""`dtype.kind` of numpy -> the type, without its bits."""


def parse_type(type_name: str) -> tuple[int, int | None]:
    """Value type id and, for ``[u32]`` or ``arr[u32]``, the element type id.

    Raises:
        UsageError: no such type; the message lists them.
    """
    name = type_name.strip().lower()
    inner = name.removeprefix("arr") if name.startswith("arr[") else name
    if inner.startswith("[") and inner.endswith("]"):
        t = VALUE_TYPE_BY_NAME.get(_ALIASES.get(inner[1:-1], inner[1:-1]))
        if t is not None and t.id != ARR:
            return ARR, t.id
    else:
        t = VALUE_TYPE_BY_NAME.get(_ALIASES.get(name, name))
        if t is not None and t.id != ARR:
            return t.id, None
    names = " ".join(n for n in VALUE_TYPE_BY_NAME if n != "arr")
    raise UsageError(f"unknown value type {type_name!r}", f"types: {names}, arrays as [u32]")


_ALIASES = {
    "string": "str",
    "uint8": "u8",
    "int8": "i8",
    "uint16": "u16",
    "int16": "i16",
    "uint32": "u32",
    "int32": "i32",
    "uint64": "u64",
    "int64": "i64",
    "float32": "f32",
    "float": "f32",
    "float64": "f64",
    "boolean": "bool",
}


def _pack_string(text: str, layout: Layout) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return struct.pack(layout.order + layout.length_code, len(data)) + data


def _pack(t: ValueType, value: object, layout: Layout, key: str) -> bytes:
    if t.id == STR:
        if not isinstance(value, str):
            raise UsageError(f"{key}: expected a string, got {value!r}")
        return _pack_string(value, layout)
    if t.id == BOOL:
        if not isinstance(value, bool):
            raise UsageError(f"{key}: expected true or false, got {value!r}")
        return b"\1" if value else b"\0"
    if t.code in "fd":
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UsageError(f"{key}: expected a number, got {value!r}")
    elif isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{key}: expected a whole number for {t.name}, got {value!r}")
    try:
        return struct.pack(layout.order + t.code, value)
    except (struct.error, OverflowError):
        raise UsageError(f"{key}: {value} does not fit into {t.name} ({_range(t)})") from None


def _range(t: ValueType) -> str:
    if t.code in "fd":
        return "largest 3.4e38" if t.code == "f" else "largest 1.8e308"
    bits = t.size * 8
    return f"-{1 << bits - 1:,} to {(1 << bits - 1) - 1:,}" if t.code.islower() else f"0 to {(1 << bits) - 1:,}"


def parse_text(type_name: str, text: str, key: str = "value") -> object:
    """The Python value of what a person typed for that type.

    Integers may be hexadecimal (0x20); bool is true/false/yes/no/on/off/1/0; arrays are comma separated or a JSON list.

    Raises:
        UsageError: the text is not of that type.
    """
    type_id, element = parse_type(type_name)
    if element is None:
        return _scalar(VALUE_TYPES[type_id], text, key)
    t = VALUE_TYPES[element]
    stripped = text.strip()
    if stripped.startswith("["):
        try:
            items = from_json(stripped)
        except Malformed as e:
            if t.id == STR:
                return text.split(",")  # a token may begin like a list: [UNK],[CLS]
            raise UsageError(f"{key}: {e}") from None
        import json

        return [_scalar(t, v if isinstance(v, str) else json.dumps(v), key) for v in items]
    return [] if not stripped else [_scalar(t, v, key) for v in text.split(",")]


_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}


def _scalar(t: ValueType, text: str, key: str) -> object:
    if t.id == STR:
        return text
    word = text.strip().lower()
    if t.id == BOOL:
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        raise UsageError(f"{key}: expected true or false, got {text!r}")
    try:
        value = (
            float(word) if t.code in "fd" else int(word, 0) if not word.lstrip("+-").startswith("0") else _zero(word)
        )
    except ValueError:
        kind = "a number" if t.code in "fd" else "a whole number"
        raise UsageError(f"{key}: expected {kind} ({t.name}), got {text!r}") from None
    if isinstance(value, float) and math.isinf(value) and "inf" not in word:
        raise UsageError(f"{key}: {text[:40]} does not fit into {t.name} ({_range(t)})")
    if isinstance(value, float) and t.code == "f" and math.isfinite(value) and abs(value) > 3.4028235677973366e38:
        raise UsageError(f"{key}: {text} does not fit into f32 (largest 3.4e38)")
    return value


def _zero(word: str) -> int:
    """Numbers with leading zeros: 0x20 as written, 0032 as thirty-two."""
    return int(word, 0) if word.lstrip("+-")[1:2] in ("x", "o", "b") else int(word, 10)


_INTEGERS = (("u32", 0, 1 << 32), ("i32", -(1 << 31), 0), ("i64", -(1 << 63), 1 << 63), ("u64", 0, 1 << 64))


def nearest_type(value: object) -> str:
    """The value type a Python value gets when none is named: bool, u32 (else i32, i64, u64), f32, str, arrays of these.

    Raises:
        UsageError: no GGUF type fits.
    """
    value = plain(value)
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        for name, low, high in _INTEGERS:
            if low <= value < high:
                return name
    if isinstance(value, float):
        return "f32"
    if isinstance(value, str):
        return "str"
    if isinstance(value, (list, tuple)) and value:
        inner = {nearest_type(v) for v in value}
        if inner <= {"u32", "i32"}:
            return "[i32]" if "i32" in inner else "[u32]"
        if len(inner) == 1:
            return f"[{inner.pop()}]"
    raise UsageError(f"no GGUF type fits {value!r}", "name the type: KEY:TYPE=VALUE")
