"""The walk over an array of strings, for its length and for what nobody should have to go that way for again.

On a little-endian host the lengths are read through eight shifted 64-bit views of the buffer, which is the fastest
strict walk that plain Python knows (about 50 ns a string). An array that is known byte by byte is not walked.
"""

from __future__ import annotations

import struct
import sys

from gguftool.format import again, foresee, limits
from gguftool.format.foresee import Array
from gguftool.format.vocabularies import Whole
from gguftool.format.walk import Stop, Walk

STEP = 1 << 10
"""Of so many strings the place of the first is kept, so that one of them can be found without a walk from the start."""


def skip_strings(walk: Walk, count: int) -> None:
    """Step over an array of so many strings; ``walk.name`` and ``walk.places`` are what was learnt on the way."""
    walk.bound(count, walk.layout.length_size, "strings")
    walk.counted.elements(count, "strings")
    start = walk.pos
    walk.name, walk.places = 0, []
    if known := again.length(walk.buf, start, count, walk.layout):
        walk.counted.strings_of(known)
        walk.pos = start + known
        return
    left, o = count, start
    expected: Whole | None = None
    while True:
        n = min(left, STEP - (count - left) % STEP)
        done, o = _step(walk, o, n)
        left -= done
        if left and done == n:
            walk.places.append(o - start)
            if len(walk.places) == 1:
                expected = _expected(walk, start, count, o)
            if expected and start + expected.size <= len(walk.buf):
                if expected.is_at(walk.buf, start, count):
                    walk.name, walk.places = expected.name, []
                    left, o = 0, start + expected.size
                    break
                expected = None
            continue
        if not left and o <= len(walk.buf):
            break
        walk.pos = o
        _more_strings(walk, start, count, left)
    walk.counted.strings_of(o - start)
    walk.pos = o


def _step(walk: Walk, o: int, n: int) -> tuple[int, int]:
    """Step over ``n`` strings: of how many the length lies in the buffer, and the place behind the last of these."""
    done = iter(range(n))
    try:
        if walk.layout.length_size == 8 and not walk.layout.big_endian and sys.byteorder == "little":
            words = walk.words
            if words is None:
                words = walk.words = _shifted_words(walk.buf)
            for _ in done:
                o += 8 + words[o & 7][o >> 3]
        else:
            size, buf = walk.layout.length_size, walk.buf
            unpack = struct.Struct(walk.layout.order + walk.layout.length_code).unpack_from
            for _ in done:
                o += size + unpack(buf, o)[0]
    except (IndexError, struct.error, OverflowError):
        return next(done, n) - 1, o
    return n, o


def _expected(walk: Walk, start: int, count: int, o: int) -> Whole | None:
    """What the array should be, told by its beginning; None for an array that is not known."""
    key = walk.key or ""
    found = walk.seen.arrays.get(key)
    # An array in an array has the key of the outer one.
    if found is None or found.start != start or walk.layout.length_size != 8 or walk.layout.big_endian:
        return None
    walk.seen.arrays[key] = Array(start, count, STEP, o, True)
    return foresee.whole(walk.seen, walk.buf, key, count)


def _more_strings(walk: Walk, start: int, count: int, left: int) -> None:
    """The walk left the buffer with ``left`` strings to come: read on, or name the string that is too long."""
    size, o = walk.layout.length_size, walk.pos
    need = o + (size if left else 0)
    if need <= min(walk.size, limits.HEADER):
        if walk.key in walk.seen.arrays:
            walk.seen.arrays[walk.key] = Array(start, count, count - left, o, True)
        walk.grow(need)
        return
    if o > limits.HEADER and o <= walk.size:
        raise Stop("too-large", f"the header is larger than {limits.HEADER >> 20} MiB", start, walk.key)
    unpack = struct.Struct(walk.layout.order + walk.layout.length_code).unpack_from
    at, index = start, 0
    while index < count and at + size <= len(walk.buf):
        n = unpack(walk.buf, at)[0]
        if at + size + n > walk.size:
            room = walk.size - at - size
            raise Stop("truncated", f"string {index:,} of the array claims {n:,} bytes, {room:,} left", at, walk.key)
        at += size + n
        index += 1
    raise Stop("truncated", f"the file ends inside string {index:,} of {count:,}", at, walk.key)


def _shifted_words(buf: memoryview) -> list[memoryview]:
    """Eight 64-bit views of the buffer, the k-th starting at byte k."""
    n = len(buf)
    return [buf[k : k + max(0, n - k) // 8 * 8].cast("Q") for k in range(8)]
