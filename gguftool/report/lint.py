"""What `gguftool lint` shows: text, JSON and GitHub annotations (SARIF has its own module)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gguftool.edit.ops import Operation
from gguftool.edit.spelled import command, spellable
from gguftool.lint.check import FileCheck
from gguftool.lint.rule import Finding, Fix, NotEvaluated, Severity
from gguftool.report.envelope import error_row
from gguftool.report.load import load_json, load_line, need_json
from gguftool.report.text import Style, Styled, count, safe
from gguftool.shell import ELLIPSIS, FILE, Word, gguftool, path_word, shell

if TYPE_CHECKING:
    pass

LONGEST = 1000
"""Columns of a command of options; a longer one names the rule instead, for a command is there to be copied."""
MANY = 5
"""Findings of one rule in one file that are shown without ``-v``."""
MOST_FILES = 20
"""Files that are named in one command."""
_LEFT = 11
"""Columns in front of the text of a finding."""


def fix_command(fix: Fix, path: str, rule: str = "") -> str:
    """The shell line that does what the fix says.

    Args:
        fix: what to do.
        path: the file.
        rule: id of the rule that found it; its fixes are applied by name where no option can spell the operations.
    """
    if fix.command is not None or not fix.operations:
        return shell(fix.command or (), path)
    line = command(fix.operations, path) if all(map(spellable, fix.operations)) else ""
    if rule and not 0 < len(line) <= LONGEST:
        how = "--fix" if fix.safe else "--fix-unsafe"
        return shell(("gguftool", "lint", FILE, "--select", rule, how), path)
    return line


def with_fix(f: Finding) -> str:
    """The message of a finding and the command that repairs it."""
    return f.message if f.fix is None else f"{f.message}. Fix: {fix_command(f.fix, f.path, f.rule)}"


# -- text


def text(checks: Sequence[FileCheck], style: Style, *, verbose: bool = False) -> Iterator[str]:
    """The report as lines: a block for each file, then what it comes to and what to type next."""
    for check in checks:
        yield from file_lines(check, style, verbose=verbose)
        yield ""
    yield from summary_lines(checks, style)


def file_lines(check: FileCheck, style: Style, *, verbose: bool = False) -> Iterator[str]:
    """One file: its findings, the predicted load, what could not be judged."""
    yield style.bold(check.path)
    if check.error is not None and check.report is None:
        said = str(check.error).removeprefix(f"{check.path}: ")
        yield f"  {style.red('error')}    {safe(said)}"
        if check.error.hint:
            yield f"{' ' * _LEFT}{style.dim('hint: ' + check.error.hint)}"
        return
    shown: Counter[str] = Counter()
    for f in check.findings:
        shown[f.rule] += 1
        if verbose or shown[f.rule] <= MANY:
            yield from _finding_lines(f, check.path, style)
    if line := together(check):
        yield f"  all keys {style.cyan(line)}"
    for rule, n in shown.items():
        if not verbose and n > MANY:
            yield f"  {style.dim(f'… and {n - MANY:,} more findings of {rule} (-v shows them all)')}"
    report = check.report
    if report is None:
        return
    if not report.findings:
        yield f"  {style.green('ok')}       nothing found"
    if check.known:
        yield f"  {style.dim(f'known    {len(check.known)} more in the baseline')}"
    for entry in check.gone if verbose else check.gone[:MANY]:
        what = f"gone     {entry.severity} {entry.rule}, {safe(entry.where)}: no longer occurs, still in the baseline"
        yield f"  {style.dim(what)}"
    if not verbose and len(check.gone) > MANY:
        yield f"  {style.dim(f'… and {len(check.gone) - MANY:,} more that no longer occur (-v shows them all)')}"
    if report.load is not None:
        yield f"  {load_line(report.load, style, report.needs, report.build)}"
    yield from _skipped_lines(report.not_evaluated, style, verbose)


def _finding_lines(f: Finding, path: str, style: Style) -> Iterator[str]:
    paint = {"error": style.red, "warning": style.yellow, "info": style.cyan}[f.severity]
    place = f" ({os.path.basename(f.path)})" if f.path != path and os.path.basename(f.path) not in f.message else ""
    yield f"  {paint(f'{f.severity.value:<8}')} {safe(f.message)}{safe(place)}"
    said = f.data.get("llama_cpp")
    if said and str(said) not in f.message:
        yield f"{' ' * _LEFT}{style.dim('llama.cpp: ' + str(said))}"
    line: list[str] = [style.dim(f.rule)]
    if f.fix is not None:
        what = "safe fix" if f.fix.safe else "fix" if f.fix.complete else f"fix (fill in {ELLIPSIS})"
        line.append(f"{what}: {fix_command(f.fix, f.path, f.rule)}")
    yield " " * _LEFT + "  ".join(line)


_OF_PUBLISHERS = frozenset({"filler-present", "alignment-unusual", "array-empty", "chat-template-missing"})
"""Rules of other families whose fixes belong to what a publisher does to the keys of a file."""


def together(check: FileCheck) -> str:
    """One command for all keys of a file that is to be published; "" where there are not several."""
    ops: dict[str, Operation] = {}
    rest: dict[str, tuple[Word, ...]] = {}
    several = 0
    for f in check.findings if any(f.family == "publish" for f in check.findings) else ():
        fix = f.fix
        if fix is None or f.path != check.path or (f.family not in _PUBLISHING and f.rule not in _OF_PUBLISHERS):
            continue
        if fix.command is None and fix.operations and all(map(spellable, fix.operations)):
            new = [op for op in fix.operations if getattr(op, "key", repr(op)) not in ops]
            ops.update((getattr(op, "key", repr(op)), op) for op in new)
            several += bool(new)
        elif fix.command is not None and fix.command[:3] == ("gguftool", "fix", FILE):
            rest.setdefault(str(fix.command[3:]), fix.command[3:])
            several += 1
    if several < 2:
        return ""
    line = command(tuple(ops.values()), check.path) if ops else shell(("gguftool", "fix", FILE), check.path)
    return " ".join([line, *map(shell, rest.values())])


_PUBLISHING = frozenset({"publish", "licence"})


def _skipped_lines(skipped: Sequence[NotEvaluated], style: Style, verbose: bool) -> Iterator[str]:
    for s in skipped:
        if s.failed:
            yield f"  {style.red('failed')}   {s.rule}: {safe(s.why)}"
    by_why: dict[str, list[str]] = {}
    for s in skipped:
        if s.failed:
            continue
        by_why.setdefault(s.why, []).append(s.rule)
    for why, rules in by_why.items():
        names = ", ".join(rules) if verbose or len(rules) <= 3 else f"{len(rules)} rules"
        yield f"  {style.dim(f'not evaluated: {names}: {safe(why)}')}"


def summary_lines(checks: Sequence[FileCheck], style: Style) -> Iterator[str]:
    """What it comes to, and what to type next."""
    totals = {s: sum(c.report.count(s) for c in checks if c.report) for s in Severity}
    broken = sum(c.error is not None for c in checks)
    parts: list[Styled] = []
    for severity, paint in ((Severity.ERROR, style.red), (Severity.WARNING, style.yellow), (Severity.INFO, style.cyan)):
        n = totals[severity]
        if n:
            word = severity.value if severity is Severity.INFO or n == 1 else f"{severity.value}s"
            parts.append(paint(f"{count(n)} {word}"))
    if broken:
        parts.append(style.red(f"{broken} not readable"))
    if bugs := sum(len(c.bugs) for c in checks):
        parts.append(style.red(f"{count(bugs)} rule{'s' if bugs != 1 else ''} failed (a bug in gguftool)"))
    where = f"in {len(checks)} file{'s' if len(checks) != 1 else ''}"
    yield f"{', '.join(parts) if parts else style.green('Nothing found')} {where}."
    yield from _next_lines(checks, style)


def _next_lines(checks: Sequence[FileCheck], style: Style) -> Iterator[str]:
    safe_fixes = [c for c in checks if any(f.fix and f.fix.safe and f.fix.operations for f in c.findings)]
    n = sum(1 for c in safe_fixes for f in c.findings if f.fix and f.fix.safe and f.fix.operations)
    if n:
        line = gguftool("lint", "--fix", *(path_word(c.path) for c in safe_fixes[:MOST_FILES]))
        some = f", those of the first {MOST_FILES} files" if len(safe_fixes) > MOST_FILES else ""
        yield f"{n} can be fixed safely{some}: {style.cyan(line)}"
    worst = min((f for c in checks for f in c.findings), key=lambda f: f.severity.rank, default=None)
    if worst is not None:
        yield style.dim(f"What a rule means: {gguftool('rules', worst.rule)}")


# -- JSON


def json_body(checks: Iterable[FileCheck]) -> dict[str, object]:
    """The command's own fields of the envelope."""
    return {"cwd": os.getcwd(), "files": [file_json(c) for c in checks]}


