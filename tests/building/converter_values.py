"""Values for the names that configurations have: what the classes of the converter accept, not what any model has."""

from __future__ import annotations

import re
from typing import Any

LAYERS = 6
_NUMBERS = {
    "hidden_size": 256, "n_embd": 256, "d_model": 256, "num_attention_heads": 4, "n_head": 4, "n_heads": 4,
    "num_heads": 4, "head_dim": 64, "num_key_value_heads": 2, "num_hidden_layers": LAYERS, "n_layers": LAYERS,
    "n_layer": LAYERS, "num_layers": LAYERS, "max_position_embeddings": 2048, "original_max_position_embeddings": 512,
    "vocab_size": 400, "qk_rope_head_dim": 32, "qk_nope_head_dim": 32, "v_head_dim": 64, "kv_lora_rank": 64,
    "moe_intermediate_size": 64, "model_max_length": 4096, "swa_head_dim": 64, "swa_num_attention_heads": 4,
    "swa_v_head_dim": 64, "swa_num_key_value_heads": 2, "rotary_dim": 32, "attn_rotary_emb": 32, "num_local_experts": 4,
    "num_loops": 2, "decoder_start_token_id": 0, "sliding_window_pattern": 3, "factor": 4.0, "mscale_all_dim": 0.707,
    "partial_rotary_factor": 0.5, "rotary_pct": 0.5, "beta_fast": 32.0, "beta_slow": 1.0,
    "layernorm_full_attention_beta": 1.0, "layernorm_linear_attention_beta": 1.0, "layernorm_mlp_beta": 1.0,
}  # fmt: skip
_OTHERS: dict[str, Any] = {
    "scoring_func": "sigmoid", "hidden_act": "silu", "activation_function": "silu", "hidden_activation": "gelu",
    "topk_method": "noaux_tc", "norm_topk_prob": True, "wkv_has_gate": True, "mla_use_nope": True,
    "layer_types": ["sliding_attention", "full_attention"] * (LAYERS // 2),
    "mlp_layer_types": ["dense"] + ["sparse"] * (LAYERS - 1),
    "compress_ratios": [1] * LAYERS, "indexer_types": ["full"] * LAYERS, "swiglu_limits": [1.0] * LAYERS,
    "moe_layer_freq": [0] + [1] * 5, "moe_topk": [2] * LAYERS, "num_shared_expert": [1] * LAYERS,
    "hybrid_layer_pattern": [0, 1] * (LAYERS // 2), "sliding_window_layout": [0, 1] * (LAYERS // 2),
    "no_rope_layers": [1, 0] * (LAYERS // 2), "activation_sparsity_pattern": [0.5] * LAYERS, "ple_layer_ids": [],
    "long_factor": [1.0] * 16, "short_factor": [1.0] * 16, "xdrope_section": [4] * 4, "dflash_config": {},
    "attn_config": {"kv_n_heads": 2, "rope_theta": 5e5, "clip_qkv": 8.0, "alibi": True, "alibi_bias_max": 8},
    "ffn_config": {"ffn_hidden_size": 128, "moe_num_experts": 4, "moe_top_k": 2},
    "linear_attn_config": {"full_attn_layers": [2, 4], "head_dim": 64, "short_conv_kernel_size": 4, "num_heads": 4},
}  # fmt: skip
_NONE = frozenset(
    "rope_type type model_type per_layer_config decision thinker_config vision_config architectures is_causal yarn "
    "mrope_section is_moe rope_parameters rope_scaling full_attention sliding_attention score_function score_func "
    "moe_router_activation moe_router_activation_func expert_selection_fn spatial_target_layers "
    "deepstack_layer_map".split()
)
"""Names that one class at most has, or that the cases set themselves."""


def value(name: str) -> Any:
    """A value for a name of `config.json`; None for one that should not be there."""
    if name in _NONE:
        return None
    if name in _NUMBERS or name in _OTHERS:
        return _NUMBERS.get(name, _OTHERS.get(name))
    if re.search("theta|base", name):
        return 12345.0
    if "eps" in name:
        return 1e-5
    if re.search("scale|factor|multiplier|softcap|alpha|beta|scaling|gain|clamp|cap", name):
        return 1.5
    return True if re.search("norm$|^use|route_norm|renorm|flag|safe|prefix|skip|has", name) else 4
