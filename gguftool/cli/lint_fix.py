"""``gguftool lint --fix``: from findings to edits, or to what they would change."""

from __future__ import annotations

import shlex

from gguftool.cli.lint_setup import Settings
from gguftool.cli.options import Session
from gguftool.edit.ops import Operation
from gguftool.errors import GgufToolError
from gguftool.lint.check import unreadable
from gguftool.lint.fixes import collect


def fix_models(session: Session, models: tuple[str, ...], s: Settings) -> None:
    """Apply the fixes of each model, or show them; what is told goes to stderr, stdout belongs to the report."""
    for path in dict.fromkeys(models):
        try:
            model = s.opener(path)
        except GgufToolError:
            continue  # the report says so
        with model:
            if unreadable(model) is not None or "://" in path:
                session.note(
                    f"{path}: cannot be fixed here: {'an address' if '://' in path else 'its header breaks off'}"
                )
                continue
            fixes = collect(model, s.context, select=s.select, ignore=s.ignore, unsafe=s.fix == "unsafe")
            target = model.name
        for finding, why in fixes.refused:
            session.note(f"{target}: {finding.rule} not fixed: {why}")
        if not fixes.operations:
            session.note(f"{target}: nothing to fix")
            continue
        _edit(session, target, fixes.operations, len(fixes.findings), s.diff)


def _edit(session: Session, target: str, operations: tuple[Operation, ...], n: int, diff: bool) -> None:
    from gguftool.edit.plan import plan_edit
    from gguftool.report.text import safe

    plan = plan_edit(target, operations)
    what = f"{n} finding{'s' if n != 1 else ''}"
    session.note(f"{target}: {'would fix' if diff else 'fixing'} {what} ({plan.strategy})")
    if diff and session.format == "text":
        from gguftool.report.edit import plan_text

        session.out(plan_text(plan, session.style) + "\n")
    else:
        for op in operations:
            session.note(f"  {safe(op.describe())}")
    if not diff:
        plan.commit()
        session.note(f"  done; take it back with: gguftool undo {shlex.quote(target)}")
