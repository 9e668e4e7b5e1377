"""Which version of a file an address has now, as one word: whether what was found out about it still holds.

A listing says it of all its files at once, so that of a thousand files nothing has to be asked one by one.
"""

from __future__ import annotations

from collections.abc import Iterable

_told: dict[str, str] = {}
_MOST = 1 << 15


def note(rows: Iterable[tuple[str, str]]) -> None:
    """Remember what a listing says: address and stamp of each file."""
    if len(_told) > _MOST:
        _told.clear()
    _told.update(rows)


def told(spec: str) -> str | None:
    """The stamp of a file by its address, if a listing of this process named it."""
    return _told.get(spec)


def word(size: int, tag: str) -> str | None:
    """A stamp of a size in bytes and the tag of a version; None without a tag. A tag is the same in quotes."""
    plain = tag.removeprefix("W/").strip('"')
    return f"{size}:{plain}" if plain else None
