"""`rope.scaling.*`: the type, and whether its numbers fit together."""

from __future__ import annotations

import math

from gguftool.edit.ops import Delete, Set
from gguftool.facts.enums import words
from gguftool.lint.rule import Context, Drafts, Fix, Severity, edit, found, rule, to_choose
from gguftool.model import Model
from gguftool.model.vocab import vocabulary
from gguftool.shell import blank

TYPES = tuple(words("rope.scaling.type"))
_MEANT = {
    "su": "longrope",
    "longrope_scaling": "longrope",
    "dynamic": None,
    "llama3": None,
    "mrope": None,
    "default": None,
}
"""What people write from config.json: a name of llama.cpp's, or None where no scaling key belongs into the file."""


@rule(Severity.ERROR)
def rope_scaling_type_invalid(m: Model, ctx: Context) -> Drafts:
    """The RoPE scaling type must be none, linear, yarn or longrope.

    Why. Any other string, also "YARN" and the empty one, does not give an error: it aborts the process, on every
    architecture, even on those that never rope.
    Evidence. `llama-model.cpp:load_hparams` (b11434): GGML_ASSERT on rope_scaling_type_train; measured with 330
    files.
    Example. llama.rope.scaling.type is "dynamic": llama.cpp aborts
    Fix. Spelling is put right; for `llama3` and `dynamic` the key does not belong into the file (Llama 3.1 scales
    by the tensor rope_freqs.weight).
    """
    if not m.architecture:
        return
    key = f"{m.architecture}.rope.scaling.type"
    value = m.get(key)
    if not isinstance(value, str) or value in TYPES:
        return
    fix: Fix | None
    low = value.strip().lower()
    right = low if low in TYPES else _MEANT.get(low, "")
    if right:
        fix = Fix(f"write {right}", (Set(key, right, "str"),), safe=low in TYPES)
    elif right is None:
        fix = Fix("delete the key (llama.cpp takes linear, with no factor: no scaling)", (Delete(key),))
    else:
        fix = to_choose("write one of none, linear, yarn, longrope", "--set", key)
    yield found(
        f'{key} is "{value}": llama.cpp aborts unless it is {", ".join(TYPES[:-1])} or {TYPES[-1]}',
        where=f"field:{key}",
        fix=fix,
        aborts=True,
    )


@rule(Severity.ERROR, known_arch=True)
def rope_factor_odd(m: Model, ctx: Context) -> Drafts:
    """The RoPE scaling factor must be a number of at least 1.

    Why. The factor says how many times longer the context is made. A negative, infinite or NaN factor turns every
    position into garbage, and one below 1 shortens the context, which is nearly always the scale (1 / factor)
    written in its place. 0 means no scaling.
    Evidence. `llama-model.cpp:load_hparams` (b11434): freq_scale = 1 / factor, 1 when the factor is 0.
    Example. llama.rope.scaling.factor is 0.25: 4 is meant?
    Fix. `gguftool fix --rope-scale-factor F`.
    """
    for name in ("rope.scaling.factor", "rope.scale_linear"):
        value = m.arch.raw(name)
        if not isinstance(value, float) or value == 0 or (math.isfinite(value) and value >= 1):
            continue
        key = f"{m.architecture}.{name}"
        inverse = 1 / value if math.isfinite(value) else 0.0
        meant = f": {inverse:g} is meant?" if 0 < value < 1 else ""
        fix = Fix(f"set it to {inverse:g}", (Set(key, inverse, "f32"),)) if meant else None
        yield found(
            f"{key} is {value:g}{meant}",
            where=f"field:{key}",
            severity=Severity.WARNING if meant else None,
            fix=fix or to_choose("set a factor", "--set", key),
        )


