"""Which fixes may be offered, and which of them are safe: the rules propose, the prediction decides.

A fix is offered when llama.cpp would do no worse with the file after it. It is *safe* when the file is then predicted
to load, nothing is computed differently from what the tensors prove, and no field is overwritten that a second witness
confirms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gguftool.edit.far import too_far
from gguftool.edit.ops import Operation, Realign, Repack, Set, apply
from gguftool.errors import GgufToolError
from gguftool.lint.predicted import newest
from gguftool.lint.root import root
from gguftool.lint.rule import Context, Finding
from gguftool.model import Model, with_header
from gguftool.model.datastart import misplaced_start
from gguftool.model.role import ROLES, role
from gguftool.predict import harm, predict, setback
from gguftool.predict.idle import all_the_same, changed_keys
from gguftool.predict.solver import SUFFIXES
from gguftool.predict.stages import OTHERS, numbers, screen
from gguftool.records import dataclass, replace

RECORDS = frozenset({"vocab_size", "context_length"})
"""Of the keys that tensors can tell, those that other witnesses tell as well (the token list, the person who asks)."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A fix tried on the header.

    Attributes:
        model: as it would be; None when the fix is not to be done.
        why: why not.
        kept: it overwrites nothing that tensors or other keys confirm, and a model that runs computes as before.
        safe: so, and the file is predicted to load after it.
    """

    model: Model | None
    why: str = ""
    kept: bool = False
    safe: bool = False


def after(model: Model, operations: Sequence[Operation]) -> tuple[Model | None, str]:
    """The model as it would be after the operations; or None and why they are not to be done."""
    try:
        header = apply(operations, model.header)
    except GgufToolError as e:
        return None, str(e)
    for h in (model.header, header):
        if why := too_far(h.data_offset, h.alignment):
            return None, why
    anew = any(isinstance(op, (Realign, Repack)) for op in operations)
    # Data that starts elsewhere than the header says is all there once it is laid out anew.
    whole = anew and misplaced_start(model.parts[0].source, model.header) is not None
    planned = with_header(model, header, header.data_end() if whole else None)
    broken = harm(model, planned) or setback(model, planned)
    return (planned, "") if broken is None else (None, str(broken))


def judge(model: Model, ctx: Context, operations: Sequence[Operation]) -> Planned:
    """What comes of a fix, and whether it is safe: the one place that says so."""
    planned, why = after(model, operations)
    if planned is None:
        return Planned(None, why)
    own = role(model)
    if all_the_same(model.header, planned.header) or not (ROLES[own].loads or own in OTHERS):
        return Planned(planned, kept=True, safe=True)
    if own in OTHERS:
        return Planned(planned, kept=True, safe=loads(model, planned, ctx))
    kept = not _contradicts(model, ctx, operations) and not _computes_otherwise(model, planned, ctx)
    return Planned(planned, "", kept, kept and loads(model, planned, ctx))


def loads(model: Model, planned: Model, ctx: Context) -> bool:
    """Whether the planned model is predicted to load."""
    if (own := role(model)) in OTHERS:
        return predict(planned, given_as=own).loads
    if any(key.startswith(("tokenizer.", "general.")) for key in changed_keys(model.header, planned.header)):
        return predict(planned).loads
    before = newest(model, ctx)
    short = screen(planned) if before.stage != "vocabulary" else before
    return (short if short is not None else predict(planned)).loads


def _contradicts(model: Model, ctx: Context, operations: Sequence[Operation]) -> bool:
    """A number that tensors can tell is overwritten, and they do not prove the new one."""
    prefix = f"{model.architecture}."
    proved = root(model, ctx).proved
    told = dict(proved.changes) if proved is not None else {}
    for op in operations:
        if isinstance(op, Set) and op.key in model and op.key.removeprefix(prefix) in set(SUFFIXES) - RECORDS:
            same = model.get(op.key) == op.value
            if not same and told.get(op.key) != op.value:
                return True
    return False


def _computes_otherwise(model: Model, planned: Model, ctx: Context) -> bool:
    """A model that runs would compute with other numbers."""
    return newest(model, ctx).ok and numbers(model) != numbers(planned)


def offered(model: Model, ctx: Context, findings: Iterable[Finding]) -> list[Finding]:
    """Findings with the fixes that may be offered, each marked safe or not."""
    out: list[Finding] = []
    waiting: list[int] = []
    for finding in findings:
        fix = finding.fix
        if fix is None or not fix.operations or finding.path != model.name or not model.header.complete:
            out.append(finding)
            continue
        planned = judge(model, ctx, fix.operations) if fix.safe else Planned(*after(model, fix.operations))
        if planned.model is None:
            out.append(replace(finding, fix=None, data={**finding.data, "fix_withheld": planned.why}))
            continue
        if fix.safe and not planned.safe:
            waiting.append(len(out))
        out.append(finding)
    if waiting and not _together(model, ctx, [f for f in out if f.fix is not None and f.fix.safe]):
        for i in waiting:
            fix = out[i].fix
            out[i] = replace(out[i], fix=replace(fix, safe=False) if fix is not None else None)
    return out


def _together(model: Model, ctx: Context, findings: Sequence[Finding]) -> bool:
    """Whether fixes of several faults, none of which is enough alone, make the file load together."""
    ops = tuple(op for f in findings if f.fix is not None and f.path == model.name for op in f.fix.operations)
    planned, _ = after(model, tuple(dict.fromkeys(ops)) if _hashable(ops) else ops)
    if planned is None or _contradicts(model, ctx, ops) or _computes_otherwise(model, planned, ctx):
        return False
    return loads(model, planned, ctx)


def _hashable(ops: Sequence[Operation]) -> bool:
    return not any(isinstance(op, Set) and isinstance(op.value, list) for op in ops)
