"""Names of llama.cpp in the language of the load map."""

from __future__ import annotations

CONSTANTS = {
    "NULL": "None", "nullptr": "None", "true": "True", "false": "False", "TENSOR_NOT_REQUIRED": "OPTIONAL",
    "TENSOR_DUPLICATED": "DUPLICATED", "TENSOR_SKIP": "SKIP", "TENSOR_ALLOW_RESHAPE": "RESHAPE",
    "TENSOR_READ_LAZY": "0", "TENSOR_SKIP_IF_VIRTUAL": "0", "INT32_MAX": str(2**31 - 1), "LLAMA_MAX_LAYERS": "512",
    "LLAMA_MAX_PLE_NGRAM": "8", "LLAMA_MAX_PLE_HEADS": "64", "LLAMA_MAX_EXPERTS": "1024",
    "LLAMA_POOLING_TYPE_UNSPECIFIED": "-1",
}  # fmt: skip
for _prefix, _names, _text in (
    ("LLAMA_EXPERT_GATING_FUNC_TYPE_", "NONE SOFTMAX SIGMOID SOFTMAX_WEIGHT SQRT_SOFTPLUS", False),
    ("LLAMA_POOLING_TYPE_", "NONE MEAN CLS LAST RANK", False),
    ("LLAMA_SWA_TYPE_", "NONE STANDARD CHUNKED SYMMETRIC", True),
    ("LLAMA_ROPE_SCALING_TYPE_", "NONE LINEAR YARN LONGROPE UNSPECIFIED", True),
    ("LLAMA_NON_CAUSAL_TYPE_", "ALL SWA_ONLY SWA_FULL", True),
):
    for _i, _name in enumerate(_names.split()):
        CONSTANTS[_prefix + _name] = repr(_name.lower()) if _text else str(_i)

METHODS = frozenset(
    "n_head n_head_kv n_ff n_ff_exp n_expert_used n_expert_used_max n_gqa n_rot n_embd_inp n_embd_inp_enc n_embd_out "
    "n_embd_head_k n_embd_head_v n_embd_k_gqa n_embd_v_gqa n_embd_k_gqa_max n_embd_v_gqa_max is_recr is_swa "
    "is_swa_any is_mla is_indexer_full n_embd_head_k_mla n_embd_head_v_mla has_kv has_rope n_layer use_mrope is_ple "
    "n_embd_r n_embd_s".split()
)
"""Methods of `llama_hparams` that the evaluator has."""
MODEL_TENSORS = frozenset(
    "output output_norm output_norm_b output_b tok_embd tok_norm pos_embd type_embd cls cls_b cls_out cls_out_b "
    "cls_norm dense_2_out_layers dense_3_out_layers per_layer_tok_embd output_norm_enc output_s".split()
)
"""Places of tensors outside the layers."""
KEEP = frozenset(
    "h." + name
    for name in (
        "n_swa swa_type is_swa_impl n_rot_full n_rot_swa rope_sections expert_gating_func f_norm_eps f_norm_rms_eps "
        "f_norm_group_eps causal_attn n_expert_shared rope_finetuned rope_pattern n_layer_kv_from_start "
        "n_deepstack_layers f_max_alibi_bias pooling_type wkv_head_size n_no_rope_layer_step use_par_res "
        "token_shift_count f_attn_temp_scale n_attn_temp_floor_scale dec_n_layer is_recr_impl ssm_d_conv ssm_d_inner "
        "ssm_d_state ssm_dt_rank ssm_n_group n_layer_dense_lead hrm_prefix_lm n_shortconv_l_cache router_layer "
        "n_head_arr n_head_kv_arr n_ff_arr n_layer_all n_layer_nextn indexer_n_head indexer_head_size "
        "n_rel_attn_bkts n_embd_head_v_full n_embd_head_k_full n_embd_inp_impl n_embd_out_impl n_embd_inp_enc_impl "
        "is_indexer_full_impl is_ple_impl n_embd_head_k_mla_impl n_embd_head_v_mla_impl n_expert_used_arr "
        "n_ff_exp_arr n_embd_head_la n_embd_head_kda rope_freq_base_train rope_freq_scale_train n_embd_head_k_swa "
        "n_embd_head_v_swa n_embd_per_layer rope_scaling_type_train n_ctx_orig_yarn n_embd n_ctx_train n_expert "
        "n_expert_groups n_group_used n_cls_out ple_n_heads ple_conv_kernel ple_ngram_size dsv4_hc_mult "
        "rope_freq_base_train_swa indexer_top_k indexer_kpool indexer_kpool_row"
    ).split()
)
"""Hyperparameters the evaluator itself looks at; others are kept only where a row uses them."""
TYPE_WORDS = frozenset(
    "const auto int int64_t uint32_t int32_t bool float std::string size_t uint64_t static double llama_token struct "
    "ggml_tensor".split()
)
NUMBERS = {"int", "int64_t", "uint32_t", "bool", "float"}
SILENT = {"GGML_UNUSED", "LLAMA_LOG_INFO", "LLAMA_LOG_DEBUG"}
