"""The one place that writes: every disk operation of an edit is a verb here.

Tests put other layers behind the same verbs: one that dies before operation n, one that loses what was not synced,
one that fails. So nothing in `gguftool.edit` may write in another way. A layer also answers what the file system can
do (`can_insert`, `can_clone`), on scratch files that have no name.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gguftool.brief import named_repr
from gguftool.files import attributes, disk
from gguftool.files.able import linux_calls, must_write
from gguftool.files.disk import O_BINARY, O_CLOEXEC
from gguftool.files.faults import FULL
from gguftool.files.holes import hole_at
from gguftool.source import step_aside

if TYPE_CHECKING:
    from gguftool.files.copies import Move, Tick

BLOCK = 4096
"""Unit of insertion, and what is saved and restored at once, in bytes."""

_KEEP_SIZE = 0x01
_PUNCH = 0x02
_COLLAPSE = 0x08
_INSERT = 0x20
_F_SETLEASE = 1024
_F_SETSIG = 10
_SIGURG = 23  # ignored by default, so a lease break needs no handler; SIGIO's default would end the process


class OsLayer:
    """The real operating system; stateless."""

    __repr__ = named_repr

    # -- look

    def stat(self, path: str) -> os.stat_result | None:
        """What stands under a name; None when nothing does."""
        try:
            return os.stat(path)
        except FileNotFoundError:
            return None

    def fstat(self, fd: int) -> os.stat_result:
        """What is open."""
        return os.fstat(fd)

    def listdir(self, folder: str) -> list[str]:
        """Names in a folder."""
        return os.listdir(folder or ".")

    def read(self, fd: int, offset: int, n: int) -> bytes:
        """Up to ``n`` bytes; fewer only at the end of the file."""
        return disk.read_at(fd, offset, n)

    def hole(self, fd: int, start: int) -> tuple[int, int]:
        """The first hole at or behind ``start``: where it begins and ends; see `gguftool.files.holes.hole_at`."""
        return hole_at(fd, start, os.fstat(fd).st_size)

    # -- names

    def open(self, path: str, *, write: bool) -> int:
        """A descriptor of a file that exists."""
        if write:
            must_write()
        return os.open(path, (os.O_RDWR if write else os.O_RDONLY) | O_CLOEXEC | O_BINARY)

    def create(self, path: str, mode: int = 0o666) -> int:
        """A descriptor of a new file, for reading and writing; FileExistsError when the name is taken."""
        must_write()
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | O_CLOEXEC | O_BINARY, mode)

    def draft(self, path: str) -> tuple[int, str]:
        """A new file that will take the name of ``path`` or of a record of it: descriptor, and its hidden name.

        It is locked, and the number of its inode is in its name, so a killed run's is known for ours; see `sweep`.
        """
        from gguftool.files.unnamed import hidden_file

        return hidden_file(path)

    def sweep(self, path: str) -> None:
        """Remove the drafts of ``path`` that killed runs have left."""
        from gguftool.files.leftovers import sweep

        sweep(path)

    def close(self, fd: int) -> None:
        """Give a descriptor back."""
        os.close(fd)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, replacing what had it."""
        os.replace(old, new)

    def unlink(self, path: str) -> None:
        """Remove a name; no error when it is gone."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    # -- content

    def pwrite(self, fd: int, offset: int, data: bytes | memoryview) -> None:
        """All of ``data`` at ``offset``; short writes are continued."""
        disk.write_at(fd, offset, data)

    def truncate(self, fd: int, size: int) -> None:
        """Cut the file to ``size`` bytes, or lengthen it with a hole."""
        os.ftruncate(fd, size)

    def insert(self, fd: int, offset: int, n: int) -> None:
        """Make room of ``n`` bytes at ``offset`` by moving extents (FALLOC_FL_INSERT_RANGE); the room is a hole."""
        disk.fallocate(fd, _INSERT, offset, n)

    def collapse(self, fd: int, offset: int, n: int) -> None:
        """Take ``n`` bytes out at ``offset`` by moving extents (FALLOC_FL_COLLAPSE_RANGE)."""
        disk.fallocate(fd, _COLLAPSE, offset, n)

    def punch(self, fd: int, offset: int, n: int) -> None:
        """Make a hole of ``n`` bytes, the length stays (FALLOC_FL_PUNCH_HOLE)."""
        disk.fallocate(fd, _PUNCH | _KEEP_SIZE, offset, n)

    def copy_ranges(self, src: int, dst: int, moves: Sequence[Move], tick: Tick | None = None) -> None:
        """Bring ranges of a file into a new one; see `gguftool.files.copies.copy_ranges`.

        Raises:
            ChangedMeanwhile: the source ended before a range did.
        """
        from gguftool.files.copies import copy_ranges

        copy_ranges(src, dst, moves, tick)

    # -- barriers

    def fsync(self, fd: int) -> None:
        """Content and length are on the disk when this returns."""
        disk.sync(fd)

    def syncdir(self, folder: str) -> None:
        """The names in ``folder`` are on the disk when this returns."""
        disk.sync_folder(folder)

    # -- who else

    def lock(self, fd: int) -> bool:
        """Hold the journal for us alone; False when another process holds it."""
        # Where the file system has no locks, O_EXCL alone must do.
        return disk.lock(fd)

    def lease(self, fd: int) -> bool | None:
        """Keep everybody else from opening the file while we write it (Linux F_SETLEASE).

        True: we hold it. False: another process has the file open or mapped. None: no lease possible (not our file, not
        a local disk). Models that this process has open for reading do not count: they open the file anew.
        """
        fcntl = linux_calls()
        if fcntl is None:
            return None

        s = os.fstat(fd)
        step_aside(s.st_dev, s.st_ino)
        try:
            fcntl.fcntl(fd, _F_SETSIG, _SIGURG)
            fcntl.fcntl(fd, _F_SETLEASE, fcntl.F_WRLCK)
        except OSError as e:
            return False if e.errno in (errno.EAGAIN, errno.EBUSY) else None
        return True

    def unlease(self, fd: int) -> None:
        """Let the others open it again; closing the descriptor does the same."""
        fcntl = linux_calls()
        if fcntl is not None:
            with contextlib.suppress(OSError):
                fcntl.fcntl(fd, _F_SETLEASE, fcntl.F_UNLCK)

    # -- attributes

    def copy_flags(self, src: int, dst: int) -> None:
        """Inode flags that say how a file is stored (no copy on write), before the new one has content."""
        attributes.copy_flags(src, dst)

    def copy_attributes(self, src: int, dst: int) -> None:
        """Mode, owner, extended attributes (ACLs are among them) of one open file to another, as far as allowed."""
        attributes.copy_attributes(src, dst)

    def give(self, fd: int, like: os.stat_result) -> None:
        """Owner and group of another file, as far as allowed."""
        attributes.give(fd, like)

    def set_mtime(self, path: str, ns: int) -> None:
        """Set the time of last change, in nanoseconds since 1970."""
        os.utime(path, ns=(os.stat(path).st_atime_ns, ns))

    def flags(self, fd: int) -> int:
        """Inode flags (`IMMUTABLE`, `APPEND_ONLY`); 0 where there are none."""
        return attributes.flags(fd)

    # -- what the file system can do

    def free_bytes(self, folder: str) -> int:
        """Room left for this user, in bytes."""
        return disk.free_bytes(folder)

    def insert_unit(self, folder: str) -> int:
        """The multiple of bytes that can be inserted in files of this folder; 0 when it cannot be done.

        Asked of ext4 and xfs only: other file systems that say yes (an overlay) pass the call on to files that others
        may reach by another name.
        """
        if disk.file_system(folder) not in _CAN_INSERT:
            return 0
        for unit in (BLOCK, 16 << 10, 64 << 10, 1 << 20):
            with _scratch(folder) as fd:
                if fd < 0:
                    return 0
                try:
                    # A hole: it needs no room, so a full disk does not look like one that cannot.
                    os.ftruncate(fd, 2 * unit)
                    self.insert(fd, 0, unit)
                    self.collapse(fd, 0, unit)
                except OSError as e:
                    if e.errno == errno.EINVAL:
                        continue  # ext4 with bigalloc wants whole clusters
                    return unit if e.errno in FULL else 0
                return unit
        return 0

    def can_clone(self, folder: str) -> bool:
        """Whether files of this folder can share extents (FICLONERANGE: btrfs, xfs, bcachefs)."""
        with _scratch(folder) as src, _scratch(folder) as dst:
            if src < 0 or dst < 0:
                return False
            try:
                os.ftruncate(src, BLOCK)
            except OSError:
                return False
            from gguftool.files.copies import share

            return share(src, 0, dst, 0, BLOCK)


@contextlib.contextmanager
def _scratch(folder: str) -> Iterator[int]:
    """A descriptor of a file without a name; -1 where there are no such files."""
    flag = getattr(os, "O_TMPFILE", 0)
    fd = -1
    if flag:
        with contextlib.suppress(OSError):
            fd = os.open(folder or ".", os.O_RDWR | flag | O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        if fd >= 0:
            os.close(fd)


_CAN_INSERT = (0xEF53, 0x58465342)
"""Magic numbers of ext4 and xfs (`linux/magic.h`)."""
