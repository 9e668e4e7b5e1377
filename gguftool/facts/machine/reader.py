"""How llama.cpp reads one key: exact types, arrays, one value for all layers (`llama-model-loader.cpp`, b11434)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gguftool.facts.data import load
from gguftool.facts.machine.ends import Abort, Refusal
from gguftool.format.header import Field
from gguftool.format.types import ARR, value_type_name

_ARRAY_OK = {
    "u32": frozenset({"u32", "i32"}),
    "i32": frozenset({"u32", "i32"}),
    "u64": frozenset({"u64"}),
    "f32": frozenset({"f32"}),
    "str": frozenset({"str"}),
}
_ARRAY_KNOWN = frozenset({"u32", "i32", "u64", "f32", "str"})
_SCALAR_OF = {"u32": "u32", "i32": "i32", "f32": "f32", "u64": "u64"}


def where(key: str) -> str:
    """``field:KEY``."""
    return f"field:{key}"


class Reader:
    """Reads keys as llama.cpp does; raises `Refusal` with its words.

    Args:
        fields: records by key.
        arch: prefix of the architecture's keys; "(unknown)" when llama.cpp does not know the name.
    """

    def __init__(self, fields: Mapping[str, Field], arch: str) -> None:
        self.fields = fields
        self.arch = arch

    def full(self, key: str) -> str:
        """A whole key: ``=general.name`` is itself, anything else gets the prefix."""
        return key[1:] if key.startswith("=") else f"{self.arch}.{key}"

    def refuse(self, text: str, where: str = "file") -> None:
        """llama.cpp throws that text.

        Raises:
            Refusal: here always; a reader that only wants to know what the keys come to goes on.
        """
        raise Refusal(text, where)

    def abort(self, text: str, where: str = "file") -> None:
        """llama.cpp dies with that text.

        Raises:
            Abort: here always, as in `refuse`.
        """
        raise Abort(text, where)

    def _field(self, full: str, required: bool) -> Field | None:
        f = self.fields.get(full)
        if f is None and required:
            raise Refusal(f"key not found in model: {full}", where(full))
        return f

    def scalar(self, key: str, type_name: str, required: bool = False) -> Any:
        """Value of a scalar key, None when absent and not required.

        Raises:
            Refusal: absent though required, or of another type.
        """
        full = self.full(key)
        f = self._field(full, required)
        if f is None:
            return None
        if value_type_name(f.type) != type_name:
            got = value_type_name(f.type)
            text = f"key {full} has wrong type {got} but expected type {type_name}"
            raise Refusal(text, where(full), expected=type_name, got=f.type_name)
        value = f.told
        return value.partition("\0")[0] if isinstance(value, str) else value

    def array(self, key: str, element: str, most: int, required: bool = True) -> list[Any] | None:
        """Elements of an array key, None when there is no array and none is required.

        Args:
            key: key without prefix.
            element: element type llama.cpp stores: ``u32``, ``i32``, ``u64``, ``f32``, ``str``.
            most: largest length, 0 without limit (then bool elements are refused as well).
            required: an absent array is an error.
        """
        full = self.full(key)
        f = self.fields.get(full)
        if f is None or f.type != ARR:
            if required:
                raise Refusal(f"array key not found in model: {full}", where(full))
            return None
        got = value_type_name(f.element_type if f.element_type is not None else -1)
        older = load("load_maps.json").get("arrays")
        if older is not None:
            self._older_array(full, got, element, older["fixed" if most else "free"], older["words"])
        elif got not in _ARRAY_KNOWN and not (got == "bool" and most):
            raise Refusal(f"{full} is not a string/float32/uint32/int32/uint64 array", where(full))
        elif got not in _ARRAY_OK[element] and not (got == "bool" and element in ("u32", "i32")):
            raise Refusal(f"{full} has wrong array element type {got}", where(full))
        count = f.count or 0
        if most and count > most:
            raise Refusal(f"array length {count} for key {full} exceeds max {most}", where(full))
        values: list[Any] = list(f.value) if most or element != "str" else []  # type: ignore[call-overload]
        if got == "bool":
            return [int(v) for v in values]
        if element == "u32" and got == "i32":
            return [v & 0xFFFFFFFF for v in values]
        if element == "i32" and got == "u32":
            return [v - (1 << 32) if v >> 31 else v for v in values]
        return values if most or element != "str" else [None] * count

    def _older_array(self, full: str, got: str, element: str, known: Mapping[str, str], words: str) -> None:
        """Types of elements as an older build looks at them: by an assertion where it has one."""
        if got not in known:
            raise Refusal(words.format(full), where(full))
        if got not in _ARRAY_OK[element] and not (got == "bool" and element in ("u32", "i32")):
            if known[got]:
                raise Abort(known[got], where(full))
            raise Refusal(f"{full} has wrong array element type {got}", where(full))

    def array_length(self, key: str, required: bool = True) -> int | None:
        """Length of an array key of any element type."""
        full = self.full(key)
        f = self._field(full, required)
        if f is None:
            return None
        if f.type != ARR:
            text = f"key {full} has wrong type {value_type_name(f.type)} but expected type arr"
            raise Refusal(text, where(full))
        return f.count or 0

    def per_layer(self, key: str, element: str, n: int, most: int, required: bool = True) -> list[Any] | None:
        """``n`` values: an array of exactly that length, or one value for all."""
        full = self.full(key)
        f = self._field(full, required)
        if f is None:
            return None
        if n > most:
            raise Refusal(f"n > N_MAX: {n} > {most} for key {full}", where(full))
        if f.type == ARR:
            count = f.count or 0
            if count != n:
                text = f"key {full} has wrong array length; expected {n}, got {count}"
                raise Refusal(text, where(full), expected=n, got=count)
            return self.array(key, element, most, required)
        value = self.scalar(key, _SCALAR_OF[element], required)
        return [value] * n

    def scalar_only(self, key: str, required: bool = True) -> int | None:
        """A u32; an array in its place is ignored unless the key is required."""
        full = self.full(key)
        f = self.fields.get(full)
        if f is not None and f.type == ARR:
            if required:
                raise Refusal(f"expected scalar, found array for key: {full}", where(full))
            return None
        value = self.scalar(key, "u32", required)
        return None if value is None else int(value)
