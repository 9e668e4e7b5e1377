"""Headers of files that are looked at more than once, each read once for as long as its file stays what it was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gguftool.brief import named_repr
from gguftool.errors import GgufToolError
from gguftool.format.header import Header
from gguftool.format.parse import parse
from gguftool.model.part import Part
from gguftool.source import LocalFile, Source

ROOM = 32 << 20
"""Bytes of headers that a command keeps which goes over its files more than once: some vocabularies."""


class Headers:
    """Headers by what tells one state of a file from every other (`LocalFile.state`), whatever it is called.

    Bytes that are no file of this machine are known as what was opened.

    Args:
        parts: files that are open already.
        room: bytes of headers that are kept, the newest; None for all.

    Attributes:
        shared: what was found out about the fields of the header that was read last (`Model.shared`).
    """

    __repr__ = named_repr

    def __init__(self, parts: Iterable[Part] = (), room: int | None = None) -> None:
        self._known: dict[object, Header] = {}
        self._room = room
        self.shared: dict[str, Any] = {}
        self.add(parts)

    def add(self, parts: Iterable[Part]) -> None:
        """Keep the headers of files that are open."""
        for part in parts:
            self.keep(part.source, part.header)

    def take(self, others: Headers) -> None:
        """Keep what others know."""
        for state, header in others._known.items():
            self._put(state, header)

    def keep(self, source: Source, header: Header) -> None:
        """Keep the header of an open file."""
        self._put(_state(source), header)

    def _put(self, state: object, header: Header) -> None:
        self._known.pop(state, None)
        self._known[state] = header
        while self._room is not None and sum(h.end for h in self._known.values()) > self._room:
            del self._known[next(iter(self._known))]

    def found_of(self, first: Part) -> dict[str, Any]:
        """What was found out about the fields of a model's first file; of a vocabulary it has many MB, so of one."""
        if self.known(first.source) is not first.header:
            self.shared = {}
        return self.shared

    def known(self, source: Source) -> Header | None:
        """That of an open file, if it was read before."""
        return self._known.get(_state(source))

    def parsed(self, source: Source) -> Header:
        """The header of an open file as far as it can be read, read now if it is not known; raises as `parse`."""
        header = self.known(source)
        if header is None:
            header = parse(source, strict=False)
            self.keep(source, header)
        return header

    def read(self, path: str, most: int | None = None) -> Header | None:
        """The header of a file, as far as it can be read; None when it is no GGUF or cannot be opened.

        Args:
            path: the file.
            most: None for one with more fields than this, too, unless it was read before; reading them takes longer.
        """
        try:
            source = LocalFile(path)
        except GgufToolError:
            return None
        try:
            if (before := self.known(source)) is not None:
                return before
            if most is not None and most < int.from_bytes(source.read_at(16, 8), "little") < 1 << 32:
                return None
            header = parse(source, strict=False)
        except GgufToolError:
            return None
        finally:
            source.close()
        if any(f.key.startswith(("split.", "general.split")) for f in header.fields):
            self.keep(source, header)
        return header


def _state(source: Source) -> object:
    return source.state if isinstance(source, LocalFile) else source


def headers_beside(kept: dict[str, Any]) -> Headers:
    """Those of the files that are looked at for a model: among what is kept on it (`Model.kept`), and gone with it."""
    found: Headers = kept.setdefault("headers of files beside it", Headers(room=ROOM))
    return found