@rule(Severity.WARNING, known_arch=True, changes_run=False)
def rope_factor_double(m: Model, ctx: Context) -> Drafts:
    """The old factor key has no effect beside the new one.

    Why. llama.cpp reads `rope.scale_linear` only when `rope.scaling.factor` is absent.
    Evidence. `llama-model.cpp:load_hparams` (b11434).
    Example. llama.rope.scale_linear is 4 and rope.scaling.factor is 2: llama.cpp takes 2
    Fix. Deletes the old key, which nobody reads.
    """
    new, old = m.arch.raw("rope.scaling.factor"), m.arch.raw("rope.scale_linear")
    if isinstance(new, float) and isinstance(old, float) and not math.isclose(new, old, rel_tol=1e-6):
        key = f"{m.architecture}.rope.scale_linear"
        yield found(
            f"{key} is {old:g} and rope.scaling.factor is {new:g}: llama.cpp takes {new:g}",
            where=f"field:{key}",
            fix=Fix(f"delete {key}", (Delete(key),), safe=True),
        )


@rule(Severity.WARNING, known_arch=True)
def yarn_incomplete(m: Model, ctx: Context) -> Drafts:
    """YaRN needs a factor and the original context length.

    Why. Without a factor the type alone does nothing. Without the original length llama.cpp takes context_length,
    which is already the extended one, and blends the frequencies at the wrong place.
    Evidence. `llama-context.cpp` (b11434): n_ctx_orig_yarn = original_context_length or context_length; llama.cpp
    issues 10698 and 13312.
    Example. qwen2.rope.scaling.type is yarn, but rope.scaling.original_context_length is missing
    Fix. `gguftool fix --rope-scaling yarn --rope-scale-factor F`, which writes all four keys consistently.
    """
    if m.arch.raw("rope.scaling.type") != "yarn" or not m.arch.ropes:
        return
    arch = m.architecture
    factor = m.arch.float("rope.scaling.factor", 0.0)
    fix = Fix(
        "write all four keys consistently",
        command=edit("--rope-scaling", "yarn", "--rope-scale-factor", blank()),
    )
    if not factor:
        yield found(
            f"{arch}.rope.scaling.type is yarn, but rope.scaling.factor is missing: nothing is scaled",
            where=f"field:{arch}.rope.scaling.factor",
            fix=fix,
        )
    elif factor != 1 and m.arch.raw("rope.scaling.original_context_length") is None:
        yield found(
            f"{arch}.rope.scaling.type is yarn, but rope.scaling.original_context_length is missing: "
            "llama.cpp takes context_length",
            where=f"field:{arch}.rope.scaling.original_context_length",
            fix=fix,
        )


@rule(Severity.WARNING, known_arch=True)
def yarn_context_mismatch(m: Model, ctx: Context) -> Drafts:
    """The context length should be the original one times the YaRN factor.

    Why. A factor in the file does not raise any cap: llama-server cuts every slot at context_length, so with the
    original value there YaRN costs quality on short texts and gives nothing. A context length above the product
    is beyond what the scaling was made for. Any other value below it was lowered on purpose: told as info, as
    when the context wanted (`lint --ctx`) fits.
    Evidence. `server-context.cpp` (b11434) caps slots at the trained context; the converter writes
    max_position_embeddings as it is.
    Example. context_length is 32,768, YaRN reaches 131,072 (4 × 32,768)
    Fix. `gguftool fix --context-length N`.
    """
    if m.arch.raw("rope.scaling.type") != "yarn" or not m.arch.ropes:
        return
    arch, has = m.architecture, m.arch.context_length
    factor = m.arch.float("rope.scaling.factor", 0.0)
    origin = m.arch.int("rope.scaling.original_context_length")
    if not has or not origin or not math.isfinite(factor) or factor <= 1:
        return
    reach = round(origin * factor)
    if abs(has - reach) <= reach // 100:
        return
    short = has < reach
    lowered = short and (has != origin or (ctx.wish.context_length is not None and ctx.wish.context_length <= has))
    key = f"{arch}.context_length"
    text = f"{key} is {has:,}, YaRN reaches {reach:,} ({factor:g} × {origin:,})"
    yield found(
        f"{text}: llama-server caps every slot at {has:,}" if short else text,
        where=f"field:{key}",
        severity=Severity.INFO if lowered else None,
        fix=Fix(f"set the context length to {reach:,}", (Set(key, reach, "u32"),)),
        context_length=has,
        reach=reach,
    )


