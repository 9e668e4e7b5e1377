"""A new file that appears under its name only when it is whole and on disk."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator

from gguftool.errors import NoRoom, Refused, UsageError

MARK = ".gguftool-part"
"""Ending of files that are being written; one that is left over may be deleted."""


def check_free(path: str, *, overwrite: bool) -> None:
    """Make sure ``path`` may be written: its folder exists, and nothing is lost.

    Raises:
        Refused: it exists and ``overwrite`` is not set.
        UsageError: its folder does not exist, or it is a folder.
    """
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise UsageError(f"{folder}: no such folder", f"mkdir -p {folder}")
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


@contextlib.contextmanager
def whole_file(path: str, size: int, *, overwrite: bool) -> Iterator[int]:
    """A descriptor to write ``size`` bytes to; the file is named ``path`` when the block ends well, else it is gone.

    Raises:
        Refused, UsageError, NoRoom: see `check_free`, `check_room`.
    """
    check_free(path, overwrite=overwrite)
    check_room(path, size)
    folder, name = os.path.split(path)
    fd, draft = tempfile.mkstemp(suffix=MARK, prefix=f".{name[:80]}.", dir=folder or ".")
    try:
        try:
            os.truncate(fd, size)
            yield fd
            os.fsync(fd)
            # mkstemp makes files for the owner alone; a model is as readable as any new file.
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(fd, 0o666 & ~mask)
        finally:
            os.close(fd)
        give_name(draft, path, overwrite=overwrite)
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoRoom(f"{path}: the disk is full", "free some space, or write to another disk") from None
        raise
    finally:
        with contextlib.suppress(OSError):
            os.unlink(draft)


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
