"""Messages that prove something to `gguftool.run`, or that people meet: since when llama.cpp words them so.

A name is the message as it is printed, ``{}`` for values; beside it what the sources must have. Texts of
sources are not kept, only which build has them.
"""

from __future__ import annotations

import re

from builds.trees import Tree, Unread

FILES = (
    r"(?:src|common|tools/server|tools/mtmd|ggml/src|examples/server)/[^/]*\.(?:cpp|c|h)$|(?:llama|ggml)\.(?:cpp|c)$"
)
WORDINGS = {
    "llm_load_print_meta: {} = {}": r"\bllm_load_print_meta\(",
    "print_info: {} = {}": r"::print_info\(\)",
    "llama_new_context_with_model: n_ctx = {}": r"llama_new_context_with_model\([^;]*\{",
    "llama_init_from_model: n_ctx = {}": r"llama_init_from_model\([^;]*\{",
    "llama_context: constructing llama_context": r"constructing llama_context",
    "llama_context: n_ctx_per_seq = {}": r"n_ctx_per_seq\s+= %u",
    "llama_context: n_ctx_seq = {}": r"n_ctx_seq\s+= %u",
    "n_ctx_per_seq ({}) < n_ctx_train ({})": r"n_ctx_per_seq \(%u\) < n_ctx_train",
    "n_ctx_seq ({}) < n_ctx_train ({})": r"n_ctx_seq \(%u\) < n_ctx_train",
    "llama_context: flash_attn = {}": r"flash_attn\s+= %",
    "llama_context: kv_unified = {}": r"kv_unified\s+= %",
    "KV self size = {} MiB": r"KV self size\s+=",
    "llama_kv_cache_unified: size = {} MiB": r"\bllama_kv_cache_unified::llama_kv_cache_unified\(",
    "llama_kv_cache: size = {} MiB": r"\bllama_kv_cache::llama_kv_cache\(",
    "{} cells, {} layers, {} seqs": r"cells, %\d*d layers, %\d*\w+ seqs",
    "{} cells, {} layers, {}/{} seqs": r"cells, %\d*d layers, %\d*\w+/%",
    "llama_memory_recurrent: size = {} MiB": r"\bllama_memory_recurrent::llama_memory_recurrent\(",
    "{} KV buffer size = {} MiB": r"KV buffer size = ",
    "{} model buffer size = {} MiB": r"model buffer size = ",
    "{} compute buffer size = {} MiB": r"compute buffer size (?:of|is|=) ",
    "{} output buffer size = {} MiB": r"output buffer size = ",
    "graph splits = {}": r"graph splits = ",
    "offloaded {}/{} layers to GPU": r"offloaded %d/%d layers to GPU",
    "using device {} ({}) - {} MiB free": r"using device %s \(",
    "loaded meta data with {} key-value pairs": r"loaded meta data with %d key-value pairs",
    "Flash Attention was auto, set to {}": r"Flash Attention was auto, set to ",
    "Flash Attention enabled": r"Flash Attention enabled",
    "Flash Attention not supported, set to disabled": r"Flash Attention not supported, set to ",
    "initializing slots, n_slots = {}": r"[Ii]nitializing slots, n_slots = ",
    "initializing, n_slots = {}": r"initializing, n_slots = ",
    "new slot n_ctx_slot = {}": r"new slot,? n_ctx(?:_slot)? = ",
    "model loaded": r"[\"( ]model loaded\b",
    "server is listening on {}": r"server is listening on ",
    "listening on {}": r"(?<!is )listening on ",
    "loading draft model '{}'": r"loading draft model",
    "adding speculative implementation '{}'": r"adding speculative implementation",
    "draft acceptance rate = {}": r"draft acceptance rate = ",
    "draft acceptance = {}": r"draft acceptance = ",
    "build: {} ({})": r"\"build: %d \(%s\)|LOG_INF\(\"build: |build: %d",
    "build_info: {}": r"build_info: ",
    "successfully fit params to free device memory": r"successfully fit ",
    "failed to fit params to free device memory": r"failed to fit ",
    "unknown model architecture: '{}'": r"unknown model architecture: '",
    "unknown pre-tokenizer type: '{}'": r"unknown pre-tokenizer type: '",
    "unknown tokenizer: '{}'": r"unknown tokenizer: '",
    "has invalid ggml type {}": r"has invalid ggml type",
    "key not found in model: {}": r"key not found in model: ",
    "missing tensor '{}'": r"missing tensor '",
    "tensor '{}' not found": r"tensor '%s' not found",
    "wrong number of tensors; expected {}, got {}": r"wrong number of tensors; expected",
    "tensor '{}' has wrong shape": r"has wrong shape; expected",
    "tensor '{}' data is not within the file bounds": r"data is not within the file bounds",
    "error loading model: {}": r"error loading model: ",
    "error loading model hyperparameters: {}": r"error loading model hyperparameters: ",
    "missing pre-tokenizer type, using: 'default'": r"missing pre-tokenizer type",
    "special_eos_id is not in special_eog_ids": r"special_eos_id is not in special_eog_ids",
    "the chat template that comes with this model is not supported": r"chat template that comes with this model is not",
    "vocab missing newline token": r"vocab missing newline token",
    "quantized V cache was requested, but this requires Flash Attention": r"quantized V cache was requested",
    "V cache quantization requires flash_attn": r"V cache quantization requires flash_attn",
    "SWA checkpoints: forcing full prompt re-processing": r"forcing full prompt re-processing",
}


def wordings(tree: Tree) -> set[str]:
    """Names of the messages that a tree has."""
    text = "\n".join(tree.read(path) or "" for path in tree.files(FILES))
    found = {name for name, pattern in WORDINGS.items() if re.search(pattern, text)}
    if len(found) < 5:
        raise Unread(f"only {len(found)} of the messages found")
    return found
