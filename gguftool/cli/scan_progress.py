"""How far a scan has come, on a terminal: models done, a second, and the time left once all are counted."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gguftool.errors import GgufToolError
from gguftool.files.patterns import Patterns
from gguftool.fleet.find import count
from gguftool.report.progress import Progress

if TYPE_CHECKING:
    from gguftool.cli.options import Session
    from gguftool.fleet.row import Row


class Watched:
    """Shows it on stderr, where that is a terminal and nobody asked for quiet.

    The files are counted by a thread while the first are looked at: to find them all takes long on a slow disk.
    """

    def __init__(self, session: Session, paths: Sequence[str], patterns: Patterns) -> None:
        self._shown = not session.quiet and sys.stderr.isatty()
        self._progress = Progress(0, sys.stderr if self._shown else None, "scanned", lambda n: f"{n:,.0f} files")
        self._both = self._shown and sys.stdout.isatty()
        self._counter = threading.Thread(target=self._count, args=(paths, patterns), daemon=True)

    def _count(self, paths: Sequence[str], patterns: Patterns) -> None:
        try:
            self._progress.total = count(paths, patterns) or 0
        except (GgufToolError, OSError):
            return

    def put_aside(self) -> None:
        """Take the line away, for what is written to the same terminal."""
        if self._both:
            self._progress.close()

    def done(self, row: Row) -> None:
        """A row was written."""
        # Not before: a process should not be copied while a thread of it runs.
        if self._shown and self._counter.ident is None:
            self._counter.start()
        self._progress(len(row["files"]))

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *exc: object) -> None:
        self._progress.close()