@rule(Severity.WARNING, known_arch=True)
def longrope_original_missing(m: Model, ctx: Context) -> Drafts:
    """LongRoPE needs the original context length.

    Why. llama.cpp takes the long factors when the context passes `rope.scaling.original_context_length`; without
    that key it compares with context_length itself, so the long factors are never used and long texts fall apart.
    Evidence. `llama-model.cpp:get_rope_factors` (b11434).
    Example. phi3 has rope_factors_long.weight, but rope.scaling.original_context_length is missing
    Fix. `gguftool fix --set rope.scaling.original_context_length=4096` with the value of `config.json`.
    """
    has_long = "rope_factors_long.weight" in m.tensors or "blk.0.rope_factors_long.weight" in m.tensors
    if not (m.arch.raw("rope.scaling.type") == "longrope" or has_long) or not m.arch.ropes:
        return
    key = f"{m.architecture}.rope.scaling.original_context_length"
    if key not in m:
        yield found(
            f"{key} is missing: the long RoPE factors are never used",
            where=f"field:{key}",
            fix=to_choose("set it to original_max_position_embeddings of config.json", "--set", key),
        )


LLAMA31_TOKENS = 128256
LLAMA31_CONTEXT = 131072
LLAMA31_BASE = 500000.0
_ADDED = 4096
"""Tokens that fine-tunes add to Llama's own."""
_NAMES = ("<|finetune_right_pad_id|>", "<|eom_id|>")
"""Tokens that came with Llama 3.1; in Llama 3 their places are reserved."""


@rule(Severity.WARNING, known_arch=True)
def rope_freqs_missing(m: Model, ctx: Context) -> Drafts:
    """Llama 3.1 and later scale RoPE by a tensor.

    Why. Llama 3.1, 3.2 and 3.3 have no scaling key: their converter writes the factors as rope_freqs.weight.
    Files made before July 2024, or by converters that skip it, load and lose quality above 8,192 tokens. A
    fine-tune keeps the need, with tokens added and with another context length.
    Evidence. llama.cpp issues 8650, 8676, 8761; `conversion/llama.py:generate_extra_tensors` (b11434). Known by the
    RoPE base of 500,000 and the tokens that came with Llama 3.1, or by Llama 3's vocabulary and a context of 131,072.
    Example. looks like Llama 3.1 (128,256 tokens, RoPE base 500,000), but rope_freqs.weight is missing
    Fix. Convert again with a current converter, or download a newer file.
    """
    if m.architecture not in ("llama", "deci", "llama-embed") or not m.tensors or m.missing_shards:
        return
    if "rope_freqs.weight" in m.tensors:
        return
    if m.arch.float("rope.freq_base", LLAMA31_BASE) != LLAMA31_BASE or m.arch.rope_freq_scale != 1:
        return  # another base or another scaling
    tokens = m.fields.get("tokenizer.ggml.tokens")
    count = tokens.count or 0 if tokens is not None else 0
    if not LLAMA31_TOKENS <= count <= LLAMA31_TOKENS + _ADDED:
        return
    if m.arch.context_length != LLAMA31_CONTEXT:
        vocab = vocabulary(m)
        if any(vocab.id_of(name) is None for name in _NAMES) or m.arch.raw("rope.freq_base") is None:
            return
    yield found(
        f"looks like Llama 3.1 or later ({count:,} tokens, RoPE base {LLAMA31_BASE:,.0f}), "
        "but rope_freqs.weight is missing: worse above 8,192 tokens",
        where="tensor:rope_freqs.weight",
    )
