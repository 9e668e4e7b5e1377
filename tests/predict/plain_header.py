"""A GGUF header as plain lists, for those who change one thing of it; shares no code with the package."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

TYPES = dict(zip("u8 i8 u16 i16 u32 i32 f32 bool str arr u64 i64 f64".split(), range(13), strict=True))
CODE = dict(zip(range(13), ["<B", "<b", "<H", "<h", "<I", "<i", "<f", "<B", "", "", "<Q", "<q", "<d"], strict=True))
STR, ARR = 8, 9


class Array(list):  # type: ignore[type-arg]
    """Elements of an array value with their type id."""

    def __init__(self, element: int, items: Any) -> None:
        super().__init__(items)
        self.element = element


class Read:
    """A header as it is: ``kv``: [key, type id, value]; ``tensors``: [name, shape, type id, offset]."""

    def __init__(self, data: bytes) -> None:
        self.version, n_tensors, n_kv = struct.unpack_from("<IQQ", data, 4)
        self.data, self.at = data, 24
        self.kv = [[self._str(), (t := self._num("<I")), self._val(t)] for _ in range(n_kv)]
        self.tensors = [
            [self._str(), [self._num("<Q") for _ in range(self._num("<I"))], self._num("<I"), self._num("<Q")]
            for _ in range(n_tensors)
        ]

    def _num(self, code: str) -> int:
        value = struct.unpack_from(code, self.data, self.at)[0]
        self.at += struct.calcsize(code)
        return value  # type: ignore[no-any-return]

    def _str(self) -> bytes:
        n = self._num("<Q")
        self.at += n
        return self.data[self.at - n : self.at]

    def _val(self, t: int) -> Any:
        if t == STR:
            return self._str()
        if t != ARR:
            return self._num(CODE[t])
        element, n = self._num("<I"), self._num("<Q")
        if element in (STR, ARR):
            return Array(element, [self._val(element) for _ in range(n)])
        at, code = self.at, f"<{n}{CODE[element][1:]}"
        self.at += struct.calcsize(code)
        return Array(element, struct.unpack_from(code, self.data, at))


read_header = cache(Read)


def copied(v: Any) -> Any:
    return Array(v.element, map(copied, v) if v.element == ARR else v) if isinstance(v, Array) else v
