"""What was asked for and has no effect, or another one than may be meant: said before anything is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gguftool.build.category import Category, allowed, category
from gguftool.build.changes import Changes
from gguftool.build.imatrix import Imatrix
from gguftool.build.layout import rendered
from gguftool.build.mixture import Overrides
from gguftool.build.patterns import compiled, first
from gguftool.build.plan import QuantizePlan, facts, overridden
from gguftool.format.types import Layout
from gguftool.model import Model, from_source
from gguftool.near import near_names
from gguftool.predict import harm, predict
from gguftool.source import Memory

_SHOWN = 5
"""Patterns without effect that are named."""


def unused(plan: QuantizePlan, wish: Overrides, arch: str) -> Iterator[str]:
    """Wishes about types that decide nothing."""
    names = [s.name for s in plan.steps]
    if wish.output_type and "output.weight" not in names:
        yield f"--output-tensor-type {wish.output_type}: this model has no output.weight, its embeddings serve for it"
    if wish.leave_output and "output.weight" not in names:
        yield "--leave-output-tensor: this model has no output.weight, its embeddings serve for it"
    if wish.embedding_type and not any(category(name) is Category.TOKEN_EMBD for name in names):
        yield f"--token-embedding-type {wish.embedding_type}: this model has no token embeddings"
    if not plan.target.quantized:
        asked = [f"--tensor-type {p}={t}" for p, t in wish.tensor_types]
        asked += ["--pure"] if wish.pure else []
        if plan.target.copies:
            asked += [f"--output-tensor-type {wish.output_type}"] if wish.output_type else []
            asked += [f"--token-embedding-type {wish.embedding_type}"] if wish.embedding_type else []
        if asked:
            what = "copies every tensor" if plan.target.copies else "is a conversion, all matrices get that type"
            yield f"{_some(asked)}: no effect, {plan.target.name} {what}"
        return
    said = list(_patterns(plan, wish, arch))
    # Lists of types are made for many models.
    yield from said[:_SHOWN]
    if len(said) > _SHOWN:
        yield f"and {len(said) - _SHOWN} more of --tensor-type that change nothing"


def _patterns(plan: QuantizePlan, wish: Overrides, arch: str) -> Iterator[str]:
    numbered = [(compiled(p), i) for i, (p, _) in enumerate(wish.tensor_types)]
    fixed = {
        *(["output.weight"] if wish.output_type or wish.leave_output else []),
        *(["token_embd.weight"] if wish.embedding_type else []),
    }
    deciding: set[int] = set()
    matching: dict[int, str] = {}
    for s in plan.steps:
        hit = first(numbered, s.name)
        if hit is None:
            continue
        matching.setdefault(hit, s.name)
        if s.name not in fixed and allowed(s.name, s.tensor.shape, arch):
            deciding.add(hit)
    for i, (pattern, kind) in enumerate(wish.tensor_types):
        said = f"--tensor-type {pattern}={kind}"
        if i in deciding:
            continue
        if i in matching:
            why = "another option names its type" if matching[i] in fixed else "is never quantised"
            yield f"{said} changes nothing: {matching[i]} {why}"
            continue
        earlier = next((n for n in (s.name for s in plan.steps) if first(numbered[i : i + 1], n) is not None), None)
        if earlier is not None:
            yield f"{said} changes nothing: a pattern before it decides for all that it matches, as for {earlier}"
        else:
            yield f"{said} matches no tensor of this model{_near(pattern, [s.name for s in plan.steps])}"


def _near(pattern: str, names: Sequence[str]) -> str:
    words = dict.fromkeys(part for name in names for part in name.split(".") if not part.isdecimal())
    bare = pattern.replace("\\", "").strip("^$.*").removesuffix(".weight")
    near = near_names(bare.rpartition(".")[2].lower(), [w for w in words if w not in ("blk", "weight", "bias")], 2)
    return f"; it has {' and '.join(near)}" if near else ""


def selection(whole: Imatrix | None, include: Sequence[str], exclude: Sequence[str]) -> Iterator[str]:
    """``--include-weights`` and ``--exclude-weights`` that choose nothing."""
    for option, parts in (("--include-weights", include), ("--exclude-weights", exclude)):
        for part in parts:
            if whole is None:
                yield f"{option} {part}: no effect without --imatrix"
            elif not any(part in name for name in whole.entries):
                yield f"{option} {part} matches no entry of the importance matrix"
    if whole is not None and (include or exclude) and whole.selected(include, exclude) is None:
        yield "nothing of the importance matrix is left: it is as if there were none"


_MEANT = {
    "arch": "the architecture",
    "heads": "heads",
    "kv_heads": "KV heads",
    "experts": "experts",
    "blocks": "layers",
}


def effects(model: Model, changes: Changes) -> Iterator[str]:
    """What changed keys and missing layers do besides what was asked for."""
    for o in changes.keys:
        if o.kind == "int" and o.stored != o.value:
            yield f"--override-kv {o.text}: llama-quantize writes {o.stored}, a u32 without the sign"
        there = model.fields.get(o.key)
        new = o.field(Layout()).type_name
        if there is not None and there.type_name != new:
            yield f"--override-kv {o.text}: {o.key} is {there.type_name} in the source, and becomes {new}"
    was, now = facts(model), facts(overridden(model, changes.keys))
    pairs = [(meant, getattr(was, name), getattr(now, name)) for name, meant in _MEANT.items()]
    other = [f"{meant} {old} -> {new}" for meant, old, new in pairs if old != new]
    if other:
        yield f"--override-kv changes what the mixture of types depends on: {', '.join(other)}"


def broken(model: Model, plan: QuantizePlan, changes: Changes) -> Iterator[str]:
    """What llama.cpp would say of the result, where it loads the source."""
    whole = rendered(plan.metadata, plan.steps, model.header.alignment)
    result = from_source(Memory(whole.header, model.name, whole.size), strict=False)
    found = harm(model, result)
    # That fewer layers are used is what was asked for.
    if found is not None and not (changes.prune and predict(result).loads):
        yield str(found)


def _some(asked: Sequence[str]) -> str:
    return ", ".join(asked[:3]) + (f" and {len(asked) - 3} more" if len(asked) > 3 else "")
