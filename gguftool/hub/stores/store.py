"""The stores of this machine, read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gguftool.brief import short_repr
from gguftool.files.disk import free_bytes
from gguftool.hub.stores.kept import Kept
from gguftool.hub.stores.places import Home, Place, places


@dataclass(frozen=True, slots=True)
class Store:
    """One folder of a program.

    Attributes:
        kind: name of the program, one of `PROGRAMS`.
        path: the folder.
        models: what lies in it.
        free: bytes free on its disk.
        cut: there were too many files to look at all of them.
        unread: what could not be read, with the reason.
        user: whose it is, where that is another user.
    """

    kind: str
    path: str
    models: tuple[Kept, ...]
    free: int
    cut: bool = False
    unread: tuple[tuple[str, str], ...] = ()
    user: str = ""

    __repr__ = short_repr

    @property
    def clear(self) -> bool:
        """All of it was read, so that what nothing names is known to have no name."""
        return not self.cut and not self.unread


def stores(users: Sequence[Home] | None = None) -> Iterator[Store]:
    """The stores that are there, one at a time.

    Args:
        users: whose; None: of the one who asks, and of the system.
    """
    for place in places(users):
        yield look(place)


def look(place: Place) -> Store:
    """What a store holds."""
    found = place.program.read(place.path)
    try:
        free = free_bytes(place.path)
    except OSError:
        free = 0
    kept = sorted(found.kept, key=lambda k: (k.path, k.state))
    return Store(place.program.name, place.path, tuple(kept), free, found.cut, tuple(found.unread), place.user)


def misplaced(store: Store) -> list[Kept]:
    """Files that LM Studio does not see: it wants publisher/repository/file.gguf."""
    if store.kind != "LM Studio":
        return []
    return [m for m in store.models if m.state == "model" and len(m.names[0].text.split(os.sep)) != 3]
