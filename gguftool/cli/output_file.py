"""``--output-file``: the report goes into a file, and stdout says in a line what it comes to."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gguftool.cli.options import option
from gguftool.cli.values import PATH

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from gguftool.cli.options import Session


def output_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``--output-file``."""
    return option(
        "--output-file",
        type=PATH,
        metavar="FILE",
        help="Write the report to this file; an older report there is replaced.",
    )(function)


@contextmanager
def written_to(session: Session, path: str | None) -> Iterator[Callable[[str], None]]:
    """What is written to stdout here goes into a file, which has its name when all is written; None: to stdout.

    Gives what takes the line that stdout gets in place of the report.

    Raises:
        Refused: something that is no report of ours has that name.
        NoRoom, MissingFile: it cannot be written.
    """
    lines: list[str] = []
    if path is None:
        yield lines.append
        return
    from gguftool.files.small import new_file
    from gguftool.report.kinds import is_report
    from gguftool.report.lines import room
    from gguftool.report.text import safe

    before = sys.stdout
    with new_file(path, mine=is_report, what="report of gguftool") as write:
        before.flush()
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(_Into(write)), "utf-8", "backslashreplace", newline="\n")
        try:
            with room(None):
                yield lines.append
            sys.stdout.flush()
        finally:
            sys.stdout = before
    session.out("\n".join([*lines, f"written to {safe(path)}"]))


class _Into(io.RawIOBase):
    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        raw = bytes(data)
        self._write(raw)
        return len(raw)
