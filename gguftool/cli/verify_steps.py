"""The parts of ``gguftool verify`` one after the other: quick, hashes, data."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from gguftool.errors import GgufToolError, MissingFile, Unreadable
from gguftool.report.text import safe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gguftool.cli.options import Session
    from gguftool.source import Source
    from gguftool.verify import FileReport, Verification
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


def quick(models: tuple[str, ...]) -> tuple[list[Verification], dict[str, Source]]:
    """The quick part of every model, each set once; and the open sources of remote ones."""
    from gguftool import hub
    from gguftool.verify import check, models_of

    results: list[Verification] = []
    sources: dict[str, Source] = {}
    paths: list[str] = []
    for name in models:
        here = hub.local_path(name)
        if here is not None:
            paths.append(here)
            continue
        model = hub.open_any(name, strict=False)
        results.append(check(model))
        sources.update({part.name: part.source for part in model.parts})
    covered: set[str] = set()
    for path, others in models_of(paths):
        if path not in covered:
            try:
                results.append(check(path, others))
            except (MissingFile, Unreadable) as error:
                if len(models) == 1:
                    raise
                results.append(_not_there(path, error))
            covered.update((*(report.path for report in results[-1].files), *results[-1].covers))
    return results, sources


def _not_there(path: str, error: GgufToolError) -> Verification:
    """One of several files that cannot be opened: it must not hide what is wrong with the others."""
    from gguftool.verify.result import Fault, FileReport, Verification

    fault = Fault(error.code, str(error).removeprefix(f"{path}: "), "file", error.hint)
    return Verification((FileReport(path, faults=(fault,), error=error),))


def hashes(
    session: Session, results: list[Verification], sources: dict[str, Source], asked: Asked
) -> tuple[list[Verification], dict[str, list[Expectation]]]:
    """Hash and compare; also what each file should be, by path."""
    from gguftool import hub
    from gguftool.report.progress import Progress
    from gguftool.verify import deep
    from gguftool.verify.manifest import check_name, write

    if asked.manifest:
        check_name(asked.manifest)
    reports = [report for result in results for report in result.files]
    lists = [name for name in asked.against if not hub.is_remote(name)]
    expected = deep.expectations(reports, asked.sha256, lists)
    for name in asked.against:
        if hub.is_remote(name):
            _ask_hub(name, reports, expected)
    want = deep.MANIFEST if asked.manifest else None
    with Progress(sum(report.size for report in reports), terminal(session)) as progress:
        new, found = deep.with_hashes(
            results, expected, want=want, sources=sources, strict=bool(asked.against), progress=progress
        )
    if asked.manifest:
        new = [result.without("no-expectation") for result in new]
        write(asked.manifest, list(found.values()))
        session.note(f"wrote {safe(asked.manifest)}")
    return new, expected


def data(session: Session, results: list[Verification], sources: dict[str, Source]) -> list[Verification]:
    """Look at all tensor data."""
    from gguftool.report.progress import Progress
    from gguftool.verify import deep

    total = sum(report.size for result in results for report in result.files)
    with Progress(total, terminal(session), "checking data") as progress:
        return deep.with_data(results, sources=sources, progress=progress)


def terminal(session: Session) -> TextIO | None:
    """Where progress is shown: a terminal, and nobody asked for quiet."""
    return sys.stderr if sys.stderr.isatty() and not session.quiet else None


def _ask_hub(name: str, reports: Sequence[FileReport], expected: dict[str, list[Expectation]]) -> None:
    """Add what the Hub records of the files, or what a list on a web server says."""
    from gguftool.hub.remote import hub_records, is_list, text
    from gguftool.verify.expect import Expectation
    from gguftool.verify.manifest import Entry, parse

    if is_list(name):
        listed = parse(text(name), name)
        for report in reports:
            if (found := listed.find(report.path)) is not None:
                expected.setdefault(report.path, []).append(Expectation(name, found))
        return
    for path, record in hub_records(name, [report.path for report in reports]).items():
        entry = Entry(record.path, record.sha256, record.size)
        expected.setdefault(path, []).append(Expectation(f"the Hub ({name})", entry))
