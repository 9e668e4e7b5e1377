"""Findings as a JUnit report, which most CI servers show: a suite a file, a case a finding."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from gguftool.lint.check import FileCheck
from gguftool.lint.rule import Severity
from gguftool.regex import regex
from gguftool.report.gates import from_root
from gguftool.report.lint import with_fix
from gguftool.report.text import safe

_NO_XML = regex("[\ud800-\udfff\ufffe\uffff]")


def text(checks: Sequence[FileCheck], fail_on: Severity | None = None) -> str:
    """The whole report: a finding fails from ``fail_on`` on, a lesser one is a case that passes and says it.

    Files that cannot be read and rules that failed are errors. A file without any is one case that passes; rules that
    found nothing are not listed, for those that could not judge would look as if they had passed.
    """
    suites, total = [], [0, 0, 0]
    for check in checks:
        errors = [
            _case(check.path, e.code, f"<error {_said(str(e), e.code)}/>") for e in (check.error, *check.bugs) if e
        ]
        fails = [fail_on is not None and f.severity.rank <= fail_on.rank for f in check.findings]
        cases = [
            _case(
                f.path,
                f"{f.rule} ({f.where})",
                f"<failure {_said(with_fix(f), f.severity.value)}/>"
                if bad
                else f"<system-out>{escape(_clean(f'{f.severity.value}: {with_fix(f)}'))}</system-out>",
            )
            for f, bad in zip(check.findings, fails, strict=True)
        ]
        cases = [*errors, *cases] or [_case(check.path, "lint", "")]
        counts = (len(cases), sum(fails), len(errors))
        total = [a + b for a, b in zip(total, counts, strict=True)]
        suites.append(
            f"  <testsuite name={_attr(from_root(check.path))} {_counts(counts)}>\n{''.join(cases)}  </testsuite>\n"
        )
    head = f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="gguftool lint" {_counts(total)}>\n'
    return f"{head}{''.join(suites)}</testsuites>\n"


def _counts(counts: Sequence[int]) -> str:
    tests, failures, errors = counts
    return f'tests="{tests}" failures="{failures}" errors="{errors}"'


def _case(path: str, name: str, inside: str) -> str:
    begin = f"    <testcase classname={_attr(from_root(path))} name={_attr(name)}"
    return f"{begin}>{inside}</testcase>\n" if inside else f"{begin}/>\n"


def _said(message: str, kind: str) -> str:
    return f"type={_attr(kind)} message={_attr(message)}"


def _attr(value: str) -> str:
    return quoteattr(_clean(value))


def _clean(value: str) -> str:
    """Without what no XML can hold."""
    return _NO_XML.sub("\ufffd", safe(value))
