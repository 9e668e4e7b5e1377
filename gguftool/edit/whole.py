"""The header of a file that is to be edited: all of it, or a word why not."""

from __future__ import annotations

from gguftool.errors import FormatError
from gguftool.format.header import Header
from gguftool.model.headers import Headers
from gguftool.shell import gguftool, path_word
from gguftool.source import Source


def editable(source: Source, named: str, known: Headers | None = None) -> Header:
    """The whole header; a value of a type that we do not know is stepped over where its length can be told.

    Args:
        source: the file.
        named: what messages call it.
        known: headers that need not be read again.

    Raises:
        FormatError: it cannot be read to its end.
    """
    header = (known or Headers()).parsed(source)
    fatal = next((p for p in header.problems if p.fatal), None)
    if fatal is not None and fatal.kind == "unknown-value-type":
        from gguftool.format.resync import walk_past

        whole = walk_past(source, header)
        if whole is not None:
            return whole
    if fatal is not None:
        raise FormatError(
            f"{named}: cannot be edited: {fatal.message}",
            gguftool("lint", path_word(named)),
            offset=fatal.offset,
            key=fatal.key,
            kind=fatal.kind,
        )
    return header
