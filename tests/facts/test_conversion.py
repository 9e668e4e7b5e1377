"""What the converter makes of published configurations, against the keys of the published files."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gguftool.facts.arch import names
from gguftool.facts.conversion import constants, default, rope_of, same, written
from gguftool.facts.data import load
from gguftool.facts.formula import NotTold, Scope, evaluate

# Numbers of config.json as published, and of the files as llama.cpp printed them in public reports.
DEEPSEEK_V3 = {
    "hidden_size": 7168, "num_attention_heads": 128, "num_hidden_layers": 61, "n_routed_experts": 256,
    "n_shared_experts": 1, "num_experts_per_tok": 8, "routed_scaling_factor": 2.5, "norm_topk_prob": True,
    "scoring_func": "sigmoid", "n_group": 8, "topk_group": 4, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-6,
    "rope_theta": 10000, "rope_scaling": {
        "beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096, "type": "yarn",
    },
}  # fmt: skip
GRANITE = {
    "hidden_size": 4096, "num_attention_heads": 32, "attention_multiplier": 0.0078125, "embedding_multiplier": 12,
    "residual_multiplier": 0.22, "logits_scaling": 16.0, "rms_norm_eps": 1e-5, "rope_theta": 10000000.0,
}  # fmt: skip
PHI3 = {
    "hidden_size": 3072, "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 131072,
    "original_max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "sliding_window": 262144,
    "rope_scaling": {"long_factor": [1.0] * 48, "short_factor": [1.0] * 48, "type": "longrope"},
}  # fmt: skip
GPT_OSS = {
    "num_experts_per_tok": 4, "rope_theta": 150000, "sliding_window": 128, "intermediate_size": 2880,
    "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096,
                     "rope_type": "yarn", "truncate": False},
}  # fmt: skip
GLM45 = {
    "hidden_size": 5120, "head_dim": 128, "num_attention_heads": 96, "partial_rotary_factor": 0.5,
    "n_routed_experts": 160, "num_experts_per_tok": 8, "routed_scaling_factor": 2.5, "norm_topk_prob": True,
}  # fmt: skip
PUBLISHED: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    # ggml-org/llama.cpp issue 11141
    ("deepseek2", "DeepseekV3ForCausalLM", DEEPSEEK_V3, {
        "expert_used_count": 8, "expert_weights_scale": 2.5, "expert_weights_norm": True, "expert_gating_func": 2,
        "rope.dimension_count": 64, "rope.scaling.type": "yarn", "rope.scaling.factor": 40.0,
        "rope.scaling.original_context_length": 4096, "rope.scaling.yarn_log_multiplier": 0.1,
        "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 10000.0}),
    # gpustack/llama-box issue 17: Granite 3.1 8B
    ("granite", "GraniteForCausalLM", GRANITE, {
        "attention.scale": 0.0078125, "embedding_scale": 12.0, "residual_scale": 0.22, "logit_scale": 16.0,
        "rope.dimension_count": 128, "rope.freq_base": 10000000.0}),
    # Phi-3-mini-128k-instruct; partial_rotary_factor is not in its config.json
    ("phi3", "Phi3ForCausalLM", {**PHI3, "partial_rotary_factor": 1.0}, {
        "rope.scaling.attn_factor": pytest.approx(1.190238, rel=1e-6), "rope.dimension_count": 96,
        "rope.scaling.original_context_length": 4096}),
    ("gpt-oss", "GptOssForCausalLM", GPT_OSS, {
        "rope.scaling.type": "yarn", "rope.scaling.factor": 32.0, "rope.scaling.original_context_length": 4096,
        "attention.sliding_window": 128, "expert_used_count": 4}),
    ("glm4moe", "Glm4MoeForCausalLM", GLM45, {
        "expert_gating_func": 2, "expert_weights_scale": 2.5, "expert_weights_norm": True,
        "rope.dimension_count": 64}),
    ("command-r", "CohereForCausalLM", {"logit_scale": 0.0625, "layer_norm_eps": 1e-5}, {
        "logit_scale": 0.0625, "attention.layer_norm_epsilon": 1e-5, "rope.scaling.type": "none"}),
    ("minicpm", "MiniCPMForCausalLM", {"scale_emb": 12, "scale_depth": 1.4, "num_hidden_layers": 40,
                                       "hidden_size": 2304, "dim_model_base": 256}, {
        "embedding_scale": 12.0, "residual_scale": pytest.approx(1.4 / 40**0.5), "logit_scale": 9.0}),
    ("bert", "BertModel", {"layer_norm_eps": 1e-12}, {
        "attention.causal": False, "attention.layer_norm_epsilon": 1e-12}),
]  # fmt: skip


@pytest.mark.parametrize(("arch", "name", "config", "keys"), PUBLISHED, ids=[p[0] for p in PUBLISHED])
def test_published_configurations_come_to_the_published_keys(
    arch: str, name: str, config: dict[str, Any], keys: dict[str, Any]
) -> None:
    found = {k: w.value for k, w in written(arch, name, config, 61).items()}
    assert {k: found.get(k) for k in keys} == keys


def test_what_is_not_told_is_left_out() -> None:
    """The configuration classes of transformers fill up what config.json lacks: the converter sees another value."""
    without = {k: v for k, v in DEEPSEEK_V3.items() if k not in ("routed_scaling_factor", "rope_scaling")}
    found = written("deepseek2", "DeepseekV3ForCausalLM", without, 61)
    assert not {"expert_weights_scale", "rope.scaling.type", "rope.scaling.yarn_log_multiplier"} & set(found)
    assert "rope.dimension_count" not in written("phi3", "Phi3ForCausalLM", PHI3, 32)
    assert written("no-such", "X", {}, 1) == {}


def test_the_table() -> None:
    assert constants("command-r")["logit_scale"].lost
    assert constants("bert")["attention.causal"].value is False
    assert constants("arwkv7")["token_shift_count"].value == 1
    assert constants("arwkv7")["token_shift_count"].default == 2
    # llama.cpp takes what these have: Gemma 2, Grok 1, MiniCPM, whole heads
    for arch, key in [("gemma2", "attn_logit_softcapping"), ("grok", "logit_scale"), ("minicpm", "embedding_scale"),
                      ("llama", "rope.dimension_count"), ("glm4moe", "expert_gating_func")]:  # fmt: skip
        c = constants(arch).get(key)
        assert c is None or not c.lost, (arch, key)
    assert constants("minicpm")["embedding_scale"].since == "2025-01"
    assert default("gemma3", "final_logit_softcapping") == 0.0
    assert default("llama", "attention.causal") is True
    assert constants("unheard-of") == {}


def test_it_speaks_of_architectures_and_expressions_that_there_are() -> None:
    tables = load("constants.json")
    assert set(tables["constants"]) <= set(names())
    for row in load("conversions.json")["rows"]:
        for text in row[2:]:
            try:
                if text:
                    evaluate(text, Scope({"config": {}, "rope": {}, "layers": 2}))
            except NotTold:
                pass  # every other error is one of this program


def test_same() -> None:
    assert same("logit_scale", 0.0, 1.0)
    assert not same("attention.scale", 0.0, 1.0)
    assert same("rope.scaling.type", "none", "linear")
    assert not same("expert_weights_norm", False, True)


def test_rope_parameters_are_completed_as_the_converter_does() -> None:
    assert rope_of({"rope_theta": 5.0, "rope_scaling": {"type": "yarn"}}) == {
        "type": "yarn",
        "rope_type": "yarn",
        "rope_theta": 5.0,
    }
    assert rope_of({"rope_local_base_freq": 7.0})["sliding_attention"] == {"rope_theta": 7.0}
    layered = {"full_attention": {"rope_theta": 1.0}}
    assert rope_of({"rope_parameters": layered, "rope_theta": 2.0}) == layered
    assert rope_of({"rope_scaling": "yarn"}) == {}


@pytest.mark.parametrize("text", ["[0] * config['n']", "9 ** config['n']", "[i for i in range(config['n'])]"])
def test_no_configuration_makes_it_grow(text: str) -> None:
    with pytest.raises(NotTold):
        evaluate(text, Scope({"config": {"n": 10**9}}))


JUNK = (None, True, -1, 0, 3, 2**63, 1.5, float("nan"), "x", "", [], [1, "x"], {}, {"factor": []}, [[]])


def test_hostile_configurations_are_at_most_not_told() -> None:
    random.seed(4)
    keys = sorted({n for row in load("conversions.json")["rows"] for t in row[2:] if t for n in _words(t)})
    for arch in load("conversions.json")["classes"]:
        for _ in range(6):
            config: dict[str, Any] = {k: random.choice(JUNK) for k in keys if random.random() < 0.7}
            config["rope_scaling"] = {k: random.choice(JUNK) for k in keys if random.random() < 0.5}
            for w in written(arch, "", config, 2).values():
                assert w.type


def _words(text: str) -> set[str]:
    import ast

    return {n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
