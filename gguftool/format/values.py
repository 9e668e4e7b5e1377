"""One metadata value: bytes to Python and back, and the text form ``KEY:TYPE=VALUE``."""

from __future__ import annotations

import json
import math
import struct
import sys
from array import array

from gguftool.errors import UsageError
from gguftool.format.header import Field, Layout
from gguftool.format.types import ARR, BOOL, STR, VALUE_TYPE_BY_NAME, VALUE_TYPES, ValueType


def decode(field: Field) -> object:
    """The value of a field: int, float, bool, str; list of str, bool or lists; `array.array` of numbers."""
    if field.type == ARR:
        return decode_slice(field, 0, field.count or 0, as_array=True)
    view = field.value_bytes
    if field.type == STR:
        return _text(view[field.layout.length_size :])
    if field.type == BOOL:
        return view[0] != 0
    t = VALUE_TYPES[field.type]
    value: object = struct.unpack(field.layout.order + t.code, view)[0]
    return value


def decode_slice(field: Field, start: int, n: int, *, as_array: bool = False) -> list[object]:
    """Elements ``start .. start+n`` of an array field.

    With ``as_array`` numbers come as `array.array` (half the memory and no object per element).
    """
    count = field.count or 0
    start, stop = max(0, min(start, count)), max(0, min(start + n, count))
    view, layout = field.value_bytes, field.layout
    if field.element_type == STR:
        return list(_strings(view, layout, start, stop))
    if field.element_type == ARR:
        return _nested(view, layout, count)[start:stop]
    t = VALUE_TYPES[field.element_type if field.element_type is not None else 0]
    part = view[start * t.size : stop * t.size]
    if t.id == BOOL:
        return [b != 0 for b in part]
    numbers: array[int] | array[float] = array(_ARRAY_CODE[t.code])
    numbers.frombytes(part)
    if layout.big_endian == (sys.byteorder == "little"):
        numbers.byteswap()
    return numbers if as_array else numbers.tolist()  # type: ignore[return-value]


_ARRAY_CODE = {c: c for c in "bBhHiIfdqQ"}


def _text(data: memoryview | bytes) -> str:
    return str(data, "utf-8", "surrogateescape")


def _strings(view: memoryview, layout: Layout, start: int, stop: int) -> list[object]:
    unpack = struct.Struct(layout.order + layout.length_code).unpack_from
    size, o = layout.length_size, 0
    for _ in range(start):
        o += size + unpack(view, o)[0]
    out: list[object] = []
    for _ in range(stop - start):
        n = unpack(view, o)[0]
        o += size
        out.append(str(view[o : o + n], "utf-8", "surrogateescape"))
        o += n
    return out


def _nested(view: memoryview, layout: Layout, count: int) -> list[object]:
    out, _ = _nested_at(view, layout, count, 0)
    return out


def _nested_at(view: memoryview, layout: Layout, count: int, o: int) -> tuple[list[object], int]:
    """``count`` arrays, each with its own element type, from ``o`` on; and where they end."""
    out: list[object] = []
    for _ in range(count):
        element = struct.unpack_from(layout.order + "I", view, o)[0]
        n = struct.unpack_from(layout.order + layout.length_code, view, o + 4)[0]
        o += 4 + layout.length_size
        if element == ARR:
            inner, o = _nested_at(view, layout, n, o)
        elif element == STR:
            inner = _strings(view[o:], layout, 0, n)
            o += sum(layout.length_size + len(str(s).encode("utf-8", "surrogateescape")) for s in inner)
        else:
            t = VALUE_TYPES[element]
            inner = list(struct.unpack_from(f"{layout.order}{n}{t.code}", view, o))
            inner = [v != 0 for v in inner] if element == BOOL else inner
            o += n * t.size
        out.append(inner)
    return out, o


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
    head = _pack_string(key, layout) + struct.pack(layout.order + "I", type_id)
    count = None
    if element is None:
        body = _pack(VALUE_TYPES[type_id], value, layout, key)
    else:
        if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
            raise UsageError(f"{key}: an array needs a list of values, got {value!r}")
        items = list(value)
        count = len(items)
        head += struct.pack(layout.order + "I" + layout.length_code, element, count)
        body = b"".join(_pack(VALUE_TYPES[element], v, layout, key) for v in items)
    raw = head + body
    return Field(key, type_id, (0, len(raw)), len(head), element, count, layout, memoryview(raw))


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
            items = json.loads(stripped)
        except ValueError as e:
            raise UsageError(f"{key}: not a JSON list: {e}") from None
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
