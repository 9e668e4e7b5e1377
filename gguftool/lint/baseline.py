"""Known findings: a saved JSON report of lint, whose findings are not reported again.

What makes two findings the same one: the file (not only its name), the rule, the place, the severity, and a digest of
the facts. So a warning that became an error is new, and so is one that stands on other numbers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from gguftool.brief import short_repr
from gguftool.errors import GgufToolError, MissingFile, UsageError
from gguftool.lint.check import FileCheck, Known
from gguftool.lint.rule import Finding
from gguftool.reading import Malformed, file_bytes, from_json
from gguftool.records import dataclass, replace
from gguftool.regex import regex
from gguftool.shell import ELLIPSIS, INTO, blank, path_word, shell

LIMIT = 1 << 30
"""Bytes: a report of very many models."""
_VALUE = regex(r"\d[\d,.]*|'[^']*'")
"""What in a message is a fact rather than wording: numbers, and what is quoted."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The findings of a saved report.

    Attributes:
        path: the report.
        entries: its findings.
        old: it was made before reports held digests; then facts are not compared.
    """

    path: str = ""
    entries: tuple[Known, ...] = ()
    old: bool = False

    __repr__ = short_repr


def read_baseline(path: str | os.PathLike[str]) -> Baseline:
    """The findings of a report that ``gguftool lint`` or ``scan`` printed with ``--format json`` (or ``jsonl``).

    Raises:
        MissingFile: no such file.
        UsageError: it is no such report, or cannot be read.
    """
    text = os.fspath(path)
    try:
        raw = file_bytes(text, LIMIT)
    except GgufToolError as e:
        raise (MissingFile if isinstance(e, MissingFile) else UsageError)(str(e), _how(text)) from None
    try:
        entries = tuple(entry for report in _reports(raw) for entry in _entries(report, text))
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise UsageError(
            f"{text}: not a report of gguftool lint or scan: {type(e).__name__}: {e}", _how(text)
        ) from None
    return Baseline(text, entries, any(not e.digest for e in entries))


def _reports(raw: bytes) -> list[Any]:
    content = raw.decode("utf-8")
    try:
        return [from_json(content)]
    except Malformed:
        return [from_json(line) for line in content.splitlines() if line.strip()]


_MODELS = {"gguftool.lint/1": "files", "gguftool.scan/1": "models", "gguftool.scan-row/1": ""}
"""Format of a report -> where its models are; "" for one that is a model itself."""


def _entries(report: Any, baseline: str) -> Iterator[Known]:
    kind = report["format"]
    if kind not in _MODELS:
        raise ValueError(f"its format is {kind}")
    folders = _folders(report.get("cwd"), os.path.dirname(os.path.abspath(baseline)))
    for file in report[_MODELS[kind]] if _MODELS[kind] else [report]:
        models = _absolute(file["path"], folders)
        for f in file["findings"]:
            words = [f["rule"], f["where"], f["severity"], f.get("digest", "")]
            if not all(isinstance(word, str) for word in words):
                raise TypeError("a finding whose rule, where or severity is no text")
            yield Known(_absolute(f.get("path", file["path"]), folders), models, *words)


def _folders(made_in: object, beside: str) -> tuple[str, ...]:
    """Where relative paths of a report start: where it was made, or the place of a copy of that folder.

    A report lies in the folder that it was made in, or was sent somewhere else on the same machine, or came along
    with the folder to another place; only in the last case do the paths start at the report.
    """
    if not isinstance(made_in, str):
        return (beside, os.getcwd())
    if not os.path.isdir(made_in):
        return (beside,)
    above = os.path.commonpath([made_in, beside])
    return (made_in,) if above in (made_in, beside) else (made_in, beside)


def _absolute(path: str, folders: Iterable[str]) -> frozenset[str]:
    return frozenset(absolute(path, folder) for folder in folders)


def absolute(path: str, folder: str) -> str:
    """An address as it stands, a path from the root on."""
    return path if "://" in path else os.path.normpath(os.path.join(folder, path))


def _how(path: str) -> str:
    return f"make it from {ELLIPSIS}: " + shell(
        ("gguftool", "lint", "--format", "json", "--exit-zero", blank(), INTO, path_word(path))
    )


def digest(finding: Finding) -> str:
    """The facts of a finding in 16 characters: its data, and the numbers and names in its message."""
    import hashlib

    facts = {key: value for key, value in finding.data.items() if key != "fix_withheld"}
    said = [word.rstrip(".,") for word in _VALUE.findall(finding.message.replace(finding.path, ""))]
    text = json.dumps([facts, said], sort_keys=True, default=str).replace(json.dumps(finding.path)[1:-1], "")
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def without_known(check: FileCheck, baseline: Baseline, ran: Collection[str] | None = None) -> FileCheck:
    """The check without findings of the baseline; each entry hides one.

    Args:
        check: one file.
        baseline: see `read_baseline`.
        ran: ids of the rules that judged the file: an entry of another rule may well still be true; None: all.
    """
    if check.report is None or not baseline.entries:
        return check
    folder = os.getcwd()
    left: dict[tuple[str, str, str], list[Known]] = {}
    for entry in baseline.entries:
        left.setdefault((entry.rule, entry.where, entry.severity), []).append(entry)
    new: list[Finding] = []
    old: list[Finding] = []
    for f in check.report.findings:
        path, facts = absolute(f.path, folder), digest(f)
        here = left.get((f.rule, f.where, f.severity.value), [])
        same = next((e for e in here if path in e.paths and e.digest in ("", facts)), None)
        if same is None:
            new.append(f)
        else:
            here.remove(same)
            old.append(f)
    model = absolute(check.path, folder)
    gone = (e for rest in left.values() for e in rest if model in e.models and (ran is None or e.rule in ran))
    report = replace(check.report, findings=tuple(new))
    return replace(check, report=report, known=tuple(old), gone=tuple(gone))


def of_no_file(baseline: Baseline) -> int:
    """Entries of local files that are no longer there."""
    lost = (e for e in baseline.entries if not any("://" in name or os.path.lexists(name) for name in e.models))
    return sum(1 for _ in lost)
