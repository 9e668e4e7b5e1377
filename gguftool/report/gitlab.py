"""Findings as a report of GitLab's code quality: a list in JSON, which merge requests show."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from gguftool.lint.check import FileCheck
from gguftool.lint.rule import Severity
from gguftool.report.envelope import dumps
from gguftool.report.gates import failed, from_root
from gguftool.report.lint import with_fix
from gguftool.report.text import safe

_SEVERITY = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.INFO: "info"}
_BROKEN = "blocker"


def text(checks: Sequence[FileCheck], fail_on: Severity | None = None) -> str:
    """The whole report.

    A fingerprint is that of the place, not of the message, which holds numbers, and of what comes with the same place
    its number: GitLab knows a finding again by it. The format wants a line, and a GGUF file has none: it is always 1.
    """
    seen: Counter[tuple[str, str, str]] = Counter()
    rows = [_row(seen, c.path, e.code, "", _BROKEN, str(e)) for c, e in failed(checks)]
    rows += [
        _row(seen, f.path, f.rule, f.where, _SEVERITY[f.severity], with_fix(f)) for c in checks for f in c.findings
    ]
    return dumps(rows) + "\n"


def _row(
    seen: Counter[tuple[str, str, str]], path: str, rule: str, where: str, severity: str, message: str
) -> dict[str, object]:
    path = from_root(path).removeprefix("./")
    seen[path, rule, where] += 1
    marks = "\0".join((path, rule, where, str(seen[path, rule, where])))
    return {
        "description": safe(message),
        "check_name": f"gguftool/{rule}",
        "fingerprint": hashlib.sha256(marks.encode("utf-8", "surrogatepass")).hexdigest(),
        "severity": severity,
        "location": {"path": path, "lines": {"begin": 1}},
    }
