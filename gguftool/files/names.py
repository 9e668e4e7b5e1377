"""Names: what stands under one, and putting a file there without ever replacing what came meanwhile."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys

from gguftool.errors import ChangedMeanwhile, MissingFile, Refused
from gguftool.files.able import must_write
from gguftool.files.attributes import IMMUTABLE, flags
from gguftool.files.faults import plain
from gguftool.shell import path_word, shell

_NOREPLACE = 1
_AT_FDCWD = -100
MOVE_AWAY = "name another file, or move it away first"
NOT_HERE = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EMLINK, errno.EXDEV)
"""Answers of file systems that have no hard links, or no rename that does not replace."""


def look(path: str) -> os.stat_result | None:
    """What stands under a name, links not followed; None when nothing does."""
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def describe(path: str, there: os.stat_result) -> str:
    """``a file of 1,234 bytes``, ``a folder``, ``a link to x.gguf``."""
    if stat.S_ISLNK(there.st_mode):
        with contextlib.suppress(OSError):
            end = os.readlink(path)
            return f"a link to {end}" + ("" if os.path.exists(path) else ", which does not exist")
        return "a link"
    if stat.S_ISDIR(there.st_mode):
        return "a folder"
    if stat.S_ISREG(there.st_mode):
        return "an empty file" if not there.st_size else f"a file of {there.st_size:,} bytes"
    return "a pipe" if stat.S_ISFIFO(there.st_mode) else "a device or socket"


def taken(path: str, there: os.stat_result, hint: str = MOVE_AWAY) -> Refused:
    """The refusal for a name that is taken."""
    return Refused(f"{path}: exists already ({describe(path, there)}); nothing was written", hint)


def check_free(path: str, *, overwrite: bool = False, can_overwrite: bool = False) -> os.stat_result | None:
    """Make sure ``path`` may be written: its folder exists, and nothing is lost.

    Args:
        path: the new file.
        overwrite: replace a file that is there.
        can_overwrite: whether the command has an option ``--overwrite``, for the hint.

    Returns:
        What will be replaced; None when nothing is there.

    Raises:
        Refused: something has that name, and ``overwrite`` is not set or it is no file; or the folder may not be
            written, or the system has not what writing needs.
        MissingFile: its folder does not exist.
    """
    must_write()
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise MissingFile(f"{folder}: no such folder", shell(("mkdir", "-p", path_word(folder))))
    if not os.access(folder, os.W_OK | os.X_OK):
        number = _why_not(folder)
        raise plain(OSError(number, os.strerror(number)), path)
    there = look(path)
    if there is None:
        return None
    is_file = _is_file(path, there)
    if overwrite and is_file:
        return there
    if can_overwrite and is_file:
        raise taken(path, there, "name another file, or say --overwrite")
    raise taken(path, there)


def _is_file(path: str, there: os.stat_result) -> bool:
    """Whether what may be replaced stands there: a file, a link to one or to nothing; no folder and no device."""
    if not stat.S_ISLNK(there.st_mode):
        return stat.S_ISREG(there.st_mode)
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return True


def _why_not(folder: str) -> int:
    """What the system would say about a new file in a folder that cannot be written to."""
    with contextlib.suppress(OSError):
        if hasattr(os, "statvfs") and os.statvfs(folder).f_flag & getattr(os, "ST_RDONLY", 1):
            return errno.EROFS
        fd = os.open(folder, os.O_RDONLY)
        try:
            if flags(fd) & IMMUTABLE:
                return errno.EPERM
        finally:
            os.close(fd)
    return errno.EACCES


def move_new(old: str, new: str) -> None:
    """Give a file another name; what stands there already stays.

    Raises:
        FileExistsError: something has that name.
        OSError: the system does not let us.
    """
    try:
        _rename_noreplace(old, new)
        return
    except OSError as e:
        if e.errno not in NOT_HERE:
            raise
    try:
        _link(old, new)
    except OSError as e:
        if e.errno not in NOT_HERE:
            raise
        # Neither: look, then move.
        if look(new) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new) from None
        os.rename(old, new)
        return
    os.unlink(old)


def move_over(old: str, new: str, expected: os.stat_result | None) -> None:
    """Give a file the name of another one, which is the one that was looked at before.

    Raises:
        ChangedMeanwhile: something else stands there by now.
        OSError: the system does not let us.
    """
    if expected is None:
        move_new(old, new)
        return
    now = look(new)
    if now is not None and (now.st_dev, now.st_ino) != (expected.st_dev, expected.st_ino):
        raise ChangedMeanwhile(
            f"{new}: another file appeared there while the new one was written; it was left", MOVE_AWAY
        )
    os.replace(old, new)


def second_name(old: str, new: str) -> bool:
    """Give a file another name beside the one it has; False where the file system has no hard links.

    Raises:
        FileExistsError: something has that name.
        OSError: the system does not let us.
    """
    try:
        _link(old, new)
    except OSError as e:
        if e.errno not in NOT_HERE:
            raise
        return False
    return True


def symlink_new(target: str, path: str) -> None:
    """A symbolic link; its folder is made.

    Raises:
        FileExistsError: something has that name.
        OSError: the system does not let us.
    """
    make_folder(os.path.dirname(path))
    os.symlink(target, path)


def make_folder(path: str) -> None:
    """A folder and those above it, unless they are there.

    Raises:
        OSError: it cannot be made.
    """
    os.makedirs(path or ".", exist_ok=True)


def _link(old: str, new: str) -> None:
    try:
        os.link(old, new, follow_symlinks=False)
    except NotImplementedError:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None


def _rename_noreplace(old: str, new: str) -> None:
    """renameat2(2) with RENAME_NOREPLACE, which Python does not offer."""
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    if call(_AT_FDCWD, os.fsencode(old), _AT_FDCWD, os.fsencode(new), _NOREPLACE):
        e = ctypes.get_errno()
        raise OSError(e, os.strerror(e), old, None, new)
