"""Files that have no name yet, or a hidden one that proves whose it is; see `gguftool.files.draft`."""

from __future__ import annotations

import contextlib
import errno
import os

from gguftool.digest import sha256
from gguftool.errors import Unreadable
from gguftool.files import leftovers
from gguftool.files.able import must_write
from gguftool.files.disk import O_BINARY, O_CLOEXEC, file_system, lock
from gguftool.files.leftovers import hidden
from gguftool.files.names import move_new

BY_DESCRIPTOR = "/proc/self/fd"
"""Folder in which this process finds what it has open."""
_TRIES = 8
# linux/magic.h: ext4, xfs, btrfs, tmpfs, overlayfs, f2fs, bcachefs.
_LINKS = (0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794C7630, 0xF2F52010, 0xCA451A4E)


def nameless(path: str) -> int:
    """A file without a name in the folder of ``path``; -1 where there are none that can be given one."""
    flag = getattr(os, "O_TMPFILE", 0)
    if not flag or not os.path.isdir(BY_DESCRIPTOR):
        return -1
    folder = os.path.dirname(path) or "."
    try:
        fd = os.open(folder, os.O_RDWR | flag | O_CLOEXEC, 0o600)
    except OSError as e:
        # Not all that say no say it in the same way; what is really wrong shows again with a name.
        if e.errno in (errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT):
            raise
        return -1
    if file_system(folder) in _LINKS:
        return fd
    # Some have such files and refuse the link: found out now, with an empty one, not when all is written.
    probe = os.open(folder, os.O_RDWR | flag | O_CLOEXEC, 0o600)
    try:
        name = hidden(path, str(os.fstat(probe).st_ino))
        link(probe, name)
        os.unlink(name)
    except OSError:
        os.close(fd)
        return -1
    finally:
        os.close(probe)
    return fd


def link(fd: int, path: str) -> None:
    """Give an open file without a name one; FileExistsError when it is taken."""
    folder, name = os.path.split(path)
    at = os.open(folder or ".", os.O_RDONLY | O_CLOEXEC)
    try:
        # With a descriptor of the folder Python calls linkat, which follows the link in /proc.
        os.link(f"{BY_DESCRIPTOR}/{fd}", name, dst_dir_fd=at, follow_symlinks=True)
    finally:
        os.close(at)


def hidden_file(path: str) -> tuple[int, str]:
    """A hidden file beside ``path``, locked, its inode number in its name."""
    must_write()
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | O_CLOEXEC | O_BINARY
    for _ in range(_TRIES):
        first = hidden(path, _word())
        fd = os.open(first, flags, 0o600)
        lock(fd)
        s = os.fstat(fd)
        if not s.st_nlink:
            # Another run has swept it before it was locked.
            os.close(fd)
            continue
        proven = hidden(path, str(s.st_ino))
        with contextlib.suppress(OSError):
            move_new(first, proven)
            return fd, proven
        return fd, first
    raise Unreadable(f"{path}: files that are written there vanish at once", "write to another folder")


def hidden_folder(path: str) -> tuple[str, int]:
    """A hidden folder beside ``path``, its inode number in its name, with a file in it that is locked."""
    first = hidden(path, _word())
    os.mkdir(first, 0o700)
    place = hidden(path, str(os.stat(first).st_ino))
    os.rename(first, place)
    held = os.open(os.path.join(place, leftovers.LOCK), os.O_RDWR | os.O_CREAT | O_CLOEXEC, 0o600)
    lock(held)
    return place, held


def _word() -> str:
    return sha256(os.urandom(16)).hexdigest()[:8]
