"""RoPE against config.json."""

from __future__ import annotations

from gguftool.edit.ops import Operation, Set
from gguftool.lint.rule import Context, Drafts, Fix, Scope, Severity, found, not_evaluated, rule
from gguftool.lint.rules.source.numbers import equal, not_same, own, same_model, shown, source
from gguftool.model import Model

DEFAULT = 10000.0


@rule(Severity.ERROR, scope=Scope.SOURCE, known_arch=True)
def source_rope_base(m: Model, ctx: Context) -> Drafts:
    """The RoPE base must be the one the model was trained with.

    Why. Positions turn with another speed: answers are gibberish, or perplexity is high. Where the key is missing
    llama.cpp takes 10000.
    Evidence. llama.cpp issues 2768 and 3090 (CodeLlama), ollama issue 2379.
    Example. qwen2.rope.freq_base is missing (llama.cpp takes 10000), config.json has rope_theta 1e+06
    Fix. Writes the value of config.json.
    """
    folder = source(ctx)
    if not m.arch.ropes:
        return
    if not same_model(m, ctx):
        yield not_evaluated(not_same(ctx))
        return
    there, key, here = folder.rope_theta, f"{m.architecture}.rope.freq_base", own(m, "rope.freq_base")
    if there is None:
        yield not_evaluated("config.json names no rope_theta")
        return
    if equal(DEFAULT if here is None else here, there):
        return
    stated = "missing (llama.cpp takes 10000)" if here is None else shown(here)
    yield found(
        f"{key} is {stated}, config.json has rope_theta {there:g}",
        where=f"field:{key}",
        fix=Fix(f"write {there:g}", (Set(key, there, "f32"),)),
        file=here,
        source=there,
    )


@rule(Severity.WARNING, scope=Scope.SOURCE, known_arch=True)
def source_rope_base_swa(m: Model, ctx: Context) -> Drafts:
    """The RoPE base of sliding-window layers should be the one of config.json.

    Why. Gemma 3 and others turn their local layers with another base; a wrong one spoils most layers.
    Evidence. `conversion/base.py:set_gguf_parameters` (b11434): rope_local_base_freq.
    Example. gemma3.rope.freq_base_swa is 1e+06, config.json has 10000
    Fix. Writes the value of config.json.
    """
    folder = source(ctx)
    there = folder.number(
        "local_rope_theta", "rope_local_theta", "rope_theta_local", "swa_rope_theta", "rope_local_base_freq"
    )
    parameters = folder.text.get("rope_parameters")
    if isinstance(parameters, dict) and isinstance(parameters.get("sliding_attention"), dict):
        value = parameters["sliding_attention"].get("rope_theta")
        there = value if isinstance(value, (int, float)) else there
    key, here = f"{m.architecture}.rope.freq_base_swa", own(m, "rope.freq_base_swa")
    if there is None or here is None or equal(here, there) or not same_model(m, ctx):
        return
    yield found(
        f"{key} is {shown(here)}, config.json has {there:g}",
        where=f"field:{key}",
        fix=Fix(f"write {there:g}", (Set(key, float(there), "f32"),)),
        file=here,
        source=there,
    )


@rule(Severity.WARNING, scope=Scope.SOURCE, known_arch=True)
def source_rope_scaling(m: Model, ctx: Context) -> Drafts:
    """RoPE scaling should be the one of config.json.

    Why. Linear and YaRN scaling need type and factor, YaRN also the original context; Llama 3.1 and longrope need
    tensors of factors. Without them quality falls beyond the original context. A file with scaling that
    config.json lacks was changed on purpose: an info.
    Evidence. `conversion/base.py:set_gguf_parameters` (b11434); llama.cpp issues 8650 and 10698.
    Example. config.json has yarn scaling with factor 4, the file has none
    Fix. Writes type, factor and original context length of config.json.
    """
    folder, arch = source(ctx), m.architecture
    if not m.arch.ropes:
        return
    if not same_model(m, ctx):
        yield not_evaluated(not_same(ctx))
        return
    kind = folder.rope.get("rope_type")
    kind = kind.lower() if isinstance(kind, str) else None
    here = m.arch.raw("rope.scaling.type")
    if kind in (None, "default", "none", "mrope"):
        if here in ("linear", "yarn") and (own(m, "rope.scaling.factor") or 1.0) != 1.0:
            factor = own(m, "rope.scaling.factor") or 1.0
            yield found(
                f"{arch}.rope.scaling.type is {here} with factor {factor:g}, config.json has no scaling",
                where=f"field:{arch}.rope.scaling.type",
                severity=Severity.INFO,
            )
        return
    if kind == "llama3":
        yield from _factors(m, ("rope_freqs.weight",), "llama3")
    elif kind in ("su", "longrope"):
        yield from _factors(m, ("rope_factors_long.weight", "rope_factors_short.weight"), "longrope")
    elif kind in ("linear", "yarn"):
        yield from _scaled(m, ctx, kind)
    else:
        yield not_evaluated(f"config.json has rope_type {kind!r}, which the converter leaves to each architecture")


def _factors(m: Model, tensors: tuple[str, ...], kind: str) -> Drafts:
    if m.missing_shards:
        yield not_evaluated("shards are missing")
        return
    per_layer = {n.rpartition(".")[0] for n in m.tensors if n.startswith("blk.0.rope_f")}
    absent = [t for t in tensors if t not in m.tensors and f"blk.0.{t.removesuffix('.weight')}" not in per_layer]
    if absent:
        yield found(
            f"config.json has {kind} scaling, but there is no {' and no '.join(absent)}: convert the model again",
            where="header",
            missing=absent,
        )


def _scaled(m: Model, ctx: Context, kind: str) -> Drafts:
    folder, arch = source(ctx), m.architecture
    factor = folder.rope.get("factor")
    if not isinstance(factor, (int, float)) or isinstance(factor, bool):
        yield not_evaluated(f"config.json has {kind} scaling without a factor")
        return
    here = m.arch.raw("rope.scaling.type")
    own_factor = own(m, "rope.scaling.factor") or own(m, "rope.scale_linear") or 1.0
    original = folder.rope.get("original_max_position_embeddings") or folder.number("original_max_position_embeddings")
    if kind == "yarn" and original is None:
        original = folder.context_length
    ops: list[Operation] = []
    faults = []
    if here != kind and not (here is None and kind == "linear"):
        faults.append(f"type {here or 'none'}, there {kind}")
        ops.append(Set(f"{arch}.rope.scaling.type", kind, "str"))
    if not equal(own_factor, factor):
        faults.append(f"factor {own_factor:g}, there {factor:g}")
        ops.append(Set(f"{arch}.rope.scaling.factor", float(factor), "f32"))
    own_original = own(m, "rope.scaling.original_context_length")
    if kind == "yarn" and isinstance(original, int) and own_original != original:
        stated = "none" if own_original is None else f"{own_original:,}"
        faults.append(f"original context {stated}, there {original:,}")
        ops.append(Set(f"{arch}.rope.scaling.original_context_length", original, "u32"))
    if faults:
        yield found(
            f"RoPE scaling differs from config.json: {'; '.join(faults)}",
            where=f"field:{arch}.rope.scaling.type",
            fix=Fix("write what config.json has", tuple(ops)),
            type=kind,
            factor=factor,
        )
