"""`rope.freq_base`, `rope.dimension_count` and their kin."""

from __future__ import annotations

import math

from gguftool.edit.ops import Delete, Set
from gguftool.facts.machine.hparams import EXACT_ROT
from gguftool.lint.predicted import newest
from gguftool.lint.root import agreeing, caused, root
from gguftool.lint.rule import Context, Drafts, Fix, Severity, edit, found, rule
from gguftool.model import Model
from gguftool.shell import blank

ROPE_SWITCHED = frozenset({"granite", "granitemoe", "granitehybrid", "graniteswitch"})


@rule(Severity.ERROR, known_arch=True)
def rope_freq_base_odd(m: Model, ctx: Context) -> Drafts:
    """The RoPE base must be a positive number of a size that models have.

    Why. llama.cpp loads 0, negative numbers, NaN and infinity without a word and computes garbage positions. Real
    models use 10,000 or more.
    Evidence. Measured on b11434: all of them load silently.
    Example. llama.rope.freq_base is 0
    Fix. `gguftool fix --rope-freq-base F` with rope_theta of `config.json`.
    """
    for name in ("rope.freq_base", "rope.freq_base_swa"):
        value = m.arch.raw(name)
        if not isinstance(value, float) or not m.arch.ropes:
            continue
        bad = not math.isfinite(value) or value <= 0
        if not bad and value >= 100:
            continue
        key = f"{m.architecture}.{name}"
        option = ("--rope-freq-base", blank()) if name == "rope.freq_base" else ("--set", blank(f"{key}="))
        yield found(
            f"{key} is {value:g}, which no model has",
            where=f"field:{key}",
            severity=None if bad else Severity.WARNING,
            fix=Fix("set it to rope_theta of config.json", command=edit(*option)),
        )


@rule(Severity.ERROR, known_arch=True)
def rope_dimension_zero(m: Model, ctx: Context) -> Drafts:
    """The number of rotated dimensions must not be 0.

    Why. The model loads, and the first token never comes: RoPE loops forever.
    Evidence. Measured on b11434: 27 first decodes hang with rope.dimension_count or rope.dimension_count_swa at
    0.
    Example. qwen2.rope.dimension_count is 0: the first token hangs
    Fix. Deleting the key gives the head size, which is right for most models.
    """
    for name in ("rope.dimension_count", "rope.dimension_count_swa"):
        # Some architectures rotate by the numbers of their first layer only: there the other key does not matter.
        if m.arch.raw(name) == 0 and m.arch.ropes and not newest(m, ctx).ok:
            key = f"{m.architecture}.{name}"
            fix = Fix("delete it: llama.cpp then takes the head size", (Delete(key),))
            yield found(f"{key} is 0: the first token hangs", where=f"field:{key}", fix=fix)


@rule(Severity.ERROR, known_arch=True)
def rope_dimension_mismatch(m: Model, ctx: Context) -> Drafts:
    """The number of rotated dimensions must fit the head size.

    Why. Llama-like models rotate whole heads; llama.cpp refuses another number. On no architecture can it be
    larger than a head.
    Evidence. `llama-model.cpp:load_hparams` (b11434): "invalid n_rot: …, expected …" for llama, deci, falcon.
    Example. llama.rope.dimension_count is 64, heads have 128
    Fix. Sets it to the head size, where the tensors show that size; else both readings are shown.
    """
    value, head = m.arch.raw("rope.dimension_count"), m.arch.key_length
    if isinstance(value, bool) or not isinstance(value, int) or not value:
        return
    told = tuple(caused(m, ctx, "rope-dimension-mismatch"))
    if (
        not head
        or not m.arch.ropes
        or value == head
        or (m.architecture not in EXACT_ROT and value <= head)
        or m.arch.shape.mla
    ):
        yield from told
        return
    exact = m.architecture in EXACT_ROT
    if not exact and newest(m, ctx).ok:
        return
    key = f"{m.architecture}.rope.dimension_count"
    if root(m, ctx).readings and not told:
        return  # the head size is what is wrong
    yield found(
        f"{key} is {value}, heads have {head}{agreeing(told)}",
        where=f"field:{key}",
        fix=told[0].fix if told else None,
        readings=told[0].data.get("readings") if told else None,
        llama_cpp=f"invalid n_rot: {value}, expected {head}" if exact else None,
    )


@rule(Severity.ERROR, known_arch=True)
def rope_sections(m: Model, ctx: Context) -> Drafts:
    """Multi-section RoPE needs four section sizes.

    Why. Vision models rotate by time, height and width; llama.cpp reads exactly four numbers.
    Evidence. `llama-model-loader.cpp:get_key_or_arr` (b11434), `models/qwen2vl.cpp`: "wrong array length".
    Example. qwen2vl.rope.dimension_sections has 3 entries, llama.cpp reads 4
    Fix. Appends zeros, as the converter does for three numbers.
    """
    key = f"{m.architecture}.rope.dimension_sections"
    f = m.fields.get(key)
    if f is None or f.count is None or f.count == 4 or m.arch.facts is None or "mrope" not in m.arch.facts.rope:
        return
    fix = None
    if f.count == 3 and f.type_name in ("arr[i32]", "arr[u32]"):
        fix = Fix("append a zero", (Set(key, [*f.head(3), 0], f.type_name.removeprefix("arr")),), safe=True)
    yield found(
        f"{key} has {f.count} entries, llama.cpp reads 4",
        where=f"field:{key}",
        fix=fix,
        llama_cpp=f"key {key} has wrong array length; expected 4, got {f.count}",
    )


@rule(Severity.INFO, known_arch=True)
def rope_switched_off(m: Model, ctx: Context) -> Drafts:
    """Granite models switch RoPE off by `rope.scaling.finetuned`.

    Why. For the granite family alone, an explicit false in that key means "no positions at all". That is right
    for the hybrid Granite 4 models and ruins the dense ones.
    Evidence. `models/granite.cpp`, `models/granite-hybrid.cpp` (b11434).
    Example. granite.rope.scaling.finetuned is false: RoPE is off
    Fix. `gguftool fix --delete granite.rope.scaling.finetuned` for a model that ropes.
    """
    if m.architecture in ROPE_SWITCHED and m.arch.raw("rope.scaling.finetuned") is False:
        key = f"{m.architecture}.rope.scaling.finetuned"
        yield found(
            f"{key} is false: RoPE is off",
            where=f"field:{key}",
            severity=Severity.WARNING if m.architecture == "granite" else None,
            fix=Fix("delete it, so that the model ropes", (Delete(key),)),
        )
