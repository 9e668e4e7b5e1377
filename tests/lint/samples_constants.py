"""Constants: lost, odd, or against each other."""

from __future__ import annotations

from tests.build import GGUF
from tests.lint.samples import Sample, ready
from tests.lint.samples_rope import keys
from tests.lint.samples_source import against, glm4


def deepseek(**changes: object) -> GGUF:
    """A DeepSeek V3 whose experts are chosen with a bias."""
    values: dict[str, object] = {
        "block_count": 61, "context_length": 163840, "embedding_length": 64, "attention__head_count": 4,
        "attention__kv_lora_rank": 16, "attention__q_lora_rank": 16, "expert_count": 8, "expert_used_count": 2,
        "expert_shared_count": 1, "expert_feed_forward_length": 32, "attention__layer_norm_rms_epsilon": 1e-6,
        "expert_weights_scale": 2.5, "expert_weights_norm": True, "expert_gating_func": 2, "rope__dimension_count": 64,
        "rope__freq_base": 10000.0, "rope__scaling__type": "yarn", "rope__scaling__factor": 40.0,
        "rope__scaling__original_context_length": 4096, "rope__scaling__yarn_log_multiplier": 0.1, **changes,
    }  # fmt: skip
    g = keys("deepseek2", **{k: v for k, v in values.items() if v is not None})
    return g.tensor("blk.3.exp_probs_b.bias", (8,))


def granite(**changes: object) -> GGUF:
    values: dict[str, object] = {
        "block_count": 1, "logit_scale": 8.0, "embedding_scale": 12.0, "residual_scale": 0.22,
        "attention__scale": 0.015625, "attention__layer_norm_rms_epsilon": 1e-5, "rope__dimension_count": 16,
        **changes,
    }  # fmt: skip
    return keys("granite", **{k: v for k, v in values.items() if v is not None})


def dots(gating: int | None) -> GGUF:
    more = {} if gating is None else {"expert_gating_func": gating}
    return keys(
        "dots1", block_count=2, embedding_length=64, attention__head_count=4, expert_count=4, expert_used_count=2,
        expert_shared_count=1, expert_feed_forward_length=32, leading_dense_block_count=1,
        attention__layer_norm_rms_epsilon=1e-6, **more,
    )  # fmt: skip


def phi3(factor: float | None, context: int = 131072) -> GGUF:
    """Phi-3-mini-128k."""
    more = {} if factor is None else {"rope__scaling__attn_factor": factor}
    g = keys("phi3", context_length=context, block_count=1, rope__scaling__original_context_length=4096, **more)
    return g.tensor("rope_factors_long.weight", (48,)).tensor("rope_factors_short.weight", (48,))


def mistral3(fast: float, slow: float) -> GGUF:
    return keys(
        "mistral3", block_count=1, rope__scaling__yarn_beta_fast=fast, rope__scaling__yarn_beta_slow=slow,
        rope__scaling__type="yarn", rope__scaling__factor=16.0,
    )  # fmt: skip


