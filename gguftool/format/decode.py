"""What the bytes of a metadata value say: numbers, strings, lists."""

from __future__ import annotations

import struct
import sys

from gguftool.format.types import ARR, BOOL, STR, VALUE_TYPES, Layout


def value(type_id: int, view: memoryview, layout: Layout, most: int | None = None) -> object:
    """A scalar: int, float, bool or str (surrogate escapes where it is not UTF-8; the first ``most`` bytes of it).

    Of a type unknown to GGUF its bytes.
    """
    if type_id == STR:
        return _text(view[layout.length_size :], most)
    if type_id == BOOL:
        return view[0] != 0
    if type_id not in VALUE_TYPES:
        # One that an edit carries along, see `gguftool.format.resync`.
        return bytes(view)
    found: object = struct.unpack(layout.order + VALUE_TYPES[type_id].code, view)[0]
    return found


def _text(view: memoryview, most: int | None) -> str:
    if most is not None and len(view) > most:
        # Not in the middle of a character, which has at most four bytes.
        back = next((i for i in range(min(4, most + 1)) if view[most - i] & 0xC0 != 0x80), 0)
        view = view[: most - back]
    return str(view, "utf-8", "surrogateescape")


def elements(
    element_type: int | None,
    count: int,
    view: memoryview,
    layout: Layout,
    start: int = 0,
    n: int | None = None,
    *,
    as_array: bool = False,
    most: int | None = None,
) -> list[object]:
    """Elements ``start .. start+n`` of an array of ``count``; to its end when ``n`` is None.

    With ``as_array`` numbers come as `array.array` (half the memory and no object per element). ``most``: bytes of a
    string, and elements of an array inside, that are decoded.
    """
    start = max(0, min(start, count))
    stop = count if n is None else max(0, min(start + n, count))
    if element_type == STR:
        return list(_strings(view, layout, start, stop, most))
    if element_type == ARR:
        return _nested(view, layout, stop, 0, most)[0][start:]
    t = VALUE_TYPES[element_type if element_type is not None else 0]
    part = view[start * t.size : stop * t.size]
    if t.id == BOOL:
        return [b != 0 for b in part]
    if not as_array:
        return list(struct.unpack(f"{layout.order}{len(part) // t.size}{t.code}", part))
    from array import array

    numbers: array[int] | array[float] = array(_ARRAY_CODE[t.code])
    numbers.frombytes(part)
    if layout.big_endian == (sys.byteorder == "little"):
        numbers.byteswap()
    return numbers  # type: ignore[return-value]


_ARRAY_CODE = {c: c for c in "bBhHiIfdqQ"}


def _strings(view: memoryview, layout: Layout, start: int, stop: int, most: int | None = None) -> list[object]:
    unpack = struct.Struct(layout.order + layout.length_code).unpack_from
    size, o = layout.length_size, 0
    for _ in range(start):
        o += size + unpack(view, o)[0]
    out: list[object] = []
    for _ in range(stop - start):
        n = unpack(view, o)[0]
        o += size
        out.append(_text(view[o : o + n], most))
        o += n
    return out


def _nested(view: memoryview, layout: Layout, count: int, o: int, most: int | None) -> tuple[list[object], int]:
    """``count`` arrays, each with its own element type, from ``o`` on; and where they end."""
    out: list[object] = []
    for _ in range(count):
        element = struct.unpack_from(layout.order + "I", view, o)[0]
        n = struct.unpack_from(layout.order + layout.length_code, view, o + 4)[0]
        o += 4 + layout.length_size
        shown = n if most is None else min(n, most)
        if element == ARR:
            inner, o = _nested(view, layout, n, o, most)
        elif element == STR:
            inner = _strings(view[o:], layout, 0, shown, most)
            o = _behind(view, layout, n, o)
        else:
            t = VALUE_TYPES[element]
            inner = list(struct.unpack_from(f"{layout.order}{shown}{t.code}", view, o))
            inner = [v != 0 for v in inner] if element == BOOL else inner
            o += n * t.size
        out.append(inner)
    return out, o


def _behind(view: memoryview, layout: Layout, count: int, o: int) -> int:
    """Where ``count`` strings end that begin at ``o``."""
    unpack = struct.Struct(layout.order + layout.length_code).unpack_from
    for _ in range(count):
        o += layout.length_size + unpack(view, o)[0]
    return o
