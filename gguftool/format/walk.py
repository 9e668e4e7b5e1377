"""Where the walk over the records of a header stands, and how it reads on."""

from __future__ import annotations

import struct

from gguftool.format import foresee, limits
from gguftool.format.foresee import Seen
from gguftool.format.header import Problem
from gguftool.format.types import Layout
from gguftool.records import dataclass, field
from gguftool.source import Source


class Short(Exception):
    """The buffer ends before the record does, and there is no file to read on in."""


class Stop(Exception):
    """The walk cannot go on."""

    def __init__(self, kind: str, message: str, offset: int, key: str | None = None) -> None:
        self.problem = Problem(kind, message, offset, key)


@dataclass(slots=True)
class Walk:
    """Where the walk stands; without a ``source`` it ends with the buffer.

    ``name`` and ``places`` are those of the last array of strings, see `gguftool.format.header.Walked`.
    """

    size: int
    buf: memoryview
    layout: Layout = field(default_factory=Layout)
    pos: int = 0
    source: Source | None = None
    key: str | None = None
    words: list[memoryview] | None = None
    counted: limits.Counted = field(default_factory=limits.Counted)
    seen: Seen = field(default_factory=Seen)
    name: int = 0
    places: list[int] = field(default_factory=list)

    def grow(self, need: int) -> None:
        """Read until ``need`` at least, and as far as the header will reach (`foresee`).

        From the start again: reading twice what was there is cheaper than joining two buffers, and a source that
        keeps what it read reads no more than the rest.
        """
        if self.source is None:
            raise Short
        self.seen.layout = self.layout
        want = min(self.source.size, limits.HEADER, foresee.foreseen(self.seen, self.buf, self.pos, need, self.key))
        self.seen.grown += 1
        self.words = None
        self.buf = memoryview(b"")
        self.buf = memoryview(self.source.read_at(0, want))
        if len(self.buf) < need:
            n = len(self.buf)
            raise Stop("truncated", f"only {n:,} of {need:,} bytes could be read", n, self.key)

    def reach(self, n: int, what: str) -> int:
        """Make sure ``n`` bytes stand at ``pos``; return ``pos`` and step over them."""
        start, end = self.pos, self.pos + n
        if end > len(self.buf):
            if end > self.size:
                left = self.size - start
                raise Stop("truncated", f"{what} needs {n:,} bytes at offset {start:,}, {left:,} left", start, self.key)
            if end > limits.HEADER:
                most = f"{limits.HEADER >> 20} MiB"
                raise Stop("too-large", f"{what} makes the header larger than {most}", start, self.key)
            self.grow(end)
        self.pos = end
        return start

    def number(self, code: str, n: int, what: str) -> int:
        at = self.reach(n, what)
        return int(struct.unpack_from(self.layout.order + code, self.buf, at)[0])

    def length(self, what: str) -> int:
        return self.number(self.layout.length_code, self.layout.length_size, what)

    def string(self, what: str) -> bytes:
        n = self.length(f"length of {what}")
        at = self.reach(n, what)
        return bytes(self.buf[at : at + n])

    def bound(self, count: int, least: int, what: str) -> None:
        """Stop where so many elements of ``least`` bytes cannot fit into the bytes left."""
        left = self.size - self.pos
        if count > left // least:
            raise Stop(
                "truncated", f"array of {count:,} {what} cannot fit into the {left:,} bytes left", self.pos, self.key
            )
