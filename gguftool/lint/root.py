"""The one cause of a disagreement between keys and tensors, and the rule that tells it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gguftool.edit.ops import Set
from gguftool.edit.spelled import command
from gguftool.lint.predicted import newest, surveyed
from gguftool.lint.rule import Context, Draft, Fix, edit, found
from gguftool.model import Model
from gguftool.predict import Solution, solve
from gguftool.predict.solver import Reading
from gguftool.quantity import whole
from gguftool.shell import blank

_HOMES = {
    "block_count": "block-count-tensors",
    "nextn_predict_layers": "nextn-layers",
    "expert_count": "expert-count-tensors",
    "attention.key_length": "head-size-mismatch",
    "attention.value_length": "head-size-mismatch",
    "rope.dimension_count": "rope-dimension-mismatch",
}
_ELSE = "size-key-mismatch"


def root(m: Model, ctx: Context) -> Solution:
    """What the tensors say of the keys; worked out once a run, where llama.cpp has something against the file."""
    return ctx.once("root", lambda: _solved(m, ctx))


def _solved(m: Model, ctx: Context) -> Solution:
    load = newest(m, ctx)
    blocks = m.arch.block_count == max(map(_block, m.tensors), default=-1) + 1
    if load.ok and blocks and not load.left_aside:
        return Solution("")
    return solve(m)


def _block(name: str) -> int:
    number = whole(name.split(".", 2)[1]) if name.startswith("blk.") else None
    return -1 if number is None else number


def caused(m: Model, ctx: Context, rule: str) -> Iterator[Draft]:
    """The findings that a rule has of the root cause."""
    solution = root(m, ctx)
    if not solution.readings:
        return
    proved = solution.proved
    if proved is not None:
        changes = [c for c in proved.changes if _home(m, c[0], proved) == rule]
        if changes:
            # Fewer layers than the key says may also mean that the rest was lost.
            cut = any(k.endswith(".block_count") and v < m.arch.block_count for k, v in changes)
            # One tensor that disagrees may itself be what is wrong.
            seen = surveyed(m, ctx)
            alone = len(seen.misshaped) == 1 and not seen.problem
            yield _draft(m, solution, changes, safe=not (cut or alone or solution.hopeless))
        return
    first = solution.readings[0]
    if _home(m, first.changes[0][0], first) == rule:
        yield _draft(m, solution, first.changes, safe=False)


def _home(m: Model, key: str, reading: Reading) -> str:
    """The rule that tells a wrong key; of two that are wrong together one rule tells both."""
    keys = {k.removeprefix(f"{m.architecture}.") for k in reading.keys}
    suffix = key.removeprefix(f"{m.architecture}.")
    if suffix == "nextn_predict_layers" and "block_count" in keys:
        suffix = "block_count"
    heads = any(k.startswith("attention.head_count") for k in keys)
    if heads and suffix.startswith(("attention.", "rope.")):
        return _ELSE
    return _HOMES.get(suffix, _ELSE)


OR = ", or with "
AGREE = "; they agree with "


def agreeing(drafts: Sequence[Draft]) -> str:
    """The readings of a finding, for a message of a rule's own; "" for one alone."""
    text = next((d.message for d in drafts if "readings" in d.data), "")
    return text[text.index(AGREE) :].replace("they", "keys and tensors", 1) if AGREE in text else ""


def _draft(m: Model, solution: Solution, changes: Sequence[tuple[str, int]], *, safe: bool) -> Draft:
    key = changes[0][0]
    wrong = ", ".join(f"{k} is {_value(m, k)}, the tensors say {v}" for k, v in changes)
    names = _names(solution)
    if solution.proved is not None:
        ops = _operations(m, changes)
        return found(
            f"{wrong}{_of(solution)}",
            where=f"field:{key}",
            fix=Fix(_title(changes), ops, safe),
            tensors=names,
        )
    shown = [_said(r.changes) for r in solution.readings[:3]]
    lines = [command(_operations(m, r.changes), m.name, m.header) for r in solution.readings]
    likely = solution.likely
    choose = Fix("set what config.json says", command=edit("--set", blank(f"{key}=")))
    now = ", ".join(f"{k} {_value(m, k)}" for k in sorted({k for r in solution.readings[:3] for k in r.keys}))
    return found(
        f"{now}: keys and tensors disagree{_of(solution)}{AGREE}{OR.join(shown)}",
        where=f"field:{key}",
        fix=choose if likely is None else Fix(_title(likely.changes), _operations(m, likely.changes)),
        readings=lines,
        tensors=names,
    )


def _title(changes: Sequence[tuple[str, int]]) -> str:
    """What the fix does; the key of a single change stands in the finding."""
    what = f"it to {changes[0][1]}" if len(changes) == 1 else _said(changes)
    return f"set {what}, as the tensors say"


def _value(m: Model, key: str) -> object:
    value = m.get(key)
    return "missing" if value is None else value


def _names(solution: Solution) -> list[str] | None:
    kind, _, name = solution.place.partition(":")
    return [name] if kind == "tensor" else None


def _of(solution: Solution) -> str:
    return f" ({solution.fault.removeprefix('check_tensor_dims: ')})"


def _said(changes: Sequence[tuple[str, int]]) -> str:
    return " and ".join(f"{key} {value}" for key, value in changes)


def _operations(m: Model, changes: Sequence[tuple[str, int]]) -> tuple[Set, ...]:
    return tuple(Set(k, v, m.fields[k].type_name if k in m.fields else "u32") for k, v in changes)
