"""Findings in every format: what ``lint`` and ``push-check`` write."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gguftool.cli.lint_fix import Fixed
    from gguftool.cli.options import Session
    from gguftool.lint.check import FileCheck
    from gguftool.lint.rule import Severity


def write_checks(
    checks: list[FileCheck],
    session: Session,
    fail_on: Severity | None,
    fixed: Sequence[Fixed] = (),
    more: Mapping[str, object] | None = None,
    *,
    statistics: bool = False,
) -> None:
    """What lint says of models, in the format of the session.

    Args:
        checks: the models.
        session: knows the format.
        fail_on: from which severity on findings fail; None: never.
        fixed: what was done before.
        more: fields of the JSON object beside it.
        statistics: how often each rule found something; as text in place of the findings.
    """
    from gguftool.report import lint as report
    from gguftool.report.envelope import error_row, put
    from gguftool.report.gates import GATES, gate

    if statistics:
        from gguftool.report.statistics import counted, fixable, lines, rows

        counts, fixes = counted(checks), fixable(checks)
        if session.format == "text":
            summary = next(report.summary_lines(checks, session.style))
            session.out("\n".join([*lines(counts, session.style, fixes), summary]))
            return
        more = {**(more or {}), "statistics": rows(counts, fixes)}
    if session.format in ("json", "jsonl"):
        failed = [f.error for f in fixed if f.error is not None]
        ok = all(c.exit_code(fail_on) == 0 for c in checks) and not failed
        body = report.json_body(checks) | ({"fixed": [f.json() for f in fixed]} if fixed else {}) | dict(more or {})
        session.write_json(ok=ok, body=body, errors=[*report.error_rows(checks), *map(error_row, failed)])
    elif session.format in GATES:
        put(gate(session.format)(checks, fail_on), sys.stdout)
    else:
        session.out("\n".join(report.text(checks, session.style, verbose=session.verbose)))
