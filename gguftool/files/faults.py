"""What the operating system says about writing, as errors of ours: each with its exit code and a way on."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from gguftool.errors import GgufToolError, MissingFile, NoRoom, Refused, Unreadable, UsageError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.ETXTBSY)
DISK = (*FULL, *FORBIDDEN, errno.EIO)
"""What a disk says, and no network."""
_WAY_ON = {
    errno.EPERM: "the file or its folder may be immutable (lsattr shows it, chattr -i ends it); or write elsewhere",
    errno.EACCES: "write to another folder, or ask its owner for the permission",
    errno.EROFS: "write to another disk, or mount this one writable",
}


def plain(error: OSError, path: str, *, hint: str | None = None) -> GgufToolError:
    """The error for writing ``path`` that failed.

    Args:
        error: what the system said.
        path: the file as the user knows it, whatever name the draft had.
        hint: the way on where something is forbidden, in place of the usual one.
    """
    what = error.strerror or str(error)
    if error.errno == errno.EEXIST:
        return Refused(f"{path}: exists already; it was left as it is", "name another file, or move it away first")
    if error.errno in FULL:
        return NoRoom(
            f"{path}: the disk is full ({what}); nothing was kept",
            "free some space, or write to another disk",
        )
    if error.errno in FORBIDDEN:
        return Refused(f"{path}: {what}; nothing was written", hint or _WAY_ON.get(error.errno or 0, "try again later"))
    if error.errno == errno.ENOENT:
        return MissingFile(f"{path}: its folder does not exist", "mkdir makes it; or write to another folder")
    if error.errno in (errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP):
        return UsageError(f"{path}: {what}", "name the file to write")
    return Unreadable(f"{path}: {what}; nothing was kept")


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Errors of the operating system in this block are about writing ``path``.

    Raises:
        GgufToolError: see `plain`.
    """
    try:
        yield
    except OSError as error:
        raise plain(error, path) from error
