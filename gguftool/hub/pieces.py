"""What has been read of a file far away, and how much is read at once.

The front is kept as one piece. Who reads from the first byte on (the parser, which foresees how far a header will
reach) gets what is asked for and not a byte more. Reads that follow one another fetch ahead; behind the front the last
piece is kept.
"""

from __future__ import annotations

from collections.abc import Callable

from gguftool.format.foresee import FIRST_READ
from gguftool.records import dataclass

LARGEST = 16 << 20
"""Bytes that are fetched ahead at most."""
FRONT_LIMIT = 64 << 20
"""Bytes of the front that are kept, unless somebody asks for more of it at once."""

Fetch = Callable[[int, int], bytes]
"""Exactly so many bytes from an offset."""


@dataclass(slots=True)
class Pieces:
    """What is here of a file, and the way to the rest.

    Attributes:
        fetch: gets what is not here.
        front: the first bytes.
        whole: only the start of a file can be fetched, again and again.
    """

    fetch: Fetch
    front: bytes = b""
    whole: bool = False
    _at: int = 0
    _window: bytes = b""
    _last: int = 0

    def read(self, offset: int, n: int, size: int) -> bytes:
        """``n`` bytes of a file of ``size`` bytes; fewer only at its end."""
        n = max(0, min(n, size - offset))
        if not n:
            return b""
        end, have = offset + n, len(self.front)
        follows = 0 < offset == self._last
        self._last = end
        if end <= have:
            return self.front[offset:end]
        if offset <= have and (end <= FRONT_LIMIT or not offset):
            step = max(end - have, min(LARGEST, max(FIRST_READ, have)) if follows else 0)
            more = min(step, size - have)
            if self.whole:
                self.front = self.fetch(0, have + more)
            else:
                self.front += self.fetch(have, more)
            return self.front[offset:end]
        if not self._at <= offset <= end <= self._at + len(self._window):
            behind = offset == self._at + len(self._window)
            self._window = self.fetch(offset, min(max(n, LARGEST) if behind else n, size - offset))
            self._at = offset
        return self._window[offset - self._at : end - self._at]

    def drop(self) -> None:
        """Keep nothing."""
        self.front = self._window = b""
        self._at = 0
