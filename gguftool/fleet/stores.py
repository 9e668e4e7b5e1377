"""Every GGUF of the machine over the stores of its programs: whose it is, how it is, how often, what could be freed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gguftool.brief import short_repr
from gguftool.fleet.copies import Compared, Datum, compare
from gguftool.hub.stores import File, Home, Kept, Store, closed, folder, homes
from gguftool.hub.stores import stores as read_stores
from gguftool.records import dataclass, field

if TYPE_CHECKING:
    from gguftool.verify.stream import Progress

YOUNG = 3600
"""Seconds in which what was written may still be in the making (`server/images.go:layerPruneGracePeriod` of Ollama)."""

Row = Mapping[str, Any]
Judge = Callable[[Sequence[str]], Iterable[Row]]


@dataclass(frozen=True, slots=True)
class Held:
    """One file as one store has it.

    Attributes:
        store: number of the store in `Inventory.stores`.
        kept: what the store says of it.
    """

    store: int
    kept: Kept


@dataclass(frozen=True, slots=True)
class Holding:
    """One file by its data, whoever has it.

    Attributes:
        file: the file.
        held: by whom, at least one.
        row: how it is, as `scan` has it; None of what is no whole model. Of a set the row of all of it.
    """

    file: File
    held: tuple[Held, ...]
    row: Row | None = None

    __repr__ = short_repr

    @property
    def state(self) -> str:
        """``model`` where any store has it so; else ``part`` or ``orphan``."""
        return min((h.kept.state for h in self.held), key=("model", "part", "orphan").index)

    @property
    def old(self) -> bool:
        """All its names are of revisions that are past."""
        names = [n for h in self.held for n in h.kept.names]
        return bool(names) and all(n.old for n in names)

    @property
    def sha256(self) -> str:
        """What a store has of its hash."""
        return next((h.kept.sha256 for h in self.held if h.kept.sha256), "")

    @property
    def opened(self) -> str:
        """Path to read it by."""
        return min(self.held, key=lambda h: h.kept.state != "model").kept.opened

    @property
    def called(self) -> str:
        """A name for it."""
        return min(self.held, key=lambda h: h.kept.state != "model").kept.called

    def young(self, now: float) -> bool:
        """It was written so lately that somebody may be at it."""
        return now - self.file.changed < YOUNG


@dataclass(frozen=True, slots=True)
class Inventory:
    """What there is.

    Attributes:
        stores: the folders.
        holdings: files by their data.
        lost: names whose data is gone.
        compared: which of them are the same.
        closed: folders of others that cannot be looked into, where stores may lie.
        now: when it was looked at, in seconds since 1970.
    """

    stores: tuple[Store, ...]
    holdings: tuple[Holding, ...]
    lost: tuple[Held, ...]
    compared: Compared
    closed: tuple[str, ...] = ()
    now: float = field(default_factory=time.time)

    __repr__ = short_repr

    @property
    def disk(self) -> int:
        """Bytes that all of it takes on its disks, each inode once."""
        return sum(h.file.disk for h in self.holdings)

    @property
    def broken(self) -> bool:
        """A model is not whole, or its data is gone."""
        return bool(self.lost or self.compared.wrong) or any(h.row and not h.row["ok"] for h in self.holdings)

    def by_inode(self) -> dict[tuple[int, int], Holding]:
        """Holdings by their inode."""
        return {h.file.inode: h for h in self.holdings}


def inventory(
    judge: Judge,
    *,
    users: Sequence[Home] | None = None,
    more: Sequence[str] = (),
    read: Callable[[int], Progress] | None = None,
) -> Inventory:
    """Look at the stores of this machine. Nothing is written, nothing is asked of the network.

    Args:
        judge: makes rows of paths, as `gguftool.fleet.scan.rows` does.
        users: whose stores; None: of everybody here.
        more: further folders of models.
        read: as of `gguftool.fleet.copies.compare`.
    """
    whose = homes() if users is None else users
    found = tuple(read_stores(whose))
    read_already = {s.path for s in found}
    found += tuple(folder(path) for path in more if os.path.realpath(path) not in read_already)
    holdings, lost = _held(found)
    holdings = list(_judged(holdings, judge))
    # What nothing names goes by itself; of two copies the one of an old revision comes last.
    kept = sorted((h for h in holdings if h.state == "model"), key=lambda h: h.old)
    compared = compare([Datum(h.file, h.sha256) for h in kept], read)
    return Inventory(found, tuple(holdings), tuple(lost), compared, tuple(closed(whose)))


def _held(stores: Sequence[Store]) -> tuple[list[Holding], list[Held]]:
    found: dict[tuple[int, int], list[Held]] = {}
    lost = []
    for no, store in enumerate(stores):
        for kept in store.models:
            if kept.file is None:
                lost.append(Held(no, kept))
            else:
                found.setdefault(kept.file.inode, []).append(Held(no, kept))
    holdings = [Holding(held[0].kept.file, tuple(held)) for held in found.values() if held[0].kept.file is not None]
    return holdings, lost


def _judged(holdings: Sequence[Holding], judge: Judge) -> Iterator[Holding]:
    """With what is known of each model; the row of a set is that of all its files."""
    rows: dict[tuple[int, int], Row] = {}
    # Of what went meanwhile nothing is said.
    for row in judge([h.opened for h in holdings if h.state != "part" and os.path.lexists(h.opened)]):
        for path in dict.fromkeys((row["path"], *row["files"])):
            try:
                found = os.stat(path)
            except OSError:
                continue
            rows[found.st_dev, found.st_ino] = row
    for h in holdings:
        yield Holding(h.file, h.held, rows.get(h.file.inode)) if h.state != "part" else h
