"""Deploy: the four fields, missing, wrong, contradictory, or not what is wanted."""

from __future__ import annotations

import struct

from gguftool.lint.rule import Context, Wish
from tests.build import GGUF, llama
from tests.lint.samples import Sample, ready


def wish(context: int | None = None, cache: tuple[str, str] | None = None) -> Context:
    return Context(wish=Wish(context, cache))


def mla() -> GGUF:
    """The keys of a model with latent attention, no tensors."""
    g = GGUF("deepseek2").kv("deepseek2.block_count", 2).kv("deepseek2.context_length", 4096)
    g.kv("deepseek2.embedding_length", 256).kv("deepseek2.attention.head_count", 4)
    g.kv("deepseek2.attention.head_count_kv", 1).kv("deepseek2.attention.kv_lora_rank", 64)
    g.kv("deepseek2.attention.key_length", 96).kv("deepseek2.attention.value_length", 64)
    g.kv("deepseek2.attention.key_length_mla", 48).kv("deepseek2.attention.value_length_mla", 32)
    return g.tensor("token_embd.weight", (256, 4))


def qwen2(bias: float = 0.0, kind: str = "f32") -> GGUF:
    """With one key bias of that size."""
    data = struct.pack("<32f" if kind == "f32" else "<32e", *[0.5] * 31, bias)
    return llama(arch="qwen2").tensor("blk.0.attn_k.bias", (32,), kind, data).kv("qwen2.rope.freq_scale", 1.0)


