"""Names of tensors: as the converter's own map has them."""

from __future__ import annotations

import pytest

from gguftool.facts.data import load
from gguftool.facts.tensornames import called, only_by_map

MODELS = {
    "LlamaForCausalLM": "LLAMA",
    "Qwen2ForCausalLM": "QWEN2",
    "Qwen3MoeForCausalLM": "QWEN3MOE",
    "Gemma3ForCausalLM": "GEMMA3",
    "Phi3ForCausalLM": "PHI3",
    "Olmo2ForCausalLM": "OLMO2",
    "Starcoder2ForCausalLM": "STARCODER2",
}


@pytest.mark.parametrize("model", MODELS)
def test_every_name_of_the_map_is_known(model: str) -> None:
    """The package gguf is another release: it may lack names, and has none that this one has lost."""
    gguf = pytest.importorskip("gguf")
    theirs = gguf.get_tensor_name_map(gguf.MODEL_ARCH[MODELS[model]], 2).mapping
    assert len(theirs) > 50
    for name, (_, own) in theirs.items():
        assert called(model, name) == own.replace("blk.0.", "blk.{bid}.").replace("blk.1.", "blk.{bid}."), name
        assert called(model, name + ".bias") == called(model, name) + ".bias" or called(model, name + ".bias") is None


@pytest.mark.parametrize(
    ("model", "name", "own"),
    [
        ("LlamaForCausalLM", "model.layers.17.mlp.up_proj.weight", "blk.{bid}.ffn_up.weight"),
        ("LlamaForCausalLM", "model.embed_tokens.weight", "token_embd.weight"),
        ("LlamaForCausalLM", "v_head.summary.weight", None),
        ("LlamaForCausalLM", "model.layers.0.self_attn.q_proj.lora_A.weight", None),
        ("Qwen2ForCausalLM", "model.layers.0.self_attn.q_proj.bias", "blk.{bid}.attn_q.bias"),
        ("Qwen2ForCausalLM", "model.layers.0.self_attn.q_norm.weight", None),
        ("NoModelForCausalLM", "model.embed_tokens.weight", None),
    ],
)
def test_names(model: str, name: str, own: str | None) -> None:
    assert called(model, name) == own


def test_models_that_handle_names_themselves_are_not_judged_by_the_map() -> None:
    assert only_by_map("LlamaForCausalLM")
    assert only_by_map("Phi3ForCausalLM")
    assert not only_by_map("DeepseekV3ForCausalLM")
    assert not only_by_map("BertModel")
    assert set(load("tensor_names.json")["plain"]) <= set(load("tensor_names.json")["models"])
