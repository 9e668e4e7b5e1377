"""New files that appear whole or not at all: a draft beside the target, checked, synced, then given its name.

Nothing that exists is ever overwritten.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable

from gguftool.errors import NoRoom, Refused


def refuse_existing(paths: Iterable[str]) -> None:
    """Raise `Refused` when one of the paths is taken."""
    for path in paths:
        if os.path.lexists(path):
            raise Refused(f"{path}: exists already; nothing was written", "name another output, or move it away first")


def need_room(folder: str, nbytes: int) -> None:
    """Raise `NoRoom` when the disk of a folder has less than ``nbytes`` free."""
    free = shutil.disk_usage(folder or ".").free
    if free < nbytes:
        raise NoRoom(
            f"{folder or '.'}: {nbytes:,} bytes are needed, {free:,} are free", "free some space, or write elsewhere"
        )


class Draft:
    """A file that is being written; it gets its name by `publish` and vanishes when that never happens.

    Args:
        path: the final name.

    Raises:
        Refused: something has that name.
    """

    def __init__(self, path: str) -> None:
        refuse_existing([path])
        self.path = path
        self.draft = f"{path}.draft-{os.getpid()}"
        self._fd = os.open(self.draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
        self._at = 0
        self._published = False

    @property
    def at(self) -> int:
        """Bytes written so far."""
        return self._at

    def write(self, data: bytes | memoryview) -> None:
        """Append all of ``data``."""
        view = memoryview(data)
        while view:
            n = os.write(self._fd, view)
            view = view[n:]
            self._at += n

    def feed(self, data: memoryview, offset: int) -> None:
        """As a sink of `gguftool.verify.stream.run`: append in order."""
        self.write(data)

    def sync(self) -> None:
        """Everything written so far is on the disk when this returns."""
        os.fsync(self._fd)

    def publish(self) -> None:
        """Give the file its name; refused when somebody else took that meanwhile.

        Raises:
            Refused: the name is taken.
        """
        self.sync()
        try:
            # A hard link fails when the name exists; a rename would replace what is there.
            os.link(self.draft, self.path)
        except FileExistsError:
            raise Refused(f"{self.path}: appeared meanwhile; the new file was not put in its place") from None
        except OSError:
            # No hard links on this filesystem.
            refuse_existing([self.path])
            os.rename(self.draft, self.path)
        self._published = True
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.draft)
        sync_folder(os.path.dirname(self.path))

    def withdraw(self) -> None:
        """Take the file away again, if `publish` put it there."""
        if self._published:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)

    def close(self) -> None:
        """Close it; a draft that was not published is removed."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if not self._published:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.draft)

    def __enter__(self) -> Draft:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def sync_folder(folder: str) -> None:
    """Names in a folder are on the disk when this returns (where the system can do that)."""
    try:
        fd = os.open(folder or ".", os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:
        return
    try:
        os.fsync(fd)
    except OSError:
        pass
    finally:
        os.close(fd)
