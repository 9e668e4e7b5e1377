"""Where bytes come from: a file on disk or memory. Only this module reads model files.

A `Source` has a ``size`` in bytes, ``read_at(offset, n)`` and an ``identity`` that changes when the content may have.
Files are read at offsets, never mapped: a file cut short by somebody else must give an error, not a SIGBUS.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
import weakref
from collections.abc import Iterator
from typing import Protocol

from gguftool.brief import line, shown
from gguftool.errors import ChangedMeanwhile, EditInProgress, MissingFile, Unreadable
from gguftool.files.able import read_once, read_once_into
from gguftool.files.holes import hole_at

Identity = tuple[int, int, int, int]
"""Device, inode, size and time of the last write in ns."""
PATIENCE = 2.0
"""Seconds that a reader or a writer waits for another program to end what it does with the file."""


_NAME_MAX = 255
_ENDING = 12


def beside(path: str, ending: str) -> str:
    """The name of a file that belongs to a model: the model's with an ending, shortened where it would be too long.

    Args:
        path: the model.
        ending: such as ``-journal``.
    """
    folder, name = os.path.split(path)
    whole = os.fsencode(name)
    if len(whole) + _ENDING > _NAME_MAX:
        import hashlib

        name = f"{os.fsdecode(whole[:200])}~{hashlib.sha256(whole).hexdigest()[:16]}"
    return os.path.join(folder, name + ending)


def journal_path(path: str) -> str:
    """The journal of a model file; hot while it exists."""
    return beside(path, "-journal")


class Source(Protocol):
    """Random access to the bytes of one file."""

    @property
    def name(self) -> str:
        """What messages call it: a path or URL."""

    @property
    def size(self) -> int:
        """Length in bytes."""

    def read_at(self, offset: int, n: int) -> bytes:
        """Exactly ``n`` bytes from ``offset``; fewer only at the end of the source."""

    def close(self) -> None:
        """Give back the file descriptor or connection."""


class Memory:
    """Bytes that are already here."""

    def __init__(self, data: bytes, name: str = "<memory>", size: int | None = None) -> None:
        self.name = name
        self.data = data
        self.size = len(data) if size is None else size

    def __repr__(self) -> str:
        return line("Memory", [shown(self.name), f"{self.size:,} bytes"])

    def read_at(self, offset: int, n: int) -> bytes:
        """Slice of the data."""
        return self.data[offset : offset + n]

    def close(self) -> None:
        """Nothing to give back."""


# O_NONBLOCK: opening a FIFO must not wait for a writer.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_OPEN: weakref.WeakSet[LocalFile] = weakref.WeakSet()
"""The files this process has open, for `step_aside`."""


def step_aside(device: int, inode: int) -> None:
    """Let go of a file that is open for reading here, so that a lease tells whether *another* process has it open.

    The next read opens it again by its name; when an edit came in between, that raises `ChangedMeanwhile`.
    """
    for file in list(_OPEN):
        if file.identity[:2] == (device, inode):
            file.let_go()


class LocalFile:
    """A regular file, opened read-only on first use.

    Raises:
        MissingFile: no such path.
        Unreadable: a folder, FIFO, device, or no permission.
        EditInProgress: another process edits the file and does not come to an end.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.name = self.path
        self._fd = -1
        self._aside = False
        try:
            self._fd = _open(self.path, _FLAGS)
        except (FileNotFoundError, NotADirectoryError):
            raise _missing(self.path) from None
        except OSError as e:
            kind = MissingFile if e.errno in (errno.ENAMETOOLONG, errno.ELOOP) else Unreadable
            raise kind(f"{self.path}: {(e.strerror or str(e)).lower()}") from None
        except ValueError:  # a NUL in the name
            raise MissingFile(f"{self.path}: no such file") from None
        self._stat = os.fstat(self._fd)
        mode = self._stat.st_mode
        if not stat.S_ISREG(mode):
            self.close()
            what = "a folder" if stat.S_ISDIR(mode) else "a pipe" if stat.S_ISFIFO(mode) else "not a regular file"
            raise Unreadable(f"{self.path}: is {what}", "name a .gguf file")
        _OPEN.add(self)

    @classmethod
    def given(cls, fd: int, path: str) -> LocalFile:
        """A file that another process of ours has opened, by its descriptor; ``path`` is what messages call it."""
        file = cls.__new__(cls)
        file.path = file.name = path
        file._fd, file._aside, file._stat = fd, False, os.fstat(fd)
        return file

    @property
    def descriptor(self) -> int:
        """The descriptor, to hand on to a child (see `given`).

        Raises:
            ChangedMeanwhile: the file was let go, and is another one by now.
        """
        self._take_up()
        return self._fd

    def __repr__(self) -> str:
        return line("LocalFile", [shown(self.path), f"{self.size:,} bytes"])

    @property
    def size(self) -> int:
        """Length in bytes when it was opened."""
        return self._stat.st_size

    @property
    def identity(self) -> Identity:
        """Device, inode, size and mtime in ns when it was opened."""
        s = self._stat
        return s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns

    @property
    def state(self) -> tuple[int, ...]:
        """As `identity`, with the time of the last change of anything (ctime, ns): the same while the bytes are."""
        return (*self.identity, self._stat.st_ctime_ns)

    @property
    def journaled(self) -> bool:
        """Whether the journal of an edit lies beside the file: the edit runs, or was interrupted."""
        return os.path.exists(journal_path(os.path.realpath(self.path)))

    def read_at(self, offset: int, n: int) -> bytes:
        """Exactly ``n`` bytes; fewer only at the end.

        Raises:
            ChangedMeanwhile: the file became shorter since it was opened.
            Unreadable: the operating system reports an error.
        """
        self._take_up()
        n = max(0, min(n, self.size - offset))
        parts: list[bytes] = []
        while n > 0:
            try:
                part = read_once(self._fd, n, offset)
            except OSError as e:
                raise Unreadable(f"{self.path}: {e.strerror} at offset {offset}") from None
            if not part:
                raise ChangedMeanwhile(
                    f"{self.path}: became shorter while it was read", "try again when it is complete"
                )
            parts.append(part)
            offset += len(part)
            n -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill ``buffer`` from ``offset`` on; returns the bytes read, fewer than its length only at the end.

        Raises:
            ChangedMeanwhile, Unreadable: as `read_at`.
        """
        self._take_up()
        n = max(0, min(len(buffer), self.size - offset))
        done = 0
        while done < n:
            try:
                got = read_once_into(self._fd, buffer[done:n], offset + done)
            except OSError as e:
                raise Unreadable(f"{self.path}: {e.strerror} at offset {offset + done}") from None
            if not got:
                raise ChangedMeanwhile(
                    f"{self.path}: became shorter while it was read", "try again when it is complete"
                )
            done += got
        return n

    def hole(self, start: int) -> tuple[int, int]:
        """The first hole at or behind ``start``: bytes that were never written and are zeros; where it begins and ends.

        Both are the length of the file where there is none, or where the system cannot tell.
        """
        self._take_up()
        return hole_at(self._fd, start, self.size)

    def check_unchanged(self) -> None:
        """Raise `ChangedMeanwhile` when size or mtime moved since it was opened."""
        self._take_up()
        s = os.fstat(self._fd)
        if (s.st_size, s.st_mtime_ns) != (self._stat.st_size, self._stat.st_mtime_ns):
            raise ChangedMeanwhile(f"{self.path}: changed while it was read", "try again when it is complete")

    def let_go(self) -> None:
        """Release the file until the next read; the number of the descriptor stays ours, so no reader gets another."""
        if self._fd >= 0 and not self._aside:
            null = os.open(os.devnull, _FLAGS)
            os.dup2(null, self._fd, inheritable=False)
            os.close(null)
            self._aside = True

    def _take_up(self) -> None:
        """Open a file again that was let go.

        Raises:
            ChangedMeanwhile: it is another one by now.
        """
        if not self._aside or self._fd < 0:
            return
        try:
            fd = _open(self.path, _FLAGS)
        except OSError as e:
            raise Unreadable(f"{self.path}: {(e.strerror or str(e)).lower()}") from None
        try:
            s = os.fstat(fd)
            if (s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns) != self.identity:
                raise ChangedMeanwhile(f"{self.path}: was edited since it was opened", "open it again")
            os.dup2(fd, self._fd, inheritable=False)
            self._aside = False
        finally:
            os.close(fd)

    def close(self) -> None:
        """Close the descriptor; reading again needs a new `LocalFile`."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


