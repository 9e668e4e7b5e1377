"""``gguftool scan --watch``: models checked as they land, until a signal ends it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from gguftool.cli.scan_metrics import Metrics
from gguftool.cli.scan_rows import collected, want
from gguftool.endings import deferred
from gguftool.errors import UsageError
from gguftool.files.patterns import Patterns
from gguftool.fleet.tally import Tally
from gguftool.fleet.watch import follow
from gguftool.fleet.watched import EVENTS, Pace
from gguftool.report.envelope import put
from gguftool.report.scan.shown import Shown
from gguftool.report.scan.watched import WATCHED

if TYPE_CHECKING:
    from gguftool.cli.options import Session


def run(session: Session, paths: Sequence[str], options: Mapping[str, Any]) -> int:
    """Write rows as something happens; 0 when a signal ends it: that is how it ends."""
    shape = WATCHED.get(session.format)
    if shape is None:
        raise UsageError(f"--format {session.format}: has an end, and --watch has none", "one of " + ", ".join(WATCHED))
    config = options["config"]
    metrics = Metrics(options["metrics"], paths, EVENTS)
    shown = Shown(paths, session.style)
    said: list[str] = []

    def count(tally: Tally) -> None:
        error = metrics.try_to_write(tally)
        text = str(error) if error is not None else ""
        if text and text not in said:
            session.warn(text)
        said[:] = [text]

    rows = follow(
        paths,
        want(session, options),
        Patterns(options["include"] or config.include, (*config.exclude, *options["exclude"])),
        jobs=options["jobs"],
        resume=options["resume"] or "",
        pace=Pace(options["settle"], options["patience"], options["every"], options["for"]),
        count=count,
        trouble=session.warn,
    )
    try:
        with collected(), closing(rows):
            for row in rows:
                text = shape.row(row, shown)
                # A signal in the middle of it would have the row written twice.
                with deferred():
                    if shape.data:
                        put(text, sys.stdout)
                    else:
                        sys.stdout.write(text)
                    sys.stdout.flush()
    except KeyboardInterrupt:
        return 0
    return 0
