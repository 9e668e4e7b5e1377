"""GGUF files inside a file: shards joined with cat, a download that was started again behind its own beginning."""

from __future__ import annotations

from collections.abc import Iterable

from gguftool.errors import GgufToolError
from gguftool.format.header import Header, align
from gguftool.format.parse import parse
from gguftool.format.types import MAGIC
from gguftool.model.shards import SplitKeys, split_keys
from gguftool.records import dataclass
from gguftool.source import Source

MOST = 4096
"""Embedded files followed at most."""


class Window:
    """Part of a source as a source of its own: ``size`` bytes from ``start`` on, to the end when None."""

    def __init__(self, source: Source, start: int, name: str, size: int | None = None) -> None:
        self._source = source
        self._start = start
        self.name = name
        self.size = source.size - start if size is None else size

    @property
    def path(self) -> str | None:
        """The file that it is a part of, when that is on this machine."""
        return getattr(self._source, "path", None)

    def read_at(self, offset: int, n: int) -> bytes:
        """As `Source.read_at`."""
        return self._source.read_at(self._start + offset, max(0, min(n, self.size - offset)))

    def whence(self, offset: int) -> tuple[Source, int]:
        """The source that a byte of this one is read from, and where it stands there."""
        return self._source, self._start + offset

    def close(self) -> None:
        """The source belongs to somebody else."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """A GGUF that starts inside a file at ``start``; ``end`` is where its data (with padding) ends."""

    start: int
    end: int
    keys: SplitKeys | None
    whole: bool


def ends(header: Header) -> tuple[int, int] | None:
    """Where a file must end at least (end of the last tensor) and at most (padded); None when a size is unknown."""
    end = header.data_end()
    if end is None or not header.complete:
        return None
    return end, align(end, header.alignment)


def embedded(source: Source, header: Header) -> list[Embedded]:
    """The GGUF files behind the first one, front to back; found where the one before ends."""
    found: list[Embedded] = []
    start, base = header, 0
    while len(found) < MOST:
        stop = ends(start)
        if stop is None:
            break
        at = _first_magic(source, sorted({base + stop[0], base + stop[1], base + align(stop[0], 32)}))
        if at is None:
            break
        try:
            start = parse(Window(source, at, f"{source.name} from byte {at:,}"), strict=False)
        except GgufToolError:
            break
        after = ends(start)
        end = source.size if after is None else min(at + after[1], source.size)
        whole = after is not None and at + after[0] <= source.size
        found.append(Embedded(at, end, split_keys(start), whole))
        base = at
    return found


def restarted(source: Source, header: Header) -> int | None:
    """Offset where the whole file starts a second time, behind a piece of its own beginning; None when it does not.

    A download tool that appends instead of resuming leaves such a file: it begins like the real one, and the real one
    is its tail.
    """
    stop = ends(header)
    if stop is None:
        return None
    head = source.read_at(0, min(header.end, 1 << 16))
    for length in dict.fromkeys((stop[1], stop[0])):
        at = source.size - length
        if at > 0 and source.read_at(at, len(head)) == head:
            return at
    return None


def _first_magic(source: Source, places: Iterable[int]) -> int | None:
    for at in places:
        if at + 24 <= source.size and source.read_at(at, 4) == MAGIC:
            return at
    return None
