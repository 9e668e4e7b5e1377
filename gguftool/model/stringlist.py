"""The strings of a long array of a file as they stand there: one of them by its number, and all of them in pieces."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from operator import itemgetter
from threading import Lock

from gguftool.format.header import Field
from gguftool.format.strings import STEP

_BLOCK = 1 << 14
_ZEROS = bytes(7)
_NUMBER, _PLACE = itemgetter(0), itemgetter(1)
_LOCK = Lock()


class StringList:
    """The strings of an array.

    Attributes:
        count: how many.
        data: bytes that hold all of them, each with its length in front.
        begin, end: where these stand in them.
        prefix: how a length is written.
        big_endian: whether it is written so.
        name: of the known vocabulary that they are the tokens of, byte by byte; 0 for any other.
    """

    def __init__(self, f: Field | None, data: bytes = b"", begin: int = 0, end: int = 0) -> None:
        layout = f.layout if f is not None else None
        self.data, self.begin, self.end = data, begin, end
        self.count = f.count or 0 if f is not None else 0
        self.prefix = struct.Struct(layout.order + layout.length_code if layout else "<Q")
        self.big_endian = bool(layout and layout.big_endian)
        walked = f.strings if f is not None else None
        self.name = 0
        # Number and place of some of them, in order; all that there will be once `_done`.
        self._known = [(0, begin)]
        self._done = self.count <= STEP
        if walked is not None and walked.places:
            self._known += zip(range(STEP, self.count, STEP), (begin + place for place in walked.places), strict=True)
            self._done = True
        self._last = 0, begin

    def raw(self, index: int, most: int | None = None) -> bytes:
        """A string without its length, of a longer one the first ``most`` bytes; b"" outside the list."""
        if not 0 <= index < self.count:
            return b""
        o = self._place(index)
        n = self._length(o)
        o += self.prefix.size
        return self.data[o : o + (n if most is None else min(n, most))]

    def length(self, index: int) -> int:
        """Bytes of a string of the list."""
        return self._length(self._place(index))

    def index(self, place: int) -> int | None:
        """Number of the string that begins, with its length, at a place in `data`; None when none does there."""
        self._reach(0, place)
        i, o = self._known[bisect_right(self._known, place, key=_PLACE) - 1]
        size, unpack, data = self.prefix.size, self.prefix.unpack_from, self.data
        while o < place:
            o += size + unpack(data, o)[0]
            i += 1
        return i if o == place else None

    def contains(self, data: bytes) -> bool:
        """Whether these bytes stand anywhere in the list, in a string or across two of them."""
        return self.data.find(data, self.begin, self.end) >= 0

    def longer(self, than: int) -> list[int]:
        """Numbers of the strings of more bytes."""
        if self.name:
            return []
        out: list[int] = []
        for first, _, begin, end in self._pieces():
            if end - begin > than:
                i, o = first, begin
                while o < end:
                    n = self._length(o)
                    if n > than:
                        out.append(i)
                    i, o = i + 1, o + self.prefix.size + n
        return out

    @property
    def records(self) -> list[bytes]:
        """All of them, each with its length; made anew each time."""
        return [record for some in self.chunks() for record in some]

    def chunks(self) -> Iterator[list[bytes]]:
        """All of them, each with its length, about a thousand at a time."""
        fast = self.prefix.size == 8 and not self.big_endian and self.count > 64
        for _, n, begin, end in self._pieces():
            found: list[bytes] = _pattern().findall(self.data, begin, end) if fast and end - begin < n << 9 else []
            # Each begins where the one before it ends, and the last one must end where its length says.
            last = found[-1] if len(found) == n else b""
            if len(last) < 8 or self.prefix.unpack_from(last)[0] != len(last) - 8:
                found = self._walked(begin, n)
            yield found

    def _walked(self, o: int, count: int) -> list[bytes]:
        size, unpack, data, out = self.prefix.size, self.prefix.unpack_from, self.data, []
        for _ in range(count):
            end = o + size + unpack(data, o)[0]
            out.append(data[o:end])
            o = end
        return out

    def _pieces(self) -> Iterator[tuple[int, int, int, int]]:
        """Number of the first string, how many, the place of the first and that behind the last, piece by piece."""
        self._reach(self.count, 0)
        known = [*self._known, (self.count, self.end)] if self.count else []
        yield from ((first, after - first, begin, end) for (first, begin), (after, end) in pairwise(known))

    def _length(self, place: int) -> int:
        return int(self.prefix.unpack_from(self.data, place)[0])

    def _place(self, index: int) -> int:
        i, o = self._last
        # Often the one behind the one before is asked for.
        if not 0 <= index - i <= 1:
            self._reach(index, 0)
            known = self._known[bisect_right(self._known, index, key=_NUMBER) - 1]
            i, o = max(known, (i, o)) if i <= index else known
        size, unpack, data = self.prefix.size, self.prefix.unpack_from, self.data
        for _ in range(index - i):
            o += size + unpack(data, o)[0]
        self._last = index, o
        return o

    def _reach(self, index: int, place: int) -> None:
        """Know places up to a number, and up to a place."""
        while not self._done:
            with _LOCK:
                i, o = self._known[-1]
                if i + STEP > index and o + _BLOCK > place:
                    return
                self._more(i, o)

    def _more(self, i: int, o: int) -> None:
        if self.name:
            # The only zero bytes are the seven of each length: to count them is faster than to walk.
            at = self.data.find(_ZEROS, o + _BLOCK, self.end) - 1
            self._done = at < 0
            i, o = i + self.data.count(0, o, max(at, o)) // 7, at
        else:
            self._done = i + STEP >= self.count
            size, unpack, data = self.prefix.size, self.prefix.unpack_from, self.data
            for _ in range(0 if self._done else STEP):
                o += size + unpack(data, o)[0]
            i += STEP
        if not self._done:
            self._known.append((i, o))


@cache
def _pattern() -> re.Pattern[bytes]:
    """One alternative per length up to 255, most frequent lengths first: three times as fast as a loop in Python.

    What is longer ends it: the rest is one match, for every place in a long string would be tried.
    """
    order = sorted(range(256), key=lambda n: (abs(n - 5), n))
    some = (re.escape(bytes([n])) + b"\0" * 7 + (b"." * n if n < 4 else b".{%d}" % n) for n in order)
    return re.compile(b"|".join((*some, b".+")), re.S)
