"""Places of llama.cpp's model sources that the small parser does not read as they stand, in words it does read."""

from __future__ import annotations

import re

_CONV = (
    r'\1 = create_tensor(tn(\2, "weight", i), {d_conv, 1, d_inner, 1}, TENSOR_NOT_REQUIRED); '
    r'if (\1 == nullptr) { \1 = create_tensor(tn(\2, "weight", i), {d_conv, 1, d_inner}, 0); }'
)
_DEEPSTACK = (
    "hparams.n_deepstack_layers = unique_count(hparams.deepstack_mapping_arr); "
    "if (largest(hparams.deepstack_mapping_arr) > hparams.n_deepstack_layers) { throw std::runtime_error(format("
    '"Invalid deepstack index: %d > %d", largest(hparams.deepstack_mapping_arr), hparams.n_deepstack_layers)); }'
)
_NONZERO = (
    r'if (\2 == 0) { throw std::runtime_error(format("%s must be greater than zero, got %u", ml.llm_kv(\1), \2)); }'
)
_LENGTH = (
    r"{ uint32_t n_arr = 0; ml.get_arr_n(\1, n_arr, true); if (n_arr < \2) { throw std::runtime_error(format("
    r'"%s has %u entries, but at least %u are required", ml.llm_kv(\1), n_arr, \2)); } }'
)


def _norm(number: str) -> str:
    """A weight and a bias of one width, of a numbered layer or not."""
    return "".join(rf'create_tensor(tn(\1, "{part}"{number}), {{\2}}, 0); ' for part in ("weight", "bias"))


_ATTENTION = " ".join(
    f'create_tensor(tn(\\{i}, "{part}", il), {shape}, 0);'
    for i in (1, 2, 3, 4)
    for part, shape in (("weight", "{n_embd_h, n_embd_h}"), ("bias", "{n_embd_h}"))
)
_PLE = 'ml.get_weight("per_layer_token_embd.weight")'
PATCHES = (
    # a lambda that takes a tensor id
    (r"auto conv = \[&\]\(llm_tensor tid\) \{.*?\n            \};", ""),
    (r"(layer\.\w+) = conv\((LLM_TENSOR_\w+)\);", _CONV),
    # a declaration inside a condition
    (
        r"if \(const auto is_swa = (ml\.get_key\(.*?\)); is_swa && (hparams.n_swa > 0)\)",
        r"const auto found_swa = \1; if (found_swa && \2)",
    ),
    (
        r"if \(const auto \* ple_w = ml.get_weight\(ple_name(?:\.c_str\(\))?\)\) \{",
        f"const auto * ple_w = {_PLE}; if (ple_w != nullptr) {{",
    ),
    (
        r"const auto & ple_w = ml\.require_weight\(ple_name\.c_str\(\)\);",
        f"const auto * ple_w = {_PLE}; if (ple_w == nullptr) {{ throw std::runtime_error("
        "\"require_weight: tensor 'per_layer_token_embd.weight' not found\"); }",
    ),
    (r"\bple_w\.tensor->", "ple_w->tensor->"),
    (
        r'const std::string ple_name = tn\(LLM_TENSOR_PER_LAYER_TOKEN_EMBD, "weight"\)\.str\(\);',
        'const std::string ple_name = "per_layer_token_embd.weight";',
    ),
    # a tensor name kept in a variable
    (r'const auto tn_ffn_up_weight = tn\(LLM_TENSOR_FFN_UP, "weight", i\);', ""),
    (r"tn_ffn_up_weight\.str\(\)", 'tn(LLM_TENSOR_FFN_UP, "weight", i).str()'),
    (r"create_tensor\(tn_ffn_up_weight,", 'create_tensor(tn(LLM_TENSOR_FFN_UP, "weight", i),'),
    # helper functions of one file
    (r"(?<!void )qwen4exp_require_nonzero\(ml, (LLM_KV_\w+),\s*([\w.]+)\);", _NONZERO),
    (r"qwen4exp_require_arr_len\(ml, (LLM_KV_\w+),\s*([\w.]+)\);", _LENGTH),
    # a set of indices
    (
        r"std::unordered_set<uint32_t> unique_deepstack_idxs;.*?throw std::runtime_error\(ss.str\(\)\);\s*\}\s*\}",
        _DEEPSTACK,
    ),
    # clef: lambdas over tensor ids, layers in an array of its own
    (r"auto load_norm = \[&\]\(norm & n, .*?\n    \};", ""),
    (r"auto load_attn = \[&\]\(attn & a, .*?\n    \};", ""),
    (r"load_norm\([\w.]+,\s*(LLM_TENSOR_\w+),\s*(\w+), il\);", _norm(", il")),
    (r"load_norm\([\w.]+,\s*(LLM_TENSOR_\w+),\s*(\w+)\);", _norm("")),
    (r"load_attn\([\w.]+, (LLM_TENSOR_\w+), (LLM_TENSOR_\w+), (LLM_TENSOR_\w+), (LLM_TENSOR_\w+), il\);", _ATTENTION),
    (r"head_layers\.resize\([^;]*;", ""),
    (r"\(int\) head_layers\.size\(\)", "n_layer_routing + n_layer_joint"),
    (r"auto & layer = head_layers\[il\];", ""),
    # granite_switch: two maps, of which only the substitutes matter, each against the vocabulary
    (r"adapter_token_to_slot\.clear\(\);", ""),
    (r"adapter_token_to_substitute\.clear\(\);", ""),
    (
        r"for \(uint32_t i = 0; i < n_adapters; \+\+i\) \{\s*adapter_token_to_slot.*?\n    \}",
        "adapter_token_to_substitute = substitute_ids;",
    ),
    (r"const llama_token sub = kv\.second;", "const llama_token sub = kv;"),
    # what no shape depends on
    (r"hparams\.is_ple_impl\.reset\(\);", ""),
    (r"msa_p = \{.*?\};", ""),
    (r"hparams\.llm_ffn_op = [^;]*;", ""),
    (r"std::string layers;\s*const char \* sep.*?LLAMA_LOG_INFO\([^;]*;", ""),
    (r'%" PRId64 "', "%d"),
    # load_hparams
    (r"if \(hparams\.vocab_only \|\| ml\.get_arch\(\) == LLM_ARCH_CLIP\) \{\s*return;\s*\}", ""),
    (r"std::fill\(hparams\.is_recr_impl\.begin\(\)[^;]*llm_arch_is_recurrent[^;]*;", ""),
    (r'std::string rope_scaling\("linear"\);', 'std::string rope_scaling = "linear";'),
    (r"hparams\.rope_scaling_type_train = llama_rope_scaling_type_from_string\([^;]*;", ""),
    (r"if \(!classifier_labels\.empty\(\)\) \{[^}]*\}", ""),
)


def patched(text: str) -> str:
    """The source of one family, readable throughout."""
    for pattern, instead in PATCHES:
        text = re.sub(pattern, instead, text, flags=re.S)
    return re.sub(r"\.c_str\(\)", "", text) if "qwen4exp" in text[:4000] else text
