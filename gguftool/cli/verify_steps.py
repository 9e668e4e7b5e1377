"""The parts of ``gguftool verify`` one after the other: quick, hashes, data."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

from gguftool.records import dataclass
from gguftool.report.text import safe

if TYPE_CHECKING:
    from gguftool.cli.options import Session
    from gguftool.model.headers import Headers
    from gguftool.source import Source
    from gguftool.verify import Verification
    from gguftool.verify.expect import Expectation


@dataclass(frozen=True, slots=True)
class Asked:
    """The options, by the names of the command line."""

    hashed: bool
    sha256: str | None
    against: tuple[str, ...]
    data: bool
    manifest: str | None
    repair_from: str | None
    repair_names: bool
    prefix: str | None
    link_to: str | None
    join: str | None
    yes: bool

    @property
    def reads_all(self) -> bool:
        """Whether files are hashed."""
        return bool(self.hashed or self.sha256 or self.against or self.manifest or self.repair_from)


def hashes(
    session: Session, results: list[Verification], sources: dict[str, Source], asked: Asked, known: Headers
) -> tuple[list[Verification], dict[str, list[Expectation]]]:
    """Hash and compare; also what each file should be, by path."""
    from gguftool.report.progress import Progress
    from gguftool.verify import deep
    from gguftool.verify.manifest import check_name, write

    if asked.manifest:
        check_name(asked.manifest)
    reports = [report for result in results for report in result.files]
    expected = deep.expectations(reports, asked.sha256, asked.against)
    want = deep.MANIFEST if asked.manifest else None
    with Progress(sum(report.size for report in reports), terminal(session)) as progress:
        new, found = deep.with_hashes(
            results,
            expected,
            want=want,
            sources=sources,
            strict=bool(asked.against),
            progress=progress,
            known=known,
        )
    if asked.manifest:
        new = [result.without("no-expectation") for result in new]
        unread = [report.path for report in reports if report.path not in found]
        if unread:
            # A list that a file is missing from would pass for a whole one.
            session.warn(f"{asked.manifest}: not written: {unread[0]} could not be read whole")
        else:
            write(asked.manifest, list(found.values()))
            session.note(f"wrote {safe(asked.manifest)}")
    return new, expected


def data(
    session: Session, results: list[Verification], sources: dict[str, Source], known: Headers
) -> list[Verification]:
    """Look at all tensor data."""
    from gguftool.report.progress import Progress
    from gguftool.verify import deep

    total = sum(report.size for result in results for report in result.files)
    with Progress(total, terminal(session), "checking data") as progress:
        return deep.with_data(results, sources=sources, progress=progress, known=known)


def terminal(session: Session) -> TextIO | None:
    """Where progress is shown: a terminal, and nobody asked for quiet."""
    return sys.stderr if sys.stderr.isatty() and not session.quiet else None
