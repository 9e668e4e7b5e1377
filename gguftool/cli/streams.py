"""The three descriptors a program starts with, made fit for use: all open, and an own error where stdout fails.

A missing one (``2>&-``, some daemons) is opened on /dev/null before anything else, or the next file opened would get
its number: a model could become stderr. What cannot be written to stdout is `OutputLost`, so that nobody takes a full
disk under the report for one under the model. What cannot be written to stderr is dropped: a note that nobody sees
must not stop an edit.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputLost(OSError):
    """Stdout takes no more; what was computed, or done, could not be told."""


def ready() -> None:
    """Open what is missing of descriptors 0 to 2, and put our own streams on 1 and 2. Call it first of all."""
    for fd, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            # The lowest free number is this one: those below are open by now.
            os.open(os.devnull, mode)
            os.set_inheritable(fd, True)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False, encoding="utf-8")  # noqa: SIM115
    sys.stdout = _stream(sys.stdout, 1, _Stdout)
    sys.stderr = _stream(sys.stderr, 2, _Stderr)


def _stream(was: TextIO | None, fd: int, kind: Callable[..., io.FileIO]) -> TextIO:
    """A text stream on ``fd`` that behaves as Python's own, but for what happens when it cannot be written."""
    if was is not None and was.fileno() != fd:
        return was
    like = was if isinstance(was, io.TextIOWrapper) else None
    return io.TextIOWrapper(
        io.BufferedWriter(kind(fd, "wb", closefd=False)),
        encoding=like.encoding if like is not None else "utf-8",
        # A terminal that cannot show a character gets an escape, not a traceback.
        errors="backslashreplace",
        line_buffering=fd == 2 or (like is not None and like.line_buffering),
        write_through=like is not None and like.write_through,
    )


class _Stdout(io.FileIO):
    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            # Nobody reads any more: the boundary knows that one, and is silent.
            raise
        except OSError as error:
            raise OutputLost(error.errno, error.strerror) from None


class _Stderr(io.FileIO):
    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def give_up_stdout() -> None:
    """Send what is still to come on stdout to nowhere, so that Python's own flush at the end stays silent."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def stdin_bytes(first: int | None = None) -> bytes:
    """Stdin, whatever encoding the terminal has.

    Args:
        first: of more bytes than that, only these and the last eighth of as many are kept; None: all.
    """
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:
        return sys.stdin.read().encode()
    if first is None:
        return bytes(stream.read())
    head, last = bytes(stream.read(first)), b""
    while piece := stream.read(1 << 20):
        last = (last + piece)[-first // 8 :]
    return head + b"\n" + last if last else head
