"""Findings as annotations of GitHub Actions: one workflow command a line on stdout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gguftool.lint.check import FileCheck
from gguftool.lint.rule import Severity
from gguftool.report.gates import from_root
from gguftool.report.lint import with_fix
from gguftool.report.text import safe

_LEVEL = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def text(checks: Sequence[FileCheck], fail_on: Severity | None = None) -> str:
    """The annotations as one text."""
    return "".join(f"{line}\n" for line in annotation_lines(checks))


def annotation_lines(checks: Iterable[FileCheck]) -> Iterator[str]:
    """A line for each finding, for each file that could not be read, for each rule that failed."""
    for check in checks:
        for e in (check.error, *check.bugs):
            if e is not None:
                yield _line("error", check.path, e.code, str(e))
        for f in check.findings:
            yield _line(_LEVEL[f.severity], f.path, f.rule, with_fix(f))


def _line(level: str, path: str, title: str, message: str) -> str:
    return (
        f"::{level} file={_property(from_root(path))},title={_property('gguftool: ' + title)}::{_escape(safe(message))}"
    )


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escape(safe(text)).replace(":", "%3A").replace(",", "%2C")
