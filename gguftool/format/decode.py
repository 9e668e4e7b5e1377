"""What the bytes of a metadata value say: numbers, strings, lists."""

from __future__ import annotations

import struct
import sys
from array import array

from gguftool.format.types import ARR, BOOL, STR, VALUE_TYPES, Layout


def value(type_id: int, view: memoryview, layout: Layout) -> object:
    """A scalar: int, float, bool or str (surrogate escapes where it is not UTF-8)."""
    if type_id == STR:
        return str(view[layout.length_size :], "utf-8", "surrogateescape")
    if type_id == BOOL:
        return view[0] != 0
    found: object = struct.unpack(layout.order + VALUE_TYPES[type_id].code, view)[0]
    return found


def elements(
    element_type: int | None,
    count: int,
    view: memoryview,
    layout: Layout,
    start: int = 0,
    n: int | None = None,
    *,
    as_array: bool = False,
) -> list[object]:
    """Elements ``start .. start+n`` of an array of ``count``; to its end when ``n`` is None.

    With ``as_array`` numbers come as `array.array` (half the memory and no object per element).
    """
    start = max(0, min(start, count))
    stop = count if n is None else max(0, min(start + n, count))
    if element_type == STR:
        return list(_strings(view, layout, start, stop))
    if element_type == ARR:
        return _nested(view, layout, count, 0)[0][start:stop]
    t = VALUE_TYPES[element_type if element_type is not None else 0]
    part = view[start * t.size : stop * t.size]
    if t.id == BOOL:
        return [b != 0 for b in part]
    numbers: array[int] | array[float] = array(_ARRAY_CODE[t.code])
    numbers.frombytes(part)
    if layout.big_endian == (sys.byteorder == "little"):
        numbers.byteswap()
    return numbers if as_array else numbers.tolist()  # type: ignore[return-value]


_ARRAY_CODE = {c: c for c in "bBhHiIfdqQ"}


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


def _nested(view: memoryview, layout: Layout, count: int, o: int) -> tuple[list[object], int]:
    """``count`` arrays, each with its own element type, from ``o`` on; and where they end."""
    out: list[object] = []
    for _ in range(count):
        element = struct.unpack_from(layout.order + "I", view, o)[0]
        n = struct.unpack_from(layout.order + layout.length_code, view, o + 4)[0]
        o += 4 + layout.length_size
        if element == ARR:
            inner, o = _nested(view, layout, n, o)
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
