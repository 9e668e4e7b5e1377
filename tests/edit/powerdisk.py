"""A model of a disk whose power fails, behind the verbs of `gguftool.edit.oslayer.OsLayer`, in memory."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterable
from types import SimpleNamespace

from gguftool.edit.oslayer import BLOCK
from gguftool.files.holes import data_in
from tests.edit.inodes import Idle, Inode, Map, Steps
from tests.edit.mutants import site
from tests.edit.oslayers import Crashed

SECTOR = 512


class PowerOs(Idle):
    """A disk whose power can fail; the verbs of `OsLayer` (no subclass: nothing may reach the real disk).

    Model: content lives in physical blocks of eight sectors. A write changes sectors in the page cache; each may reach
    the disk or not, in any order, until fsync of its file. Changes of a file's map (allocation, length, shifts) reach
    the disk in order, as a prefix, the last one possibly half done; a shift or punch flushes the pages of the file
    before it, as ext4 and xfs do. Names reach the disk in order, as a prefix, until syncdir. With ``garble``, a sector
    that was being written when the power failed may hold noise.

    With ``faulty``, the sync number so-and-so of a file fails: of what it should have written, sectors are lost in any
    subset, and what is lost counts as clean from then on - programs read it, a later sync does not write it and reports
    success, until memory runs short and the sector is read from the disk again.
    """

    def __init__(
        self, seed: int, *, garble: bool = False, skip: frozenset[str] = frozenset(), faulty: int | None = None
    ) -> None:
        self.rng = random.Random(seed)
        self.faulty = faulty
        self.lost: set[tuple[int, int]] = set()  # (block, sector): clean, and not what is on the disk
        self.garble = garble
        self.skip = skip
        self.cache: dict[int, bytearray] = {}  # physical block -> content as programs see it
        self.platter: dict[int, bytearray] = {}  # ... as it is on the disk
        self.dirty: dict[tuple[int, int], tuple[int, list[bytes]]] = {}  # (block, sector) -> inode, versions
        self.names: dict[str, Inode] = {}
        self.disk_names: dict[str, Inode] = {}
        self.name_ops: list[tuple[str, str, Inode | None]] = []
        self.fds: dict[int, Inode] = {}
        self.next = 1
        self.left: int | None = None  # operations until the failure
        self.failed = False
        self.watch: Callable[[], None] | None = None
        self.sites: set[str] = set()

    # -- life

    def load(self, path: str, data: bytes, *, sparse: bool = False) -> None:
        """A file that is on the disk from the start; blocks of zeros are holes of a sparse one."""
        inode = Inode(self._number())
        self.names[path] = self.disk_names[path] = inode
        for start in range(0, len(data), BLOCK):
            if sparse and not any(data[start : start + BLOCK]):
                inode.now.blocks.append(None)
                continue
            block = self._number()
            self.cache[block] = bytearray(data[start : start + BLOCK].ljust(BLOCK, b"\0"))
            self.platter[block] = bytearray(self.cache[block])
            inode.now.blocks.append(block)
        inode.now.size = len(data)
        inode.disk = inode.now.copy()

    def content(self, path: str) -> bytes | None:
        """What a program would read now."""
        inode = self.names.get(path)
        return None if inode is None else self._read(inode, 0, inode.now.size)

    def die(self) -> None:
        """The process is gone; the page cache stays."""
        self.fds.clear()
        self.left, self.failed = None, False

    def reboot(self) -> None:
        """The power fails and comes back: what reached the disk is all there is."""
        rng = self.rng
        for (block, sector), (_, versions) in self.dirty.items():
            start = sector * SECTOR
            pick = rng.random()
            if self.garble and pick < 0.15:
                self.platter[block][start : start + SECTOR] = rng.randbytes(SECTOR)
            elif pick < 0.6:
                self.platter[block][start : start + SECTOR] = rng.choice(versions)
        self.dirty.clear()
        self.lost.clear()
        for inode in {id(i): i for i in [*self.names.values(), *self.disk_names.values()]}.values():
            done = rng.randint(0, len(inode.pending)) if rng.random() < 0.7 else len(inode.pending)
            for steps in inode.pending[:done]:
                inode.disk = steps[-1].copy()
            if done < len(inode.pending):
                steps = inode.pending[done]
                if len(steps) > 1 and rng.random() < 0.7:
                    inode.disk = rng.choice(steps[:-1]).copy()
            inode.pending.clear()
        done = rng.randint(0, len(self.name_ops))
        for op in self.name_ops[:done]:
            self._apply_name(self.disk_names, op)
        self.name_ops.clear()
        self.names = dict(self.disk_names)
        for inode in self.names.values():
            inode.now = inode.disk.copy()
            for block in inode.now.blocks:
                if block is not None:
                    self.platter.setdefault(block, bytearray(BLOCK))
                    self.cache[block] = bytearray(self.platter[block])
        self.die()

    def _number(self) -> int:
        self.next += 1
        return self.next

    def _tick(self) -> None:
        if self.failed:
            raise Crashed
        if self.lost and self.rng.random() < 0.1:
            self._evict()
        if self.watch is not None:
            self.watch()
        if self.left is not None:
            if self.left <= 0:
                self.failed = True
                raise Crashed
            self.left -= 1

    # -- look

    def _stat(self, inode: Inode) -> SimpleNamespace:
        return SimpleNamespace(
            st_dev=1,
            st_ino=inode.number,
            st_size=inode.now.size,
            st_mtime_ns=0,
            st_ctime_ns=0,
            st_mode=0o100644,
            st_nlink=1,
        )

    def stat(self, path: str) -> SimpleNamespace | None:
        inode = self.names.get(path)
        return None if inode is None else self._stat(inode)

    def fstat(self, fd: int) -> SimpleNamespace:
        return self._stat(self.fds[fd])

    def listdir(self, folder: str) -> list[str]:
        return [os.path.basename(p) for p in self.names if os.path.dirname(p) == folder]

    def _read(self, inode: Inode, offset: int, n: int) -> bytes:
        n = max(0, min(n, inode.now.size - offset))
        first, last = offset // BLOCK, -(-(offset + n) // BLOCK)
        parts = []
        for i in range(first, last):
            block = inode.now.blocks[i] if i < len(inode.now.blocks) else None
            parts.append(bytes(BLOCK) if block is None else bytes(self.cache[block]))
        return b"".join(parts)[offset - first * BLOCK :][:n]

    def read(self, fd: int, offset: int, n: int) -> bytes:
        return self._read(self.fds[fd], offset, n)

    def hole(self, fd: int, start: int) -> tuple[int, int]:
        inode = self.fds[fd]
        size, first = inode.now.size, None
        for i in range(start // BLOCK, -(-size // BLOCK)):
            empty = i >= len(inode.now.blocks) or inode.now.blocks[i] is None
            if empty and first is None:
                first = max(start, i * BLOCK)
            elif not empty and first is not None:
                return first, i * BLOCK
        return (size, size) if first is None else (first, size)

    # -- names

    def open(self, path: str, *, write: bool) -> int:
        if self.failed:
            raise Crashed
        if path not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        fd = self._number()
        self.fds[fd] = self.names[path]
        return fd

    def create(self, path: str, mode: int = 0o666) -> int:
        self._tick()
        if path in self.names:
            raise FileExistsError(errno.EEXIST, "exists", path)
        inode = Inode(self._number())
        self._name(("set", path, inode))
        fd = self._number()
        self.fds[fd] = inode
        return fd

    def draft(self, path: str) -> tuple[int, str]:
        folder, name = os.path.split(path)
        hidden = f"{folder}/.{name}.{self.next}.gguftool-part"
        return self.create(hidden, 0o600), hidden

    def sweep(self, path: str) -> None:
        folder, name = os.path.split(path)
        for other in [p for p in self.names if p.startswith(f"{folder}/.{name}.") and p.endswith(".gguftool-part")]:
            self.unlink(other)

    def close(self, fd: int) -> None:
        self.fds.pop(fd, None)

    def _name(self, op: tuple[str, str, Inode | None]) -> None:
        self._apply_name(self.names, op)
        self.name_ops.append(op)

    @staticmethod
    def _apply_name(names: dict[str, Inode], op: tuple[str, str, Inode | None]) -> None:
        verb, path, inode = op
        if verb == "set":
            assert inode is not None
            names[path] = inode
        elif verb == "drop":
            names.pop(path, None)
        else:  # move: one atomic step
            names[path] = names.pop(verb.removeprefix("move "))

    def rename(self, old: str, new: str) -> None:
        self._tick()
        self._name((f"move {old}", new, None))

    def unlink(self, path: str) -> None:
        self._tick()
        if path in self.names:
            self._name(("drop", path, None))

    # -- content

    def pwrite(self, fd: int, offset: int, data: bytes | memoryview) -> None:
        self._tick()
        if self._skipped("write"):
            return
        inode, data = self.fds[fd], bytes(data)
        pieces = []
        at = 0
        while at < len(data):
            room = SECTOR - (offset + at) % SECTOR
            pieces.append((offset + at, data[at : at + room]))
            at += room
        # A failure may come in the middle of the call: what was copied into the page cache stays there.
        stop = self.rng.randint(0, len(pieces)) if self.left == 0 else len(pieces)
        before = inode.now.copy()
        grown = False
        for where, piece in pieces[:stop]:
            index = where // BLOCK
            while len(inode.now.blocks) <= index:
                inode.now.blocks.append(None)
            if inode.now.blocks[index] is None:
                block = inode.now.blocks[index] = self._number()
                self.cache[block] = bytearray(BLOCK)
                self.platter[block] = bytearray(BLOCK)
                grown = True
            block = inode.now.blocks[index]
            assert block is not None
            self.lost.discard((block, where % BLOCK // SECTOR))
            self.cache[block][where % BLOCK : where % BLOCK + len(piece)] = piece
            sector = where % BLOCK // SECTOR
            entry = self.dirty.setdefault((block, sector), (inode.number, []))
            entry[1].append(bytes(self.cache[block][sector * SECTOR : sector * SECTOR + SECTOR]))
            if where + len(piece) > inode.now.size:
                inode.now.size = where + len(piece)
                grown = True
        if grown:
            self._structural(inode, [before, inode.now.copy()])
        if stop < len(pieces) or self.left == 0:
            self.failed = True
            raise Crashed

    def _structural(self, inode: Inode, steps: Steps) -> None:
        inode.pending.append(steps)

    def _flush_pages(self, inode: Inode) -> None:
        """Pages written before a shift are on the disk before the map changes."""
        for key in [k for k, (number, _) in self.dirty.items() if number == inode.number]:
            self._to_platter(key, self.dirty.pop(key)[1][-1])

    def _lose_pages(self, inode: Inode) -> None:
        for key in [k for k, (number, _) in self.dirty.items() if number == inode.number]:
            versions = self.dirty.pop(key)[1]
            if self.rng.random() < 0.5:
                self.lost.add(key)
            else:
                self._to_platter(key, versions[-1])

    def _to_platter(self, key: tuple[int, int], data: bytes) -> None:
        block, sector = key
        self.platter[block][sector * SECTOR : sector * SECTOR + SECTOR] = data

    def _evict(self) -> None:
        """Memory runs short: what counts as clean is read from the disk when it is needed again."""
        for block, sector in self.lost:
            at = slice(sector * SECTOR, sector * SECTOR + SECTOR)
            self.cache[block][at] = self.platter[block][at]
        self.lost.clear()

    def truncate(self, fd: int, size: int) -> None:
        self._tick()
        inode = self.fds[fd]
        keep = -(-size // BLOCK)
        inode.now = Map([*inode.now.blocks[:keep], *[None] * (keep - len(inode.now.blocks))], size)
        self._structural(inode, [inode.now.copy()])

    def insert(self, fd: int, offset: int, n: int) -> None:
        self._tick()
        inode = self.fds[fd]
        assert offset % BLOCK == 0
        assert n % BLOCK == 0
        self._flush_pages(inode)
        at, k, blocks = offset // BLOCK, n // BLOCK, inode.now.blocks
        size = inode.now.size + n
        # The length first, then the extents from the tail: [.. not moved ..][hole][.. moved ..]
        steps = [Map([*blocks[:stop], *[None] * k, *blocks[stop:]], size) for stop in range(len(blocks), at - 1, -1)]
        inode.now = steps[-1].copy()
        self._structural(inode, steps)

    def collapse(self, fd: int, offset: int, n: int) -> None:
        self._tick()
        inode = self.fds[fd]
        assert offset % BLOCK == 0
        assert n % BLOCK == 0
        if offset + n >= inode.now.size:
            raise OSError(errno.EINVAL, "collapse up to the end")
        self._flush_pages(inode)
        at, k, blocks = offset // BLOCK, n // BLOCK, inode.now.blocks
        rest = [*blocks[:at], *blocks[at + k :]]
        size = inode.now.size
        # First the range is punched, then extents move up from its end on, the length last.
        steps = [Map([*rest[:stop], *[None] * k, *rest[stop:]], size) for stop in range(at, len(rest) + 1)]
        steps.append(Map(rest, size - n))
        inode.now = steps[-1].copy()
        self._structural(inode, steps)

    def punch(self, fd: int, offset: int, n: int) -> None:
        self._tick()
        if self._skipped("punch"):
            return
        inode = self.fds[fd]
        self._flush_pages(inode)
        at, k = offset // BLOCK, n // BLOCK
        steps, blocks = [], list(inode.now.blocks)
        for i in self.rng.sample(range(at, at + k), k):
            blocks[i] = None
            steps.append(Map(list(blocks), inode.now.size))
        inode.now = steps[-1].copy()
        self._structural(inode, steps)

    def copy_ranges(self, src: int, dst: int, moves: Iterable[tuple[int, int, int]], tick: object = None) -> None:
        step = 4 * BLOCK
        for old, new, n in moves:
            for at, length in data_in(lambda start: self.hole(src, start), old, n):
                for start in range(at, at + length, step):
                    self.pwrite(dst, new + start - old, self.read(src, start, min(step, at + length - start)))

    # -- barriers

    def fsync(self, fd: int) -> None:
        self._tick()
        if self._skipped("sync"):
            return
        inode = self.fds[fd]
        if self.faulty is not None:
            self.faulty -= 1
            if self.faulty < 0:
                self.faulty = None
                self._lose_pages(inode)
                raise OSError(errno.EIO, "the disk lost a write")
        self._flush_pages(inode)
        inode.disk = inode.now.copy()
        inode.pending.clear()

    def syncdir(self, folder: str) -> None:
        self._tick()
        if self._skipped("sync"):
            return
        self.disk_names = dict(self.names)
        self.name_ops.clear()

    def _skipped(self, verb: str) -> bool:
        """Whether this step is the one that a mutant leaves out."""
        name = site(verb)
        if name is None:
            return False
        self.sites.add(name)
        return name in self.skip
