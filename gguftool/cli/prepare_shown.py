"""How the progress of ``gguftool prepare`` is shown."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gguftool.build.pipeline import Event
from gguftool.cli.options import Session
from gguftool.report.text import safe


def events(session: Session) -> Event:
    """Name each step on stderr as it begins, and how many an earlier run has done."""
    already = 0

    def event(name: str, what: str) -> None:
        nonlocal already
        if what == "skipped":
            already += 1
        if what == "start":
            if already:
                session.note(f"going on after {already} step{'s' if already > 1 else ''} of an earlier run")
                already = 0
            session.note(f"{safe(name)} ...")

    return event


@contextmanager
def shown(session: Session) -> Iterator[Callable[[str, int, int], None]]:
    """A progress line on stderr that changes with what is going on."""
    from gguftool.report.progress import Progress as Line

    stream = sys.stderr if sys.stderr.isatty() and not session.quiet else None
    lines: dict[str, Line] = {}
    seen: dict[str, int] = {}

    def step(what: str, done: int, total: int) -> None:
        if what not in lines:
            for other in lines.values():
                other.close()
            lines[what] = Line(total, stream, what)
        lines[what](max(0, done - seen.get(what, 0)))
        seen[what] = max(done, seen.get(what, 0))

    try:
        yield step
    finally:
        for line in lines.values():
            line.close()
