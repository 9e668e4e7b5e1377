"""``--metrics FILE`` of a scan: numbers for a monitor, written anew in one step."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from gguftool.errors import GgufToolError
from gguftool.files.small import check_mine, write_file
from gguftool.fleet.row import Row
from gguftool.fleet.tally import BROKEN, WHOLE, Tally, says
from gguftool.hub import is_remote
from gguftool.report.metrics import is_metrics, metrics

WHAT = "file of metrics"


class Metrics:
    """The file; "" is none.

    Args:
        path: of it.
        paths: what is scanned.
        events: what can happen, when folders are watched.

    Raises:
        Refused: the file is something else.
    """

    def __init__(self, path: str | None, paths: Sequence[str], events: Sequence[str] = ()) -> None:
        self._path = path or ""
        self._paths = [path if is_remote(path) else os.path.abspath(path) for path in paths]
        self._events = events
        self._tally = Tally()
        if self._path:
            check_mine(self._path, is_metrics, WHAT)

    def add(self, row: Row) -> None:
        """A row of a scan that ends."""
        if self._path:
            self._tally.add(WHOLE if row["ok"] else BROKEN, says(row))

    def end(self) -> None:
        """The scan is done."""
        if self._path:
            self._tally.scanned = time.time()
            self.write(self._tally)

    def write(self, tally: Tally) -> None:
        """Write numbers.

        Raises:
            NoRoom, MissingFile, Refused: it cannot be written.
        """
        if self._path:
            text = metrics(tally, self._paths, self._events)
            write_file(self._path, text, mine=is_metrics, what=WHAT)

    def try_to_write(self, tally: Tally) -> GgufToolError | None:
        """Write them or count that they cannot be written; a full disk does not end who watches."""
        try:
            self.write(tally)
        except GgufToolError as error:
            tally.errors += 1
            return error
        return None
