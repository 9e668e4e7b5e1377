"""A new file that appears under its name only when it is whole and on disk."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator

from gguftool.errors import NoRoom, Refused, UsageError
from gguftool.shell import path_word, shell

MARK = ".gguftool-part"
"""Ending of files and folders that are being written; what is left over is deleted by the next run."""


def check_free(path: str, *, overwrite: bool) -> None:
    """Make sure ``path`` may be written: its folder exists, and nothing is lost.

    Raises:
        Refused: it exists and ``overwrite`` is not set.
        UsageError: its folder does not exist, or it is a folder.
    """
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise UsageError(f"{folder}: no such folder", shell(("mkdir", "-p", path_word(folder))))
    if os.path.isdir(path):
        raise UsageError(f"{path}: is a folder; name the file to write")
    if os.path.lexists(path) and not overwrite:
        raise Refused(f"{path}: exists already", "name another file, or say --overwrite")


def check_room(path: str, size: int, what: str = "the result") -> None:
    """Make sure ``size`` bytes fit on the disk of ``path``.

    Raises:
        NoRoom: they do not.
    """
    free = shutil.disk_usage(os.path.dirname(path) or ".").free
    if size > free:
        raise NoRoom(
            f"{what} takes {size:,} bytes and {free:,} are free on the disk of {path}",
            "free some space, or write to another disk",
        )


def sweep(path: str) -> None:
    """Delete drafts of ``path`` that a killed process left: those that nobody holds."""
    folder, name = os.path.split(path)
    for other in os.listdir(folder or "."):
        if other.startswith(f".{name[:80]}.") and other.endswith(MARK):
            draft = os.path.join(folder, other)
            with contextlib.suppress(OSError), open(_lock_of(draft)) as f:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(draft) if os.path.isdir(draft) else os.unlink(draft)


def _lock_of(draft: str) -> str:
    return os.path.join(draft, "lock") if os.path.isdir(draft) else draft


@contextlib.contextmanager
def draft_file(path: str) -> Iterator[tuple[int, str]]:
    """A hidden file beside ``path`` that is gone at the end unless it was given its name: descriptor and path."""
    folder, name = os.path.split(path)
    sweep(path)
    fd, draft = tempfile.mkstemp(suffix=MARK, prefix=f".{name[:80]}.", dir=folder or ".")
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        # mkstemp makes files for the owner alone; a model is as readable as any new file.
        os.fchmod(fd, 0o666 & ~_umask())
        yield fd, draft
    finally:
        os.close(fd)
        with contextlib.suppress(OSError):
            os.unlink(draft)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@contextlib.contextmanager
def draft_folder(path: str) -> Iterator[str]:
    """A hidden folder beside ``path`` that is gone at the end."""
    folder, name = os.path.split(os.path.abspath(path))
    sweep(path)
    place = tempfile.mkdtemp(suffix=MARK, prefix=f".{name[:80]}.", dir=folder)
    try:
        with open(os.path.join(place, "lock"), "w") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def whole_file(path: str, size: int, *, overwrite: bool, check: Callable[[str], object] | None = None) -> Iterator[int]:
    """A descriptor to write ``size`` bytes to; the file is named ``path`` when the block ends well, else it is gone.

    Args:
        path: final name.
        size: bytes of the file.
        overwrite: replace an existing file.
        check: looks at the finished draft before it gets its name; raises when it must not.

    Raises:
        Refused, UsageError, NoRoom: see `check_free`, `check_room`.
    """
    check_free(path, overwrite=overwrite)
    check_room(path, size)
    try:
        with draft_file(path) as (fd, draft):
            os.truncate(fd, size)
            yield fd
            os.fsync(fd)
            if check:
                check(draft)
            give_name(draft, path, overwrite=overwrite)
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise NoRoom(f"{path}: the disk is full", "free some space, or write to another disk") from None
        raise


def give_name(draft: str, path: str, *, overwrite: bool) -> None:
    """Move ``draft`` to ``path`` in one step; without ``overwrite`` a file that came meanwhile stays.

    Raises:
        Refused: ``path`` exists now.
    """
    if overwrite:
        os.replace(draft, path)
    else:
        try:
            os.link(draft, path)
            os.unlink(draft)
        except FileExistsError:
            raise Refused(f"{path}: appeared while it was written", "name another file, or say --overwrite") from None
        except OSError:
            # No hard links on this file system: look, then move.
            check_free(path, overwrite=False)
            os.replace(draft, path)
    sync_folder(os.path.dirname(path) or ".")


def sync_folder(folder: str) -> None:
    """Make a new name in ``folder`` survive a power cut."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
