"""Constants that contradict each other, or the tensors beside them."""

from __future__ import annotations

import math

from gguftool.edit.ops import Set
from gguftool.facts.conversion import constants
from gguftool.facts.data import load
from gguftool.facts.enums import numbers
from gguftool.facts.reads import reads
from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, rule, to_choose
from gguftool.lint.rules.constants.lost import GATING, chooses_with_bias
from gguftool.model import Model


def gating(m: Model) -> int | None:
    """The gating function that the graph takes; None where the key does not decide it."""
    if m.architecture not in load("load_maps.json")["gating"] or not m.arch.shape.complete:
        return None
    return m.arch.shape.number(GATING)


@rule(Severity.ERROR, known_arch=True)
def expert_gating_bias(m: Model, ctx: Context) -> Drafts:
    """A bias of expert choice needs the gating function that it was trained with.

    Why. DeepSeek V3, R1, Kimi K2 and their kin score experts with sigmoid and correct the choice by a bias. Where the
    key of the gating function is missing, llama.cpp takes softmax, as DeepSeek V2 had it: scores of another size meet
    the bias, and the wrong experts answer. On architectures where it takes none, it aborts.
    Evidence. `models/deepseek2.cpp:load_arch_hparams` (b11434) takes softmax for a file without the key; key and
    bias came with the same change (llama.cpp pull request 11049). `llama-graph.cpp:build_moe_ffn` aborts for none.
    Example. blk.3.exp_probs_b.bias corrects the choice of experts, but deepseek2.expert_gating_func is missing:
    llama.cpp takes softmax
    Fix. Writes sigmoid (2), which all models with such a bias have; without one, the function of `config.json`.
    """
    tensor, func, key = chooses_with_bias(m), gating(m), f"{m.architecture}.{GATING}"
    known, here = numbers(GATING), m.arch.raw(GATING)
    if func is None or not m.arch.int("expert_count") or (key not in m and reads(m.architecture)[GATING].required):
        return  # required-key-missing tells a key that llama.cpp cannot go without
    sigmoid = known["sigmoid"]
    fix = Fix(f"write sigmoid ({sigmoid})", (Set(key, sigmoid, "u32"),))
    absent = "is missing" if key not in m else "is 0"
    corrects = f"{tensor} corrects the choice of experts, but "
    if func <= 0:
        yield found(
            f"{corrects if tensor else ''}{key} {absent}: llama.cpp aborts when it makes the graph",
            where=f"field:{key}",
            fix=fix if tensor else to_choose("write the one of config.json: softmax 1, sigmoid 2", "--set", key),
            llama_cpp="fatal error",
        )
    elif tensor is not None and func == known["softmax"] and not here:
        yield found(f"{corrects}{key} {absent}: llama.cpp takes softmax", where=f"field:{key}", fix=fix)
    elif tensor is not None and func == known["softmax"]:
        text = f"{corrects}{key} is softmax; models with such a bias have sigmoid"
        yield found(text, where=f"field:{key}", fix=fix, severity=Severity.WARNING)


@rule(Severity.WARNING, known_arch=True)
def expert_weights_raw(m: Model, ctx: Context) -> Drafts:
    """Weights of experts that sigmoid scores should be normalised.

    Why. Sigmoid scores do not add up to 1. Models that choose by sigmoid and a bias divide the weights of the chosen
    experts by their sum (norm_topk_prob); without the key llama.cpp does not.
    Evidence. `llama-graph.cpp:build_moe_ffn` (b11434): norm_w; config.json of DeepSeek V3, Kimi K2, GLM-4.7-Flash.
    Example. deepseek2.expert_weights_norm is missing: the weights of experts that sigmoid scores are not normalised
    Fix. Writes true, which norm_topk_prob of `config.json` confirms.
    """
    key = f"{m.architecture}.expert_weights_norm"
    if "expert_weights_norm" not in reads(m.architecture) or "expert_weights_norm" in constants(m.architecture):
        return
    if m.arch.raw("expert_weights_norm") is True or chooses_with_bias(m) is None:
        return
    if gating(m) != numbers(GATING)["sigmoid"]:
        return
    state = "false" if key in m else "missing"
    # What the converter wrote is not written over on a suspicion.
    way = None if key in m else Fix("write true, if config.json has norm_topk_prob true", (Set(key, True, "bool"),))
    yield found(
        f"{key} is {state}: the weights of experts that sigmoid scores are not normalised",
        where=f"field:{key}",
        severity=Severity.INFO if key in m else None,
        fix=way,
    )


@rule(Severity.WARNING, known_arch=True)
def longrope_attention_factor(m: Model, ctx: Context) -> Drafts:
    """Phi's LongRoPE needs the factor of its attention.

    Why. Phi-3 and Phi-4-mini models for 128k multiply their rotated keys and queries by a factor that follows from how
    far the context was stretched. Without the key llama.cpp takes 1: short answers suffer as well.
    Evidence. `conversion/phi.py:generate_extra_tensors` (b11434) writes it together with the factors;
    `llama-context.cpp` multiplies by it.
    Example. phi3 has rope_factors_long.weight, but rope.scaling.attn_factor is missing: llama.cpp takes 1, it is
    1.19024 for 131,072 of 4,096 tokens
    Fix. Writes the factor that the two context lengths come to.
    """
    arch, key = m.architecture, f"{m.architecture}.rope.scaling.attn_factor"
    if arch not in ("phi3", "phimoe") or key in m:
        return
    if "rope_factors_long.weight" not in m.tensors and "blk.0.rope_factors_long.weight" not in m.tensors:
        return
    reach, origin = m.arch.context_length or 0, m.arch.int("rope.scaling.original_context_length")
    if origin < 2 or reach <= origin:
        return
    factor = math.sqrt(1 + math.log(reach / origin) / math.log(origin))
    yield found(
        f"{arch} has rope_factors_long.weight, but rope.scaling.attn_factor is missing: llama.cpp takes 1, "
        f"it is {factor:g} for {reach:,} of {origin:,} tokens",
        where=f"field:{key}",
        fix=Fix(f"write {factor:g}", (Set(key, factor, "f32"),)),
        factor=factor,
    )
