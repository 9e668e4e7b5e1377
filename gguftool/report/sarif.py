"""Findings as SARIF 2.1.0, the exchange format of code scanners."""

from __future__ import annotations

import os
from collections.abc import Sequence
from urllib.parse import quote

from gguftool.digest import sha256
from gguftool.errors import GgufToolError
from gguftool.lint.check import FileCheck
from gguftool.lint.rule import Finding, Rule, Severity
from gguftool.lint.rules import catalogue
from gguftool.report.envelope import dumps
from gguftool.report.gates import GITHUB, failed, from_root
from gguftool.report.lint import finding_json, with_fix
from gguftool.version import __version__

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LONGEST = 256
"""Characters of a place, which a file can make as long as it likes."""
_LEVEL = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def text(checks: Sequence[FileCheck], fail_on: Severity | None = None) -> str:
    """The log as JSON."""
    return dumps(sarif(checks)) + "\n"


def sarif(checks: Sequence[FileCheck]) -> dict[str, object]:
    """One SARIF log with one run over all files."""
    rules = catalogue()
    index = {r.id: i for i, r in enumerate(rules)}
    broken = list(failed(checks))
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "gguftool",
                        "semanticVersion": __version__,
                        "rules": [_rule(r) for r in rules],
                    }
                },
                "invocations": [
                    {
                        "executionSuccessful": not broken,
                        "toolExecutionNotifications": [_notification(c, e) for c, e in broken],
                    }
                ],
                "results": [_result(f, index) for c in checks for f in c.findings],
            }
        ],
    }


def _rule(r: Rule) -> dict[str, object]:
    parts = r.sections
    help_text = "\n\n".join(f"{name.capitalize()}: {body}" for name, body in parts.items())
    return {
        "id": r.id,
        "shortDescription": {"text": r.title},
        "fullDescription": {"text": parts.get("why", r.title)},
        "help": {"text": help_text or r.title},
        "defaultConfiguration": {"level": _LEVEL[r.severity]},
        "properties": {"family": r.family, "scope": r.scope.value},
    }


def _result(f: Finding, index: dict[str, int]) -> dict[str, object]:
    physical: dict[str, object] = {"artifactLocation": {"uri": _uri(f.path)}}
    region = {} if f.span is None else {"byteOffset": f.span[0], "byteLength": max(0, f.span[1] - f.span[0])}
    if os.environ.get(GITHUB):
        # GitHub shows no result without a line, and reads no bytes (ossf/scorecard, pull request 1458).
        region["startLine"] = 1
    if region:
        physical["region"] = region
    where = _place(f.where)
    properties: dict[str, object] = {"where": where, "family": f.family}
    if f.fix is not None:
        properties["fix"] = finding_json(f)["fix"]
    return {
        "ruleId": f.rule,
        "ruleIndex": index[f.rule],
        "level": _LEVEL[f.severity],
        "message": {"text": with_fix(f)},
        "locations": [{"physicalLocation": physical, "logicalLocations": [{"fullyQualifiedName": where}]}],
        # The place, not the message, which holds numbers: so that a scanner knows a finding again.
        "partialFingerprints": {"gguftool/v1": f"{os.path.basename(f.path)}:{f.rule}:{where}"},
        "properties": properties,
    }


def _place(where: str) -> str:
    """The place of a finding; a long one, which a hostile key can be, by its beginning and its hash."""
    if len(where) <= LONGEST:
        return where
    return f"{where[:LONGEST]}…{sha256(where.encode(errors='surrogateescape')).hexdigest()[:16]}"


def _notification(check: FileCheck, error: GgufToolError) -> dict[str, object]:
    return {
        "level": "error",
        "message": {"text": str(error)},
        "properties": {"code": error.code},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(check.path)}}}],
    }


def _uri(path: str) -> str:
    """A relative or file URI; addresses stay as they are."""
    if "://" in path:
        return path
    path = from_root(path)
    encoded = quote(os.fsencode(path.replace(os.sep, "/")), safe="/")
    return f"file://{encoded}" if os.path.isabs(path) else encoded