def error_rows(checks: Iterable[FileCheck]) -> list[dict[str, object]]:
    """Files that could not be opened or read to the end, and rules that failed, as errors of the envelope."""
    return [error_row(e) for c in checks for e in (c.error, *c.bugs) if e is not None]


def file_json(check: FileCheck) -> dict[str, object]:
    """One file as JSON."""
    report = check.report
    counts = {s.value: report.count(s) if report else 0 for s in Severity}
    return {
        "path": check.path,
        "readable": check.error is None,
        "findings": [finding_json(f) for f in check.findings],
        "counts": counts,
        "known": len(check.known),
        "gone": [{"rule": e.rule, "where": e.where, "severity": e.severity} for e in check.gone],
        "load": None if report is None or report.load is None else load_json(report.load),
        "needs": [need_json(n) for n in report.needs] if report else [],
        "not_evaluated": [{"rule": s.rule, "why": s.why} for s in report.not_evaluated] if report else [],
        "failed_rules": len(check.bugs),
    }


def finding_json(f: Finding) -> dict[str, object]:
    """One finding as JSON."""
    from gguftool.lint.baseline import digest

    fix = None
    if f.fix is not None:
        line = fix_command(f.fix, f.path, f.rule)
        fix = {"title": f.fix.title, "safe": f.fix.safe, "command": line} | (
            {} if f.fix.complete else {"fill_in": True}
        )
    return {
        "rule": f.rule,
        "family": f.family,
        "severity": f.severity.value,
        "message": f.message,
        "path": f.path,
        "where": f.where,
        "span": None if f.span is None else list(f.span),
        "fix": fix,
        "data": dict(f.data),
        "digest": digest(f),
    }
