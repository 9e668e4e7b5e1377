"""Bytes onto a disk: whole writes, room, locks and barriers."""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import sys
from collections.abc import Callable

from gguftool.errors import NoRoom
from gguftool.files.able import read_once

O_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
O_BINARY = getattr(os, "O_BINARY", 0)
Progress = Callable[[int, int], None]
"""(bytes done, of all)."""


def write_at(fd: int, offset: int, data: bytes | memoryview) -> None:
    """All of ``data`` at ``offset``; short writes are continued."""
    view = memoryview(data).cast("B")
    while view:
        done = os.pwrite(fd, view, offset)
        offset += done
        view = view[done:]


def read_at(fd: int, offset: int, n: int) -> bytes:
    """Up to ``n`` bytes; fewer only at the end of the file."""
    parts = []
    while n > 0:
        part = read_once(fd, n, offset)
        if not part:
            break
        parts.append(part)
        offset += len(part)
        n -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def fallocate(fd: int, mode: int, offset: int, n: int) -> None:
    """Take, move or give back blocks of a file, by the call of Linux that Python does not offer.

    The one it offers, posix_fallocate(3), writes into every block where the file system has no such call.

    Raises:
        OSError: EOPNOTSUPP where the system or the file system cannot do it; ENOSPC.
    """
    if sys.platform != "linux":
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
    import ctypes

    call = ctypes.CDLL(None, use_errno=True).fallocate
    call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    while call(fd, mode, offset, n):
        e = ctypes.get_errno()
        if e != errno.EINTR:
            raise OSError(e, os.strerror(e))


def sync(fd: int) -> None:
    """Content and length are on the disk when this returns."""
    if sys.platform == "darwin":  # pragma: no cover - other platform
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fsync(fd)


def sync_folder(folder: str | int) -> None:
    """The names in a folder (path or descriptor) are on the disk when this returns."""
    fd = folder if isinstance(folder, int) else os.open(folder or ".", os.O_RDONLY | O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as e:
        # Some network and FUSE file systems have no sync of folders.
        if e.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EBADF):
            raise
    finally:
        if not isinstance(folder, int):
            os.close(fd)


def lock(fd: int, without: bool = True) -> bool:
    """Hold an open file for us alone; False when another process holds it.

    Args:
        fd: the file.
        without: the answer where the file system has no locks.
    """
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as e:
        if e.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            return without
        raise
    return True


def free_bytes(folder: str) -> int:
    """Room left for this user on the disk of a folder, in bytes."""
    if not hasattr(os, "statvfs"):
        import shutil

        return shutil.disk_usage(folder or ".").free
    found = os.statvfs(folder or ".")
    return found.f_bavail * found.f_frsize


def file_system(folder: str) -> int:
    """Magic number of the file system a folder lies on; 0 when it cannot be asked."""
    if sys.platform != "linux":
        return 0
    import ctypes

    answer = ctypes.create_string_buffer(256)
    if ctypes.CDLL(None, use_errno=True).statfs(os.fsencode(folder or "."), answer):
        return 0
    return int(struct.unpack_from("=l" if ctypes.sizeof(ctypes.c_long) == 4 else "=q", answer)[0]) & 0xFFFFFFFF


def allow_open(n: int) -> None:
    """Let this process have so many files open at once, as far as the system lets it."""
    try:
        import resource
    except ImportError:
        # Windows has a limit of its own for each program, which cannot be asked.
        return

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = n + 64
    if resource.RLIM_INFINITY != soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def is_full(folder: str) -> bool:
    """Whether nothing more can be written to the disk of a folder."""
    return free_bytes(folder) < 4096


def check_room(folder: str, needed: int, *, what: str = "", free: int | None = None) -> None:
    """Refuse before anything is written when the disk of a folder has not that many bytes free.

    Args:
        folder: where the file will lie; "" is the current one.
        needed: bytes.
        what: what takes them, for the message.
        free: bytes that are free, when they were asked for already.

    Raises:
        NoRoom: it has not.
    """
    there = free_bytes(folder) if free is None else free
    if there < needed:
        raise NoRoom(
            f"{folder or '.'}: {needed:,} bytes are needed{f' for {what}' if what else ''}, {there:,} are free; "
            "nothing was written",
            "free some space, or write to another disk",
        )
