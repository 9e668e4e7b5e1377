"""``gguftool scan --stores``: what the programs of this machine keep, and commands that free room."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from gguftool.cli.scan_rows import want
from gguftool.errors import Bug, UsageError

if TYPE_CHECKING:
    from gguftool.cli.options import Session

FORMATS = ("text", "json", "markdown")


def run(session: Session, paths: Sequence[str], options: Mapping[str, Any]) -> int:
    """Look, report, and say how it ends: 1 when a model is not whole, or its data is gone."""
    from gguftool.fleet.hfprogram import hf_program
    from gguftool.fleet.offers import offers
    from gguftool.fleet.row import Row, fails, internal
    from gguftool.fleet.scan import rows
    from gguftool.fleet.stores import inventory
    from gguftool.report import stores as report
    from gguftool.report.progress import Progress

    if session.format not in FORMATS:
        raise UsageError(f"--format {session.format}: is not made of stores", "one of " + ", ".join(FORMATS))
    wanted = want(session, options, bill=False)
    seen: list[Row] = []

    def judge(files: Sequence[str]) -> Iterator[Row]:
        for row in rows(files, wanted, jobs=options["jobs"], resume=options["resume"] or ""):
            seen.append(row)
            yield row

    with ExitStack() as ending:

        def read(total: int) -> Progress:
            return ending.enter_context(Progress(total, None if session.quiet else sys.stderr, "comparing"))

        found = inventory(judge, more=paths, read=read if options["hash"] else None)
    made = offers(found, hf_program())
    bugs = [row["error"] for row in seen if row["error"] is not None and internal(row)]
    bad = options["fail_on"] != "never" and (found.broken or any(fails(row, options["fail_on"]) for row in seen))
    if session.format == "json":
        from gguftool.report.envelope import envelope, write

        session.told = True
        write(envelope("scan-stores", not bad and not bugs, report.body(found, made), bugs), sys.stdout)
    elif session.format == "markdown":
        session.out("\n".join(report.markdown(found, made)))
    else:
        session.out("\n".join(report.lines(found, made, session.style, verbose=session.verbose)))
    return Bug.exit_code if bugs else int(bad)
