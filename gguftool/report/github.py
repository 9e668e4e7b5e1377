"""Findings as annotations of GitHub Actions: one workflow command a line on stdout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gguftool.lint.check import FileCheck
from gguftool.lint.rule import Severity
from gguftool.report.lint import fix_command
from gguftool.report.text import safe

_LEVEL = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def annotation_lines(checks: Iterable[FileCheck]) -> Iterator[str]:
    """A line for each finding, for each file that could not be read, for each rule that failed."""
    for check in checks:
        for e in (check.error, *check.bugs):
            if e is not None:
                yield _line("error", check.path, e.code, str(e))
        for f in check.findings:
            fix = f". Fix: {fix_command(f.fix, f.path, f.rule)}" if f.fix is not None else ""
            yield _line(_LEVEL[f.severity], f.path, f.rule, f.message + fix)


def _line(level: str, path: str, title: str, message: str) -> str:
    return f"::{level} file={_property(path)},title={_property('gguftool: ' + title)}::{_escape(safe(message))}"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escape(safe(text)).replace(":", "%3A").replace(",", "%2C")
