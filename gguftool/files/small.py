"""Small files: texts and pictures that replace an older one of their kind, lists that grow, logs, scratch files."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import IO, BinaryIO

from gguftool.errors import EditInProgress, Refused
from gguftool.files.able import must_write, read_once
from gguftool.files.attributes import ANYBODY, Readers
from gguftool.files.disk import O_CLOEXEC, lock, write_at
from gguftool.files.draft import Draft, draft_folder
from gguftool.files.faults import plain, writing
from gguftool.files.names import check_free, look, make_folder, taken
from gguftool.shell import shell

Mine = Callable[[bytes], bool]
"""Whether the first bytes of a file are those of a file of the kind that is to be written; b"" is an empty file."""
LOG_BEGIN = b"$ "
"""What a log of ours begins with: the command it is of."""
BEGIN = 1 << 20
"""Bytes of an older file that are looked at."""


def write_file(path: str, content: str | bytes, *, mine: Mine, what: str, readers: Readers = ANYBODY) -> None:
    """Write a small file whole; an older one of the same kind is replaced in one step and hands on its attributes.

    Args:
        path: the file; a device or pipe is written to as it is.
        content: text is written as UTF-8.
        mine: what may be replaced.
        what: the kind, for the message: ``picture``.
        readers: who may read a file that was not there before.

    Raises:
        Refused: something else has that name.
        NoRoom, MissingFile: it cannot be written.
    """
    with new_file(path, mine=mine, what=what, readers=readers) as write:
        write(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)


@contextlib.contextmanager
def new_file(path: str, *, mine: Mine, what: str, readers: Readers = ANYBODY) -> Iterator[Callable[[bytes], None]]:
    """The same for content that comes piece by piece; gives what takes a piece. The file has its name at the end.

    Raises:
        Refused, NoRoom, MissingFile: as `write_file`.
    """
    old = check_mine(path, mine, what)
    if old is not None and not stat.S_ISREG(old.st_mode):
        with writing(path), open(path, "wb") as stream:
            yield lambda data: _put(stream, data)
        return
    real = os.path.realpath(path) if old is not None else path
    with contextlib.ExitStack() as stack:
        like = None
        if old is not None:
            with writing(path):
                like = os.open(real, os.O_RDONLY | O_CLOEXEC)
            stack.callback(os.close, like)
        draft = stack.enter_context(Draft(real, overwrite=old is not None, like=like, readers=readers))
        yield draft.write
        draft.publish()


def _put(stream: BinaryIO, data: bytes) -> None:
    stream.write(data)


def check_mine(path: str, mine: Mine, what: str) -> os.stat_result | None:
    """Before any work: refuse a name that something of another kind has.

    Returns:
        What will be replaced; None when nothing is there.

    Raises:
        Refused: see above.
    """
    must_write()
    there = look(path)
    if there is None:
        return check_free(path)
    try:
        found = os.stat(path)
    except OSError:
        raise taken(path, there) from None
    if stat.S_ISDIR(found.st_mode):
        raise taken(path, there)
    if stat.S_ISREG(found.st_mode):
        with writing(path), open(path, "rb", buffering=0) as f:
            begin = f.read(BEGIN)
        if begin and not mine(begin):
            refusal = taken(path, there)
            raise Refused(f"{path}: exists already and is no {what}; nothing was written", refusal.hint)
    return found


def replace_own(path: str, content: str | bytes, readers: Readers = ANYBODY) -> None:
    """Write a file of a folder of ours anew, in one step.

    Raises:
        NoRoom, Refused: it cannot be written.
    """
    with Draft(path, overwrite=True, readers=readers) as draft:
        draft.write(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)
        draft.publish()


def append(path: str, lines: Sequence[str]) -> None:
    """Put lines behind what is there; a last line that a killed run left half is ended first.

    Raises:
        NoRoom, Refused, MissingFile: it cannot be written.
    """
    must_write()
    with writing(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | O_CLOEXEC, 0o666)
        try:
            size = os.fstat(fd).st_size
            begin = b"\n" if size and read_once(fd, 1, size - 1) != b"\n" else b""
            # With O_APPEND the offset does not count.
            write_at(fd, size, begin + "".join(line + "\n" for line in lines).encode("utf-8", "surrogateescape"))
        finally:
            os.close(fd)


def begin_log(path: str, command: Sequence[str]) -> BinaryIO:
    """A log that begins anew with the command it is of; an older log of ours is emptied, anything else refused.

    A log grows under its name from the start, so that people can watch it.

    Raises:
        Refused: something else has that name.
        NoRoom, MissingFile: it cannot be written.
    """
    check_mine(path, is_log, "log of gguftool")
    with writing(path):
        stream = open(path, "ab", buffering=0)  # noqa: SIM115 - the caller closes it
        try:
            if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                stream.truncate(0)
            stream.write(LOG_BEGIN + shell(command).encode() + b"\n")
        except BaseException:
            stream.close()
            raise
    return stream


def is_log(begin: bytes) -> bool:
    """Whether a file with these first bytes is a log of ours, or empty."""
    return not begin or begin.startswith(LOG_BEGIN)


def scratch_file() -> IO[bytes]:
    """A file without a name in the system's folder for temporary files."""
    import tempfile

    return tempfile.TemporaryFile()


def shared_file() -> IO[bytes]:
    """Memory to share with a child, as a file; a scratch file where the system has no such thing."""
    if not hasattr(os, "memfd_create"):
        return scratch_file()
    return open(os.memfd_create("gguftool"), "w+b", buffering=0)


def kept_file(prefix: str, suffix: str) -> str:
    """A new empty file in the system's folder for temporary files, which stays; its path."""
    import tempfile

    fd, path = tempfile.mkstemp(prefix=prefix, suffix=suffix)
    os.close(fd)
    return path


@contextlib.contextmanager
def scratch_folder() -> Iterator[str]:
    """A folder of ours in the system's folder for temporary files; gone at the end, or swept by the next run."""
    import tempfile

    with draft_folder(os.path.join(tempfile.gettempdir(), "gguftool")) as place:
        yield place


@contextlib.contextmanager
def alone(path: str, busy: str) -> Iterator[None]:
    """Hold a lock file; its folder is made.

    Args:
        path: the lock file, which stays.
        busy: the message when another process holds it.

    Raises:
        EditInProgress: another process holds it.
        Refused, NoRoom: it cannot be made.
    """
    must_write()
    try:
        make_folder(os.path.dirname(path))
        fd = os.open(path, os.O_RDWR | os.O_CREAT | O_CLOEXEC, 0o666)
    except OSError as error:
        raise plain(error, path) from error
    try:
        if not lock(fd):
            raise EditInProgress(busy, "wait for it")
        yield
    finally:
        os.close(fd)
