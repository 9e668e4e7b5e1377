"""``gguftool lint --fix``: from findings to edits, or to what they would change."""

from __future__ import annotations

import sys

from gguftool.cli.lint_setup import Settings
from gguftool.cli.options import Session
from gguftool.errors import GgufToolError, of_one
from gguftool.lint.fixes import Fixes, collect
from gguftool.model.unreadable import unreadable
from gguftool.records import dataclass
from gguftool.report.text import safe
from gguftool.shell import gguftool, path_word


@dataclass(frozen=True, slots=True)
class Fixed:
    """What fixing did to one file: ``done`` False for a mere look (``--diff``) or when ``error`` stopped it."""

    path: str
    fixes: Fixes
    strategy: str = "none"
    done: bool = False
    error: GgufToolError | None = None

    def json(self) -> dict[str, object]:
        """One row of ``fixed`` in the JSON of lint."""
        return {
            "path": self.path,
            "done": self.done,
            "strategy": self.strategy,
            "changes": [op.describe() for op in self.fixes.operations],
            "findings": [{"rule": f.rule, "where": f.where} for f in self.fixes.findings],
            "not_fixed": [{"rule": f.rule, "where": f.where, "why": why} for f, why in self.fixes.refused],
        }


def fix_models(session: Session, models: tuple[str, ...], s: Settings) -> list[Fixed]:
    """Apply the fixes of each model, or show them; what is told goes to stderr, stdout belongs to the report."""
    out: list[Fixed] = []
    seen: set[str] = set()
    for path in models:
        try:
            wanted = _wanted(session, path, s, seen)
        except Exception as e:
            # The report says so, too; the other models are fixed all the same.
            session.note(f"{safe(path)}: not fixed: {safe(str(of_one(e, path)))}")
            continue
        if wanted is not None:
            out.append(_edit(session, *wanted, s))
    return out


def _wanted(session: Session, path: str, s: Settings, seen: set[str]) -> tuple[str, Fixes] | None:
    """The file to edit and what to change in it; None where there is nothing to do."""
    with s.opener(path) as model:
        if model.name in seen:
            return None
        seen.update((path, *(part.name for part in model.parts)))
        if unreadable(model) is not None or "://" in path:
            why = "an address" if "://" in path else "its header breaks off"
            session.note(f"{safe(path)}: cannot be fixed here: {why}")
            return None
        ignore = (*s.ignore, *s.ignored(path))
        fixes = collect(model, s.context, select=s.select, ignore=ignore, unsafe=s.fix == "unsafe")
        # Of a set it is the first shard, unless nothing proves that it is of this set: then the edit refuses.
        target = path if model.name in model.by_content else model.name
    for finding, why in fixes.refused:
        session.note(f"{safe(target)}: {finding.rule} not fixed: {safe(why)}")
    if not fixes.operations:
        session.note(f"{safe(target)}: nothing to fix")
        return None
    return target, fixes


def _edit(session: Session, target: str, fixes: Fixes, s: Settings) -> Fixed:
    from gguftool.edit.plan import plan_edit

    diff = s.diff
    try:
        plan = plan_edit(target, fixes.operations, argv=sys.argv[1:], known=s.read)
        n = len(fixes.findings)
        what = f"{n} finding{'s' if n != 1 else ''}"
        session.note(f"{safe(target)}: {'would fix' if diff else 'fixing'} {what} ({plan.strategy})")
        if diff and session.format == "text":
            from gguftool.report.edit import plan_text

            session.out(plan_text(plan, session.style) + "\n")
        else:
            for op in fixes.operations:
                session.note(f"  {safe(op.describe())}")
        if not diff:
            plan.commit()
            session.note(f"  done; take it back with: {gguftool('undo', path_word(target))}")
        return Fixed(target, fixes, plan.strategy, not diff)
    except Exception as error:
        e = of_one(error, target)
        # The other models are fixed all the same, and the report of this one is still wanted.
        why = str(e).removeprefix(f"{target}: ")
        session.warn(f"{target}: not fixed: {why}" + (f"\nhint: {e.hint}" if e.hint else ""))
        return Fixed(target, fixes, error=e)