def attempts(wait: bool = True) -> Iterator[None]:
    """Turns in which something may succeed: one at once, and with ``wait`` more until `PATIENCE` is over."""
    end = time.monotonic() + PATIENCE
    yield
    while wait and time.monotonic() < end:
        time.sleep(0.02)
        yield


def _open(path: str, flags: int) -> int:
    """Open; wait up to `PATIENCE` seconds for an edit that keeps others out with a lease.

    Raises:
        EditInProgress: it is still being edited then.
    """
    for _ in attempts():
        with contextlib.suppress(BlockingIOError):
            return os.open(path, flags)
    raise EditInProgress(f"{path}: is being edited by another process", "try again in a moment")


def _missing(path: str) -> MissingFile:
    """The error for a file that is not there: where a link ends, else the nearest name in the same folder."""
    if os.path.islink(path):
        # A cache whose blob was pruned, or a download that was not finished, leaves such links.
        end = os.path.realpath(path)
        return MissingFile(f"{path}: is a link to {end}, and there is no such file", "download it again")
    folder, name = os.path.split(path)
    try:
        names = [n.removesuffix(".gguf") for n in os.listdir(folder or ".") if n.endswith(".gguf")]
    except OSError:
        names = []
    # The ending, which all have, makes nothing alike.
    from gguftool.near import near_names

    near = [f"{n}.gguf" for n in near_names(name.removesuffix(".gguf"), names, 1)]
    if near:
        return MissingFile(f"{path}: no such file", f"did you mean {os.path.join(folder, near[0])}?")
    from gguftool.elsewhere import meant

    return MissingFile(f"{path}: no such file", meant(path))
