"""Files as a model of a disk knows them, and the verbs of the layer that say nothing about them."""

from __future__ import annotations

from dataclasses import dataclass, field

from gguftool.edit.oslayer import BLOCK


@dataclass
class Map:
    """Logical blocks of a file: ids of physical blocks, None for a hole; and the length in bytes."""

    blocks: list[int | None] = field(default_factory=list)
    size: int = 0

    def copy(self) -> Map:
        return Map(list(self.blocks), self.size)


# A structural change: the states of the map it goes through, the last one being its end.
Steps = list[Map]


@dataclass
class Inode:
    """One file: as programs see it, as it is on the disk, and what lies between."""

    number: int
    now: Map = field(default_factory=Map)
    disk: Map = field(default_factory=Map)
    pending: list[Steps] = field(default_factory=list)


class Idle:
    """The verbs that a model in memory has no use for."""

    def lock(self, fd: int) -> bool:
        return True

    def lease(self, fd: int) -> bool | None:
        return True

    def unlease(self, fd: int) -> None: ...

    def copy_flags(self, src: int, dst: int) -> None: ...

    def copy_attributes(self, src: int, dst: int) -> None: ...

    def give(self, fd: int, like: object) -> None: ...

    def set_mtime(self, path: str, ns: int) -> None: ...

    def free_bytes(self, folder: str) -> int:
        return 1 << 40

    def insert_unit(self, folder: str) -> int:
        return BLOCK

    def can_clone(self, folder: str) -> bool:
        return False
