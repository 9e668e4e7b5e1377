"""Headers of files that lie beside a model, each read once for as long as its file stays what it was."""

from __future__ import annotations

from collections.abc import Iterable

from gguftool.errors import GgufToolError
from gguftool.format.header import Header
from gguftool.format.parse import parse
from gguftool.model.part import Part
from gguftool.source import LocalFile

Identity = tuple[int, int, int, int]


class Headers:
    """Headers by path; those of shards are kept.

    Args:
        parts: files that are open already.
    """

    def __init__(self, parts: Iterable[Part] = ()) -> None:
        self._known: dict[str, tuple[Identity, Header]] = {
            part.name: (part.source.identity, part.header) for part in parts if isinstance(part.source, LocalFile)
        }

    def known(self, source: LocalFile) -> Header | None:
        """That of an open file, if it was read before."""
        before = self._known.get(source.path)
        return before[1] if before is not None and before[0] == source.identity else None

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
            self._known[path] = source.identity, header
        return header