CONTEXT, BASE, SCALE, CACHE = (
    "llama.context_length", "llama.rope.freq_base", "llama.rope.freq_scale", "llama.kv_cache_type",
)  # fmt: skip
SAMPLES = [
    Sample(
        "context-length-missing",
        ready().drop(CONTEXT),
        f"field:{CONTEXT}",
        "llama.cpp refuses the file",
        severity="error",
        fix="gguftool fix m.gguf --context-length '…'",
        safe=False,
    ),
    Sample(
        "context-length-missing",
        ready().drop(CONTEXT),
        f"field:{CONTEXT}",
        fix="--set llama.context_length=8192",
        safe=True,
        context=wish(8192),
        silent=ready().replace(CONTEXT, 8192),
    ),
    Sample(
        "context-length-missing",
        llama(arch="qwen2").drop("qwen2.context_length").kv(CONTEXT, 4096),
        "field:qwen2.context_length",
        fix="--rename llama.context_length=qwen2.context_length",
        safe=True,
    ),
    Sample("context-length-odd", ready().replace(CONTEXT, 0), f"field:{CONTEXT}", "is 0"),
    Sample("context-length-odd", ready().replace(CONTEXT, (1 << 32) - 1), f"field:{CONTEXT}", "4,294,967,295"),
    Sample(
        "context-length-too-small",
        ready(),
        f"field:{CONTEXT}",
        "wanted 32,768 tokens, the file allows 2,048",
        silent=ready().replace(CONTEXT, 32768),
        severity="error",
        fix="--context-length 32768 --rope-scaling yarn --rope-scale-factor 16",
        safe=False,
        context=wish(32768),
    ),
    Sample(
        "context-length-suspect",
        GGUF("falcon")
        .kv("falcon.context_length", 2048)
        .kv("falcon.block_count", 60)
        .kv("falcon.embedding_length", 4096)
        .tensor("token_embd.weight", (32, 4)),
        "field:falcon.context_length",
        "8,192",
        severity="warning",
        fix="--context-length 8192",
        safe=False,
    ),
    Sample(
        "rope-freq-base-missing",
        ready().drop(BASE),
        f"field:{BASE}",
        "takes 10000",
        severity="warning",
        fix="--set llama.rope.freq_base=10000.0",
        safe=False,
    ),
    Sample(
        "rope-freq-base-missing",
        llama().drop(BASE),
        f"field:{BASE}",
        silent=GGUF("mamba").kv("mamba.block_count", 1).tensor("token_embd.weight", (32, 4)),
    ),
    # Gemma 3 has another base than llama.cpp takes, and its converter knows it
    Sample(
        "rope-freq-base-missing",
        GGUF("gemma3").kv("gemma3.block_count", 1).tensor("token_embd.weight", (32, 4)),
        "field:gemma3.rope.freq_base",
        "the converter 1e+06",
        fix="--set gemma3.rope.freq_base=1000000.0",
        safe=False,
        silent=GGUF("gemma3")
        .kv("gemma3.block_count", 1)
        .kv("gemma3.rope.freq_base", 1e6)
        .tensor("token_embd.weight", (32, 4)),
    ),
    Sample(
        "rope-freq-base-missing",
        GGUF("falcon-h1").kv("falcon-h1.block_count", 1).tensor("token_embd.weight", (32, 4)),
        "field:falcon-h1.rope.freq_base",
        "every conversion of falcon-h1 writes it",
        fix="falcon-h1.rope.freq_base=…",
    ),
    Sample(
        "rope-freq-scale-missing",
        ready().drop(SCALE),
        f"field:{SCALE}",
        "it does not read this key",
        severity="warning",
        fix="--set llama.rope.freq_scale=1.0",
        safe=True,
    ),
    Sample(
        "rope-freq-scale-missing", ready().drop(SCALE), silent=ready().drop(SCALE).kv("llama.rope.scaling.factor", 2.0)
    ),
    Sample(
        "rope-freq-scale-missing",
        ready().drop(SCALE),
        silent=GGUF("gpt2").kv("gpt2.block_count", 1).tensor("token_embd.weight", (32, 4)),
    ),
    Sample(
        "rope-scale-contradiction",
        ready().replace(SCALE, 0.5),
        f"field:{SCALE}",
        "records 0.5, llama.cpp computes 1",
        severity="error",
        fix="--set llama.rope.freq_scale=1.0",
        safe=True,
    ),
    Sample(
        "rope-scale-contradiction",
        ready().kv("llama.rope.scaling.factor", 4.0),
        f"field:{SCALE}",
        "computes 0.25 (rope.scaling.factor is 4)",
        silent=ready().replace(SCALE, 0.25).kv("llama.rope.scaling.factor", 4.0),
    ),
    Sample(
        "rope-scale-contradiction",
        ready().replace(SCALE, 0.5).kv("llama.rope.scaling.factor", 2.0).kv("llama.rope.scaling.type", "none"),
        f"field:{SCALE}",
        "rope.scaling.type is none",
        silent=ready().replace(SCALE, 0.5).kv("llama.rope.scale_linear", 2.0),
    ),
    Sample("rope-scale-contradiction", ready().replace(SCALE, "half", "str"), f"field:{SCALE}", "is str"),
    Sample(
        "rope-scale-contradiction",
        ready().replace(SCALE, 1, "u32"),
        f"field:{SCALE}",
        "is u32, must be f32",
        fix="--set llama.rope.freq_scale=1.0",
        safe=True,
        silent=ready(),
    ),
    Sample(
        "kv-cache-type-missing",
        ready().drop(CACHE),
        f"field:{CACHE}",
        "it does not read this key",
        severity="warning",
        fix="--set llama.kv_cache_type=f16",
        safe=True,
    ),
    Sample(
        "kv-cache-type-missing",
        ready().drop(CACHE),
        f"field:{CACHE}",
        fix="--set llama.kv_cache_type=bf16",
        context=wish(cache=("bf16", "bf16")),
        silent=GGUF("mamba").kv("mamba.block_count", 1).tensor("token_embd.weight", (32, 4)),
    ),
    Sample(
        "kv-cache-type-invalid",
        ready().replace(CACHE, "q3_k"),
        f"field:{CACHE}",
        "no cache type",
        severity="error",
        fix="--cache-type q8_0",
        safe=False,
    ),
    Sample(
        "kv-cache-type-invalid",
        ready().replace(CACHE, "Q8_0"),
        f"field:{CACHE}",
        "write q8_0",
        fix="--set llama.kv_cache_type=q8_0",
        safe=True,
    ),
    Sample(
        "kv-cache-type-invalid",
        ready().replace(CACHE, 8, "u32"),
        f"field:{CACHE}",
        "must be a string",
        silent=ready().replace(CACHE, "q8_0/q8_0"),
    ),
    # 16 wide heads do not divide into blocks of 32
    Sample(
        "kv-cache-type-impossible",
        ready().replace(CACHE, "q8_0"),
        f"field:{CACHE}",
        "does not divide",
        severity="error",
        fix="--set llama.kv_cache_type=f16",
    ),
    Sample(
        "kv-cache-type-impossible",
        ready(),
        f"field:{CACHE}",
        "wanted cache type q8_0/q4_0 is impossible",
        context=wish(cache=("q8_0", "q4_0")),
        silent=ready().kv("llama.attention.key_length", 64).kv("llama.attention.value_length", 64),
    ),
    Sample(
        "kv-cache-type-impossible",
        mla().kv("deepseek2.kv_cache_type", "q8_0/f16"),
        "field:deepseek2.kv_cache_type",
        "model does not support different K (q8_0) and V (f16) cache types",
        silent=mla().kv("deepseek2.kv_cache_type", "q8_0"),
    ),
    Sample(
        "kv-cache-type-differs",
        ready().replace(CACHE, "f16"),
        f"field:{CACHE}",
        "records f16, wanted bf16",
        context=wish(cache=("bf16", "bf16")),
        silent=ready().replace(CACHE, "bf16"),
        severity="warning",
        fix="--set llama.kv_cache_type=bf16",
        safe=True,
    ),
    Sample(
        "kv-cache-type-slow",
        ready().replace(CACHE, "q8_0/q4_0").kv("llama.attention.key_length", 64).kv("llama.attention.value_length", 64),
        f"field:{CACHE}",
        "no FlashAttention vector kernel",
        severity="info",
    ),
    Sample(
        "kv-cache-type-weak-k",
        qwen2(130).kv("qwen2.kv_cache_type", "q4_0"),
        "field:qwen2.kv_cache_type",
        "biases up to 130",
        silent=qwen2(130).kv("qwen2.kv_cache_type", "q8_0/q4_0"),
        severity="warning",
        fix="--set qwen2.kv_cache_type=q8_0/q4_0",
    ),
    Sample(
        "kv-cache-type-weak-k",
        qwen2(-17.5, "f16").kv("qwen2.kv_cache_type", "iq4_nl/f16"),
        message="biases up to 18",
        silent=qwen2(3.0).kv("qwen2.kv_cache_type", "q4_0"),
    ),
    Sample(
        "foreign-prefix",
        llama(arch="qwen2").kv(CONTEXT, 4096),
        f"field:{CONTEXT}",
        "which is there and rules",
        severity="warning",
        fix="--delete llama.context_length",
        safe=True,
    ),
    Sample(
        "foreign-prefix",
        llama(arch="qwen2").kv(CACHE, "q8_0"),
        f"field:{CACHE}",
        "nobody reads it in a qwen2 file",
        fix="--rename llama.kv_cache_type=qwen2.kv_cache_type",
        safe=True,
    ),
    Sample(
        "foreign-prefix",
        llama().kv("kv_cache_type", "q8_0"),
        "field:kv_cache_type",
        fix="--rename kv_cache_type=llama.kv_cache_type",
    ),
    Sample(
        "foreign-prefix",
        llama().kv("general.rope.freq_scale", 1.0),
        "field:general.rope.freq_scale",
        fix="--rename general.rope.freq_scale=llama.rope.freq_scale",
    ),
]