COMMAND_R = keys("command-r", block_count=1, rope__freq_base=8e6, logit_scale=0.0625)
FULL = granite()
SAMPLES = [
    # Cohere's scale of logits, whose value differs from model to model
    Sample("constant-missing", keys("command-r", block_count=1), "field:command-r.logit_scale",
           "logit_scale of config.json", severity="warning", fix="command-r.logit_scale=…", silent=COMMAND_R),
    # llama.cpp issue 7118
    Sample("constant-missing", deepseek(rope__scaling__yarn_log_multiplier=None),
           "field:deepseek2.rope.scaling.yarn_log_multiplier", "0.0707 for V2, 0.1 for V3", silent=deepseek()),
    Sample("constant-missing", deepseek(expert_weights_scale=None), "field:deepseek2.expert_weights_scale",
           "2.5 for V3", silent=deepseek(rope__scaling__type=None, rope__scaling__yarn_log_multiplier=None)),
    Sample("constant-missing", granite(embedding_scale=None), "field:granite.embedding_scale", "embedding_multiplier",
           silent=FULL),
    Sample("constant-missing", granite(residual_scale=0.0), "field:granite.residual_scale", "is 0, as if", silent=FULL),
    Sample("constant-missing", granite(attention__scale=None), "field:granite.attention.scale", "1/√(head size)",
           silent=FULL),
    Sample("constant-missing", glm4(), "field:glm4.rope.dimension_count", "rotates whole heads",
           silent=glm4(rope__dimension_count=8)),
    # llama.cpp takes what Gemma 2, Grok 1 and MiniCPM have; with --against the rule of the source tells it
    Sample("constant-missing", keys("gpt-oss", block_count=1), "field:gpt-oss.rope.scaling.type", "yarn",
           fix="--set gpt-oss.rope.scaling.type=yarn", silent=keys("gemma2", block_count=1)),
    Sample("constant-missing", keys("arwkv7", block_count=1, attention__layer_norm_rms_epsilon=1e-6),
           "field:arwkv7.token_shift_count", "writes 1 there", fix="--set arwkv7.token_shift_count=1",
           silent=keys("minicpm", block_count=1)),
    Sample("constant-missing", granite(embedding_scale=None), "field:granite.embedding_scale",
           context=against(), silent=FULL),
    Sample("constant-other", keys("deepseek", block_count=1, expert_weights_scale=16.0),
           "field:deepseek.expert_weights_scale", silent=keys("deepseek", block_count=1, expert_weights_scale=1.0)),
    # linear without a factor is what none is
    Sample("constant-other", keys("arwkv7", block_count=1, token_shift_count=2), "field:arwkv7.token_shift_count",
           "is 2, every conversion writes 1", severity="warning", fix="--set arwkv7.token_shift_count=1",
           silent=keys("command-r", block_count=1, rope__scaling__type="linear")),
    Sample("expert-gating-bias", deepseek(expert_gating_func=None), "field:deepseek2.expert_gating_func",
           "llama.cpp takes softmax", severity="error", fix="--set deepseek2.expert_gating_func=2", safe=False,
           silent=deepseek()),
    Sample("expert-gating-bias", deepseek(expert_gating_func=1), "field:deepseek2.expert_gating_func", "is softmax",
           severity="warning", silent=deepseek(expert_gating_func=None).drop_tensor("blk.3.exp_probs_b.bias")),
    # where llama.cpp takes none, it aborts
    Sample("expert-gating-bias", dots(None), "field:dots1.expert_gating_func", "is missing: llama.cpp aborts",
           severity="error", fix="dots1.expert_gating_func=…", silent=dots(1)),
    Sample("expert-gating-bias", dots(0).tensor("blk.1.exp_probs_b.bias", (4,)), "field:dots1.expert_gating_func",
           "is 0: llama.cpp aborts", fix="--set dots1.expert_gating_func=2", silent=dots(2)),
    # Ernie corrects softmax scores
    Sample("expert-gating-bias", deepseek(expert_gating_func=None),
           silent=keys("ernie4_5-moe", block_count=2, expert_count=8).tensor("blk.1.exp_probs_b.bias", (8,))),
    Sample("expert-weights-raw", deepseek(expert_weights_norm=None), "field:deepseek2.expert_weights_norm",
           "is missing", severity="warning", fix="--set deepseek2.expert_weights_norm=true", silent=deepseek()),
    Sample("expert-weights-raw", deepseek(expert_weights_norm=False), "field:deepseek2.expert_weights_norm",
           "is false", severity="info", silent=deepseek(expert_weights_norm=None, expert_gating_func=1)),
    # the factor of the published Phi-3-mini-128k
    Sample("longrope-attention-factor", phi3(None), "field:phi3.rope.scaling.attn_factor", "1.19024",
           severity="warning", fix="--set phi3.rope.scaling.attn_factor=1.190238", silent=phi3(1.190238)),
    Sample("longrope-attention-factor", phi3(None), silent=phi3(None, context=4096)),
    Sample("constant-odd", granite(logit_scale=0.0), "field:granite.logit_scale", "is 0", severity="warning",
           silent=FULL),
    Sample("constant-odd", granite(residual_scale=-0.22), "field:granite.residual_scale", "-0.22", silent=FULL),
    Sample("constant-odd", keys("gemma2", block_count=1, attn_logit_softcapping=0.5),
           "field:gemma2.attn_logit_softcapping", silent=keys("gemma2", block_count=1, attn_logit_softcapping=50.0)),
    Sample("constant-odd", deepseek(expert_weights_scale=250.0), "field:deepseek2.expert_weights_scale",
           silent=keys("gemma3", block_count=1, final_logit_softcapping=0.0)),
    Sample("constant-odd", ready().kv("llama.rope.scaling.attn_factor", -1.0), "field:llama.rope.scaling.attn_factor",
           silent=ready().kv("llama.rope.scaling.attn_factor", 1.19)),
    Sample("yarn-betas", mistral3(1.0, 32.0), "field:mistral3.rope.scaling.yarn_beta_fast", "exchanged",
           severity="warning", silent=mistral3(32.0, 1.0)),
]  # fmt: skip
