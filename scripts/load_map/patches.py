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
    # what no shape depends on
    (r"hparams\.is_ple_impl\.reset\(\);", ""),
    (r"msa_p = \{.*?\};", ""),
    (r"hparams\.llm_ffn_op = [^;]*;", ""),
    (r"std::string layers;\s*const char \* sep.*?LLAMA_LOG_INFO\([^;]*;", ""),
    (r'%" PRId64 "', "%d"),
)


def patched(text: str) -> str:
    """The source of one family, readable throughout."""
    for pattern, instead in PATCHES:
        text = re.sub(pattern, instead, text, flags=re.S)
    return re.sub(r"\.c_str\(\)", "", text) if "qwen4exp" in text[:4000] else text
