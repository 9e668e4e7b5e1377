"""The stores of this machine, read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from gguftool.brief import short_repr
from gguftool.elsewhere import meant
from gguftool.errors import MissingFile
from gguftool.files.disk import free_bytes
from gguftool.hub.stores.folders import plain
from gguftool.hub.stores.kept import Contents, Kept
from gguftool.hub.stores.places import Home, Place, existing
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class Store:
    """One folder of a program.

    Attributes:
        kind: name of the program, as in `PROGRAMS`; ``folder`` of one that is no program's.
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
    for place in existing(users):
        yield look(place)


def folder(path: str) -> Store:
    """A folder of models that is no program's: files are called by their paths in it.

    Raises:
        MissingFile: there is no such folder.
    """
    if not os.path.isdir(path):
        raise MissingFile(f"{path}: no such folder", meant(path))
    return _store("folder", path, plain(path, lambda name: os.path.relpath(name, path)))


def look(place: Place) -> Store:
    """What a store holds."""
    return _store(place.program.name, place.path, place.program.read(place.path), place.user)


def _store(kind: str, path: str, found: Contents, user: str = "") -> Store:
    try:
        free = free_bytes(path)
    except OSError:
        free = 0
    kept = sorted(found.kept, key=lambda k: (k.path, k.state))
    return Store(kind, path, tuple(kept), free, found.cut, tuple(found.unread), user)


def misplaced(store: Store) -> list[Kept]:
    """Files that LM Studio does not see: it wants publisher/repository/file.gguf."""
    if store.kind != "LM Studio":
        return []
    return [m for m in store.models if m.state == "model" and len(m.names[0].text.split(os.sep)) != 3]
