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
) -> None:
    """What lint says of models, in the format of the session; ``more``: fields of the JSON object beside it."""
    from gguftool.report import lint as report

    if session.format in ("json", "jsonl"):
        failed = [f.error for f in fixed if f.error is not None]
        ok = all(c.exit_code(fail_on) == 0 for c in checks) and not failed
        body = report.json_body(checks) | ({"fixed": [f.json() for f in fixed]} if fixed else {}) | dict(more or {})
        session.write_json(ok=ok, body=body, errors=[*report.error_rows(checks), *map(report.error_row, failed)])
    elif session.format == "sarif":
        from gguftool.report.envelope import write
        from gguftool.report.sarif import sarif

        write(sarif(checks), sys.stdout)
    elif session.format == "github":
        from gguftool.report.github import annotation_lines

        session.out("".join(f"{line}\n" for line in annotation_lines(checks)))
    else:
        session.out("\n".join(report.text(checks, session.style, verbose=session.verbose)))
