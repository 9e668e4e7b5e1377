"""What a new file must hold, byte for byte, held against what the disk gives back of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gguftool.files.copies import Move
from gguftool.source import Source
from gguftool.verify.hashes import Sha256
from gguftool.verify.stream import CHUNK, fill


class Differs(Exception):
    """The disk gives back something else at this offset, in bytes."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


class Copied(NamedTuple):
    """Ranges of a new file that were copied from ``source``."""

    source: Source
    moves: Sequence[Move]


class Expected:
    """A sink that hashes and compares: with the header, with what was copied, with zeros where nothing was.

    What is copied is read once more from where it came from, and compared: half the work of a second hash, and a source
    that changed meanwhile is noticed. Blocks that the disk shares are the same for both files and are not compared.
    Both in one sink: a thread for each would move every byte to another processor, which costs what it gains.

    Args:
        size: bytes of the new file.
        head: its front.
        copied: what came from elsewhere.
        shared: (start, length) of what shares the blocks of another file.
    """

    def __init__(
        self, size: int, head: bytes, copied: Iterable[Copied], shared: Iterable[tuple[int, int]] = ()
    ) -> None:
        pieces: list[tuple[int, int, Source | bytes | None, int]] = [(0, len(head), head, 0)]
        pieces += [(to, n, one.source, at) for one in copied for at, to, n in one.moves]
        pieces += [(start, n, b"", 0) for start, n in shared]
        self._pieces: list[tuple[int, int, Source | bytes | None, int]] = []
        at = 0
        for start, n, origin, from_ in sorted(pieces, key=lambda piece: piece[:2]):
            if at < start:
                self._pieces.append((at, start, None, 0))
            at = start + n
            self._pieces.append((start, at, origin, from_))
        if at < size:
            self._pieces.append((at, size, None, 0))
        self._next = 0
        self._chunk = bytearray(CHUNK)
        self._digest = Sha256()

    def feed(self, data: memoryview, offset: int) -> None:
        """As `Sink.feed`.

        Raises:
            Differs: it is something else.
            Unreadable, ChangedMeanwhile: as the source's `read_at`.
        """
        self._digest.feed(data, offset)
        end = offset + len(data)
        while self._next < len(self._pieces):
            start, stop, origin, from_ = self._pieces[self._next]
            a, b = max(start, offset), min(stop, end)
            # A bytearray compares with memory as it lies, a memoryview element by element.
            if (
                a < b
                and origin != b""
                and self._bytes(origin, from_ + a - start, b - a) != data[a - offset : b - offset]
            ):
                raise Differs(a)
            if stop > end:
                return
            self._next += 1

    def hexdigest(self) -> str:
        """sha256 of everything fed."""
        return self._digest.hexdigest()

    def _bytes(self, origin: Source | bytes | None, at: int, n: int) -> bytearray:
        if isinstance(origin, bytes):
            return bytearray(origin[at : at + n])
        # Most of a long file is whole chunks: one buffer for all of them costs no new pages.
        wanted = self._chunk if n == CHUNK and origin is not None else bytearray(n)
        if origin is not None and (got := fill(origin, memoryview(wanted), at)) < n:
            return wanted[:got]
        return wanted
