"""Metadata: keys that must be there, their types, and values that make sense."""

from __future__ import annotations

import struct

from tests.build import GGUF, llama
from tests.lint.samples import Sample, ready
from tests.lint.samples_tensors import real


def moe(**keys: int) -> GGUF:
    """A llama with expert keys and, where asked for, expert tensors."""
    g = ready()
    for key, value in keys.items():
        g.kv(f"llama.{key}", value)
    return g


def raw_bool(value: int, key: bytes = b"tokenizer.ggml.add_eos_token") -> GGUF:
    return ready().raw_kv(struct.pack("<Q", len(key)) + key + struct.pack("<IB", 7, value))


def raw_bools(*values: int) -> GGUF:
    key = b"llama.x"
    return ready().raw_kv(struct.pack("<Q", len(key)) + key + struct.pack("<IIQ", 9, 7, len(values)) + bytes(values))


def raw_string(value: bytes) -> GGUF:
    key = b"general.description"
    return ready().raw_kv(struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, len(value)) + value)


ARCH = "field:general.architecture"
BLOCKS = "field:llama.block_count"
SAMPLES = [
    # case 23: no architecture at all; told by the other keys; not a string
    Sample(
        "architecture-missing",
        GGUF().kv("general.name", "x").tensor("token_embd.weight"),
        ARCH,
        "is missing",
        fix="",
        severity="error",
    ),
    Sample(
        "architecture-missing",
        ready().drop("general.architecture"),
        ARCH,
        "the keys of this file say llama",
        fix="--set general.architecture=llama",
        safe=False,
    ),
    Sample("architecture-missing", ready().replace("general.architecture", 7, "u32"), ARCH, "is u32, must be a string"),
    Sample(
        "epsilon-odd",
        ready().replace("llama.attention.layer_norm_rms_epsilon", 0.1),
        "field:llama.attention.layer_norm_rms_epsilon",
        "is 0.1, models have 1e-6 to 1e-4",
        severity="warning",
    ),
    # case 23: a slip; case 24: newer than the runtime
    Sample(
        "architecture-unknown",
        ready().replace("general.architecture", "lama"),
        ARCH,
        "did you mean llama?",
        fix="--set general.architecture=llama",
        severity="error",
    ),
    Sample("architecture-unknown", llama(arch="minimax-m9"), ARCH, "a newer llama.cpp may know it", fix=""),
    Sample("architecture-unsupported", GGUF("gptj").kv("gptj.block_count", 1).tensor("w"), ARCH, "cannot run it"),
    Sample(
        "required-key-missing",
        ready().drop("llama.attention.layer_norm_rms_epsilon"),
        "field:llama.attention.layer_norm_rms_epsilon",
        "llama.cpp refuses the file",
        severity="error",
        fix="--set 'llama.attention.layer_norm_rms_epsilon=…'",
    ),
    Sample("required-key-missing", ready().drop("llama.embedding_length"), "field:llama.embedding_length"),
    Sample("required-key-missing", ready().drop("llama.block_count"), BLOCKS),
    # i32 and u64 for u32, f64 for f32, a string of digits, a number where text belongs
    Sample(
        "key-type-wrong",
        ready().replace("llama.context_length", 2048, "i32"),
        "field:llama.context_length",
        "is i32, llama.cpp reads u32",
        severity="error",
        fix="--set llama.context_length=2048",
        safe=True,
    ),
    Sample("key-type-wrong", ready().replace("llama.block_count", 1, "u64"), BLOCKS, "is u64", safe=True),
    Sample(
        "key-type-wrong",
        ready().replace("llama.rope.freq_base", 1e6, "f64"),
        "field:llama.rope.freq_base",
        "is f64",
        fix="--set llama.rope.freq_base=1000000.0",
        safe=True,
    ),
    Sample(
        "key-type-wrong",
        ready().replace("llama.context_length", "2048"),
        "field:llama.context_length",
        fix="--set llama.context_length=2048",
    ),
    Sample(
        "key-type-wrong",
        ready().kv("tokenizer.ggml.add_bos_token", 1, "u32"),
        "field:tokenizer.ggml.add_bos_token",
        fix="--set tokenizer.ggml.add_bos_token=true",
        silent=ready().kv("tokenizer.ggml.add_bos_token", True),
    ),
    Sample("key-type-wrong", ready().replace("general.name", 5, "u32"), "field:general.name", "reads str", fix=""),
    Sample(
        "key-type-wrong",
        ready().replace("llama.attention.head_count_kv", [2.0], "[f32]"),
        "field:llama.attention.head_count_kv",
        "is arr[f32]",
        silent=ready().replace("llama.attention.head_count_kv", [2], "[i32]"),
    ),
    Sample(
        "key-misspelt",
        ready().drop("llama.feed_forward_length").kv("llama.feed_foward_length", 128),
        "field:llama.feed_foward_length",
        "did you mean llama.feed_forward_length?",
        severity="warning",
        fix="--rename llama.feed_foward_length=llama.feed_forward_length",
        silent=ready().kv("llama.my.own.key", 1),
    ),
    Sample(
        "key-unread",
        ready().kv("llama.rope.scaling.yarn_beta_fast", 32.0),
        "field:llama.rope.scaling.yarn_beta_fast",
        "is not read by llama.cpp for llama (for grok, mistral3 it is)",
        severity="info",
    ),
    Sample(
        "spec-type-odd",
        ready().kv("general.license", ["mit"]),
        "field:general.license",
        "is [str]",
        silent=ready().kv("general.license", "mit").kv("general.tags", ["a", "b"]),
        severity="warning",
    ),
    Sample(
        "key-not-utf8",
        ready().kv("bad\udcff\udcfekey", "v"),
        "field:bad\udcff\udcfekey",
        "is not UTF-8",
        severity="error",
        silent=ready().kv("schlüssel", "v"),
    ),
    Sample(
        "value-not-utf8",
        raw_string(b"caf\xe9 \xff"),
        "field:general.description",
        "is not UTF-8",
        severity="warning",
        fix="--set 'general.description=café ÿ'",
        safe=False,
        silent=raw_string("café ▁".encode()),
    ),
    # case 50
    Sample(
        "bool-byte",
        raw_bool(2),
        "field:tokenizer.ggml.add_eos_token",
        "is the byte 2",
        severity="error",
        safe=True,
        fix="--set tokenizer.ggml.add_eos_token=true",
        silent=raw_bool(1),
    ),
    Sample(
        "bool-byte",
        raw_bools(0, 1, 255),
        "field:llama.x",
        "llama.x[2] is the byte 255",
        safe=True,
        fix="--set 'llama.x:[bool]=false,true,true'",
        silent=raw_bools(0, 1, 1),
    ),
    # case 44
    Sample("array-empty", ready().kv("x.n", [], "[str]"), "field:x.n", "gguf-py's writers", fix="--delete x.n"),
    Sample(
        "float-not-finite",
        ready().kv("llama.logit_scale", float("nan")),
        "field:llama.logit_scale",
        "is nan",
        severity="error",
        silent=ready().kv("llama.logit_scale", 0.5),
    ),
    Sample(
        "float-not-finite",
        ready().replace("llama.attention.layer_norm_rms_epsilon", -1e-5),
        "field:llama.attention.layer_norm_rms_epsilon",
        "is -1e-05",
    ),
    Sample(
        "sampling-odd",
        ready().kv("general.sampling.top_p", 90.0),
        "field:general.sampling.top_p",
        "is 90, expected 0 to 1",
        severity="warning",
        fix="--sampling 'top_p=…'",
        silent=ready().kv("general.sampling.top_p", 0.9).kv("general.sampling.temp", 0.3),
    ),
    # case 33: 0, 2 with one block of tensors, 600
    Sample(
        "block-count-range",
        ready().replace("llama.block_count", 0),
        BLOCKS,
        "is 0; llama.cpp aborts",
        fix="--set llama.block_count=1",
    ),
    Sample("block-count-range", ready().replace("llama.block_count", 600), BLOCKS, "is 600"),
    Sample(
        "block-count-tensors",
        ready().replace("llama.block_count", 2),
        BLOCKS,
        "is 2, the tensors have blocks 0 to 0",
        severity="error",
        fix="--set llama.block_count=1",
        safe=False,
    ),
    Sample(
        "block-count-tensors",
        llama(layers=2).replace("llama.block_count", 1),
        BLOCKS,
        "blocks 0 to 1",
        silent=llama(layers=2),
    ),
    Sample(
        "head-count-missing",
        ready().drop("llama.attention.head_count"),
        "field:llama.attention.head_count",
        "is missing",
        severity="error",
        fix="--set 'llama.attention.head_count=…'",
        silent=GGUF("mamba").kv("mamba.block_count", 1).tensor("token_embd.weight"),
    ),
    Sample(
        "head-count-missing",
        ready().replace("llama.attention.head_count", 0),
        "field:llama.attention.head_count",
        "is 0",
    ),
    Sample(
        "per-layer-length",
        llama(layers=2).replace("llama.attention.head_count_kv", [2, 2, 2]),
        "field:llama.attention.head_count_kv",
        "3 entries for 2 layers",
        severity="error",
        silent=llama(layers=2).replace("llama.attention.head_count_kv", [2, 2]),
    ),
    # case 34
    Sample(
        "expert-keys",
        moe(expert_count=8),
        "field:llama.expert_used_count",
        "expert_used_count is missing",
        severity="error",
        fix="--set 'llama.expert_used_count=…'",
        silent=moe(expert_count=8, expert_used_count=2),
    ),
    Sample("expert-keys", moe(expert_used_count=2), "field:llama.expert_used_count", "expert_count is missing"),
    Sample(
        "expert-keys", moe(expert_count=4, expert_used_count=5), "field:llama.expert_used_count", "there are 4 experts"
    ),
    Sample("expert-keys", moe(expert_count=2000, expert_used_count=5), "field:llama.expert_count", "allows 1,024"),
    Sample(
        "expert-keys",
        moe(expert_count=8, expert_used_count=2, expert_group_count=3, expert_group_used_count=1),
        "field:llama.expert_group_count",
        "do not divide",
        silent=moe(expert_count=8, expert_used_count=2, expert_group_count=4, expert_group_used_count=2),
    ),
    Sample(
        "expert-keys",
        moe(expert_group_count=2, expert_group_used_count=1),
        "field:llama.expert_group_count",
        "2 groups for 0 experts",
    ),
    Sample(
        "expert-count-tensors",
        moe(expert_count=8, expert_used_count=2).tensor("blk.0.ffn_down_exps.weight", (128, 64, 16)),
        "field:llama.expert_count",
        "holds 16 experts",
        fix="--set llama.expert_count=16",
        silent=moe(expert_count=16, expert_used_count=2).tensor("blk.0.ffn_down_exps.weight", (128, 64, 16)),
    ),
    Sample(
        "nextn-layers",
        moe(nextn_predict_layers=3),
        "field:llama.nextn_predict_layers",
        "is 3, block_count is 1",
        silent=real("tiny/glm4moe"),
    ),
    Sample(
        "expert-gating-unknown",
        llama(arch="deepseek2").kv("deepseek2.expert_count", 8).kv("deepseek2.expert_gating_func", 9),
        "field:deepseek2.expert_gating_func",
        "softmax 1, sigmoid 2, softmax_weight 3, sqrt_softplus 4",
        severity="error",
        fix="--set 'deepseek2.expert_gating_func=…'",
        silent=llama(arch="deepseek2").kv("deepseek2.expert_count", 8).kv("deepseek2.expert_gating_func", 2),
    ),
    Sample(
        "activation-unknown",
        llama(arch="modern-bert").kv("modern-bert.hidden_activation", "mish"),
        "field:modern-bert.hidden_activation",
        "does not know",
        severity="warning",
        silent=llama(arch="modern-bert").kv("modern-bert.hidden_activation", "gelu"),
    ),
]
