"""What comes of changes that wait: what lint and llama.cpp say of them, how they get onto the disk, and doing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from gguftool.api.editing import CONSENTS, NONE, Consent, Editing, choices, opened, other, read, unchanged
from gguftool.brief import short_repr
from gguftool.errors import GgufToolError, Refused
from gguftool.lint.rule import Finding, Scope
from gguftool.records import dataclass, replace

if TYPE_CHECKING:
    from gguftool.edit.plan import EditPlan, Result
    from gguftool.edit.undo import Undone
    from gguftool.files.disk import Progress
    from gguftool.lint.run import Report
    from gguftool.predict import Harm


@dataclass(frozen=True)
class Judged:
    """What is said of a model as it would be.

    Attributes:
        report: of lint; what only the file itself tells is that of the file as it is.
        before: the report of the file as it is.
        harm: what the changes break for llama.cpp, or None.
    """

    report: Report
    before: Report
    harm: Harm | None = None

    __repr__ = short_repr

    @cached_property
    def _by_place(self) -> Mapping[str, tuple[Finding, ...]]:
        out: dict[str, tuple[Finding, ...]] = {}
        for f in self.report.findings:
            out[f.where] = (*out.get(f.where, ()), f)
        return out

    def at(self, key: str) -> tuple[Finding, ...]:
        """Findings that stand at a key."""
        return self._by_place.get(f"field:{key}", ())


def judge(e: Editing, before: Report | None = None) -> Judged:
    """Ask lint and the load prediction.

    Args:
        e: the changes.
        before: the report of the file as it is, where it is there already.

    Raises:
        ChangedMeanwhile: the file is no longer the one that was read.
    """
    from gguftool.lint.run import lint, selected
    from gguftool.predict import harm

    with opened(e) as (model, planned):
        was = before if before is not None else lint(model)
        if planned is model:
            return Judged(was, was)
        of_header = tuple(r.id for r in selected() if r.scope is Scope.HEADER)
        now = lint(planned, select=of_header)
        kept = tuple(f for f in was.findings if f.rule not in of_header)
        findings = sorted((*now.findings, *kept), key=lambda f: f.severity.rank)
        skipped = (*now.not_evaluated, *(s for s in was.not_evaluated if s.rule not in of_header))
        return Judged(replace(now, findings=tuple(findings), not_evaluated=skipped), was, harm(model, planned))


def plan(e: Editing, consents: frozenset[Consent] = NONE, argv: Sequence[str] = ()) -> EditPlan:
    """What writing them would do: the bytes, the strategy, and what llama.cpp makes of the file before and after.

    Args:
        e: the changes.
        consents: what is insisted on, beside what the changes carry.
        argv: the command line, for the record.

    Raises:
        ChangedMeanwhile: the file is no longer the one that was read.
        Refused, NoRoom, UsageError: as `gguftool.edit.plan.plan_edit`; `ways` has the consents that help.
    """
    from gguftool.edit.plan import plan_edit

    if e.base.refusal is not None:
        raise e.base.refusal
    unchanged(e)
    made = plan_edit(e.base.path, e.operations, argv=argv, **choices(e.consents | consents))
    if made.job.identity != e.base.stamp:
        raise other(e)
    return made


def ways(e: Editing, refusal: GgufToolError, consents: frozenset[Consent] = NONE) -> tuple[Consent, ...]:
    """The consents that lead past a refusal of `plan`, to a plan or to the next refusal."""
    # Those that it names: each try may wait for a program that has the file open.
    named = [c for c in CONSENTS if c.option.split()[0] in f"{refusal} {refusal.hint}"]
    return tuple(c for c in named if c not in consents and not _refused_so(e, consents | {c}, refusal))


def _refused_so(e: Editing, consents: frozenset[Consent], refusal: GgufToolError) -> bool:
    try:
        plan(e, consents)
    except GgufToolError as error:
        return str(error) == str(refusal)
    return False


def write(e: Editing, made: EditPlan, progress: Progress | None = None) -> tuple[Editing, Result]:
    """Write the changes by a plan of theirs, crash-safe and undoable; then read the file anew.

    Raises:
        ChangedMeanwhile, Refused, NoRoom: nothing was touched.
        InterruptedEdit: the disk failed; `gguftool.recover` settles it.
    """
    result = made.commit(progress)
    return Editing(read(e.base.path)), result


def take_back(e: Editing, progress: Progress | None = None) -> tuple[Editing, Undone]:
    """Take the last edit that was written back, byte for byte; then read the file anew.

    Raises:
        Refused: changes wait, there is nothing to take back, or it is not safe.
    """
    from gguftool.edit.undo import undo

    if e.steps:
        raise Refused("there are changes that are not written yet", "write them, or take them back first")
    done = undo(e.base.path, progress=progress)
    return Editing(read(e.base.path)), done
