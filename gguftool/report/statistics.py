"""``--statistics``: how often each rule found something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from gguftool.lint.check import FileCheck
from gguftool.lint.rule import Severity
from gguftool.report.text import Style, safe

Counted = Mapping[tuple[str, str], int]
"""Severity and rule -> findings."""


def counted(checks: Sequence[FileCheck]) -> Counter[tuple[str, str]]:
    """The findings of checks."""
    return Counter((f.severity.value, f.rule) for c in checks for f in c.findings)


def fixable(checks: Sequence[FileCheck]) -> Counter[tuple[str, str]]:
    """Those that have a safe fix."""
    return Counter((f.severity.value, f.rule) for c in checks for f in c.findings if f.fix is not None and f.fix.safe)


def rows(found: Counted, fixes: Counted | None = None) -> list[dict[str, object]]:
    """The same for programs, the most frequent first."""
    return [
        {"rule": rule, "severity": severity, "count": n}
        | ({} if fixes is None else {"fixable": fixes.get((severity, rule), 0)})
        for (severity, rule), n in _ordered(found)
    ]


def lines(found: Counted, style: Style, fixes: Counted | None = None) -> Iterator[str]:
    """A table: how often, how bad, which rule, how many of them are fixed by ``lint --fix``."""
    if not found:
        return
    yield style.bold(f"{'count':>7}  {'severity':<8}  rule")
    paint = {"error": style.red, "warning": style.yellow, "info": style.cyan}
    for (severity, rule), n in _ordered(found):
        some = (fixes or {}).get((severity, rule), 0)
        said = style.dim(f"  {some:,} can be fixed safely") if some else ""
        yield f"{n:>7,}  {paint[severity](f'{severity:<8}')}  {safe(rule)}{said}"


def _ordered(found: Counted) -> list[tuple[tuple[str, str], int]]:
    return sorted(found.items(), key=lambda item: (-item[1], Severity(item[0][0]).rank, item[0][1]))
