"""``gguftool scan --stores``: what the programs of this machine keep, and commands that free room."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from gguftool.cli.scan_rows import want
from gguftool.errors import Bug, UsageError

if TYPE_CHECKING:
    from gguftool.cli.options import Session

FORMATS = ("text", "json", "markdown")


def run(session: Session, paths: Sequence[str], options: Mapping[str, Any]) -> int:
    """Look, report, and say how it ends: 1 when a model is not whole, or its data is gone."""
    from gguftool.api.stored import look
    from gguftool.fleet.row import fails, internal
    from gguftool.report import stores as report
    from gguftool.report.progress import Progress

    if session.format not in FORMATS:
        raise UsageError(f"--format {session.format}: is not made of stores", "one of " + ", ".join(FORMATS))
    wanted = want(session, options, bill=False)
    with ExitStack() as ending:

        def read(total: int) -> Progress:
            return ending.enter_context(Progress(total, None if session.quiet else sys.stderr, "comparing"))

        resume, reading = options["resume"] or "", read if options["hash"] else None
        stored = look(paths, wanted, jobs=options["jobs"], resume=resume, read=reading)
    found, made, rows = stored.found, stored.offers, stored.rows
    bugs = [row["error"] for row in rows if row["error"] is not None and internal(row)]
    bad = options["fail_on"] != "never" and (not stored.ok or any(fails(row, options["fail_on"]) for row in rows))
    if session.format == "json":
        from gguftool.report.envelope import envelope, write

        session.told = True
        write(envelope("scan-stores", not bad and not bugs, report.body(found, made), bugs), sys.stdout)
    elif session.format == "markdown":
        session.out("\n".join(report.markdown(found, made)))
    else:
        session.out("\n".join(report.lines(found, made, session.style, verbose=session.verbose)))
    return Bug.exit_code if bugs else int(bad)
