"""gguftool, run in this process as `main` runs it: words in, bytes of its streams out, the exit code back."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Sequence
from typing import Any, BinaryIO

import pytest


def call(args: Sequence[str], out: BinaryIO | Any, err: BinaryIO | Any, stdin: bytes | str = b"") -> int:
    """Run a command line. Not for crashes, pipes or signals: those take a process of their own.

    Args:
        args: the words after ``gguftool``.
        out: where stdout goes, in bytes.
        err: where stderr goes; the same stream for what a terminal shows.
        stdin: what can be read from stdin.
    """
    from gguftool.cli.main import main

    def text(stream: Any) -> io.TextIOWrapper:
        return io.TextIOWrapper(stream, encoding="utf-8", write_through=True)

    writers = [text(out)]
    writers.append(writers[0] if err is out else text(err))
    given = stdin if isinstance(stdin, str) else None
    reader = io.StringIO(given) if given is not None else text(io.BytesIO(bytes(stdin)))  # type: ignore[arg-type]
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdin", reader)
            with contextlib.redirect_stdout(writers[0]), contextlib.redirect_stderr(writers[1]):
                return main(list(args))
    finally:
        for writer in set(writers):
            # The stream underneath is the caller's, to be read or written further.
            writer.flush()
            writer.detach()
