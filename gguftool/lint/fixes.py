"""Which edit operations the fixes of all findings come to, round by round, without touching the file."""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.brief import short_repr
from gguftool.edit.ops import Operation
from gguftool.errors import Bug
from gguftool.lint.offer import Planned, after, judge, loads
from gguftool.lint.rule import Context, Finding, Scope
from gguftool.lint.run import lint, selected
from gguftool.model import Model
from gguftool.model.role import ROLES, role
from gguftool.records import dataclass

ROUNDS = 5
"""A fix may uncover what another rule then fixes; more rounds than this means that two rules fight."""


@dataclass(frozen=True, slots=True)
class Fixes:
    """What fixing comes to.

    Attributes:
        operations: edits for the first file of the model, in order.
        findings: the findings they fix.
        refused: findings whose fix cannot be applied, each with the reason.
        bugs: rules that failed themselves, so that what they would fix is not known.
    """

    operations: tuple[Operation, ...]
    findings: tuple[Finding, ...]
    refused: tuple[tuple[Finding, str], ...]
    bugs: tuple[Bug, ...] = ()

    __repr__ = short_repr


def collect(
    model: Model,
    context: Context | None = None,
    *,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    unsafe: bool = False,
) -> Fixes:
    """All fixes that can be applied to the model, in the order of the findings.

    Args:
        model: opened with ``strict=False``; its header must be complete.
        context: see `lint`.
        select: see `lint`.
        ignore: see `lint`.
        unsafe: also those that change what llama.cpp computes.
    """
    fixes, planned = _rounds(model, context, select, ignore, unsafe=unsafe, alone=False)
    if unsafe or planned is model or not ROLES[role(model)].loads or loads(model, planned, Context()):
        return fixes
    # The whole does not load, so that each fix has to be safe by itself.
    return _rounds(model, context, select, ignore, unsafe=False, alone=True)[0]


def _rounds(
    model: Model, context: Context | None, select: Sequence[str], ignore: Sequence[str], *, unsafe: bool, alone: bool
) -> tuple[Fixes, Model]:
    """The fixes, and the model as it would be; ``alone``: only those that are safe by themselves."""
    ctx = Context()
    operations: list[Operation] = []
    fixed: list[Finding] = []
    refused: list[tuple[Finding, str]] = []
    bugs: dict[str, Bug] = {}
    names = select
    for _ in range(ROUNDS):
        before = len(operations)
        report = lint(model, context, select=names, ignore=ignore, load=False)
        bugs |= {s.rule: bug for s, bug in zip(report.failed, report.bugs, strict=True) if s.rule not in bugs}
        for finding in report.findings:
            fix = finding.fix
            if fix is None or not fix.operations or not (fix.safe or unsafe) or finding.path != model.name:
                continue
            if "readings" in finding.data:
                continue  # two readings of one fault: a person chooses
            new = [op for op in fix.operations if op not in operations]
            if not new:
                continue
            tried = Planned(*after(model, new)) if unsafe else judge(model, ctx, new)
            planned, why = tried.model, tried.why
            if planned is not None and not unsafe and not (tried.safe if alone else tried.kept):
                continue
            if planned is None:
                if all(finding.rule != f.rule or finding.where != f.where for f, _ in refused):
                    refused.append((finding, why))
                continue
            fixed.append(finding)
            operations.extend(new)
            model, ctx = planned, Context()
        if len(operations) == before:
            break
        # The data no longer stands where the new header has it, so only rules of the header go on.
        names = tuple(r.id for r in selected(select, ignore) if r.scope is Scope.HEADER)
        if not names:
            break
    # What stood in the way of a fix in one round another fix may have put right.
    healed = {(f.rule, f.where) for f in fixed}
    left = tuple((f, why) for f, why in refused if (f.rule, f.where) not in healed)
    return Fixes(tuple(operations), tuple(fixed), left, tuple(bugs.values())), model
