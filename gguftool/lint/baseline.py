"""Known findings: a saved JSON report of lint, whose findings are not reported again."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace

from gguftool.errors import MissingFile, UsageError
from gguftool.lint.check import FileCheck
from gguftool.lint.rule import Finding
from gguftool.shell import ELLIPSIS, INTO, blank, path_word, shell

Key = tuple[str, str, str]
"""File name (without its folder), rule, where."""


def read_baseline(path: str | os.PathLike[str]) -> Counter[Key]:
    """The findings of a report that ``gguftool lint --format json`` (or ``jsonl``) printed.

    Raises:
        MissingFile: no such file.
        UsageError: it is no such report.
    """
    text = os.fspath(path)
    try:
        with open(text, "rb") as f:
            raw = f.read()
    except FileNotFoundError:
        raise MissingFile(f"{text}: no such file", _how(text)) from None
    known: Counter[Key] = Counter()
    try:
        content = raw.decode("utf-8")
        try:
            reports = [json.loads(content)]
        except ValueError:
            reports = [json.loads(line) for line in content.splitlines() if line.strip()]
        for report in reports:
            if report["format"] != "gguftool.lint/1":
                raise ValueError(f"its format is {report['format']}")
            for file in report["files"]:
                for f in file["findings"]:
                    known[(os.path.basename(f.get("path", file["path"])), f["rule"], f["where"])] += 1
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise UsageError(
            f"{text}: not a report of gguftool lint: {e}",
            _how(text),
        ) from None
    return known


def _how(path: str) -> str:
    return f"make it from {ELLIPSIS}: " + shell(
        ("gguftool", "lint", "--format", "json", "--exit-zero", blank(), INTO, path_word(path))
    )


def key(finding: Finding) -> Key:
    """What makes two findings the same one over time: not the message, which holds numbers."""
    return os.path.basename(finding.path), finding.rule, finding.where


def without_known(check: FileCheck, known: Counter[Key]) -> FileCheck:
    """The check without findings of the baseline; each known finding hides one."""
    if check.report is None or not known:
        return check
    left = Counter(known)
    new: list[Finding] = []
    old: list[Finding] = []
    for f in check.report.findings:
        if left[key(f)] > 0:
            left[key(f)] -= 1
            old.append(f)
        else:
            new.append(f)
    return replace(check, report=replace(check.report, findings=tuple(new)), known=tuple(old))
