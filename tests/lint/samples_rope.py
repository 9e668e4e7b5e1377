"""RoPE: scaling types and factors, positions, windows, latent attention."""

from __future__ import annotations

from gguftool.lint.rule import Context, Wish
from tests.build import GGUF, llama
from tests.lint.samples import Sample, ready


def keys(arch: str, **more: object) -> GGUF:
    """An architecture with some keys and one tensor; enough for rules of the header."""
    g = GGUF(arch)
    for key, value in more.items():
        g.kv(f"{arch}.{key.replace('__', '.')}", value)
    return g.tensor("token_embd.weight", (32, 4))


def yarn(**changes: object) -> GGUF:
    """A qwen2 with YaRN from 32,768 to 131,072."""
    values: dict[str, object] = {
        "context_length": 131072, "rope__scaling__type": "yarn", "rope__scaling__factor": 4.0,
        "rope__scaling__original_context_length": 32768, "block_count": 1, **changes,
    }  # fmt: skip
    return keys("qwen2", **{k: v for k, v in values.items() if v is not None})


def llama31(freqs: bool = False, context: int = 131072, added: int = 0, named: bool = True, **more: object) -> GGUF:
    """Llama 3.1's vocabulary, or that of Llama 3 where these places have no names."""
    tokens = [""] * 128256 + [f"<added{i}>" for i in range(added)]
    if named:
        tokens[128004], tokens[128008] = "<|finetune_right_pad_id|>", "<|eom_id|>"
    g = keys("llama", **{"context_length": context, "block_count": 1, "rope__freq_base": 500000.0, **more})
    g = g.kv("tokenizer.ggml.tokens", tokens)
    return g.tensor("rope_freqs.weight", (32,)) if freqs else g


def latent(*, split: bool) -> GGUF:
    """DeepSeek-V2-Lite's sizes, as the converter wrote it before and after llama.cpp pull request 12801."""
    g = keys("deepseek2", context_length=8192, block_count=27, embedding_length=2048, rope__dimension_count=64)
    g.kv("deepseek2.attention.head_count", 16).kv("deepseek2.attention.head_count_kv", 1 if split else 16)
    g.kv("deepseek2.attention.kv_lora_rank", 512)
    for name, old, new in (("key", 192, 576), ("value", 128, 512)):
        g.kv(f"deepseek2.attention.{name}_length", new if split else old)
        if split:
            g.kv(f"deepseek2.attention.{name}_length_mla", old)
    names = ("k_b", "v_b") if split else ("kv_b",)
    for name in names:
        g.tensor(f"blk.0.attn_{name}.weight")
    return g


TYPE, FACTOR = "field:llama.rope.scaling.type", "field:llama.rope.scaling.factor"
SAMPLES = [
    # K and V of 16 heads in 27 layers: 27 * 16 * (192 + 128) * 8192 * 2 bytes; a latent of 576: 27 * 576 * 8192 * 2
    Sample(
        "mla-unsplit",
        latent(split=False),
        "tensor:blk.0.attn_kv_b.weight",
        "takes 2.1 GiB at 8,192 tokens (f16), in a file made since April 2025 243.0 MiB (8.9 times less)",
        severity="warning",
        silent=latent(split=True),
    ),
    Sample(
        "rope-scaling-type-invalid",
        ready().kv("llama.rope.scaling.type", "YARN"),
        TYPE,
        "llama.cpp aborts",
        severity="error",
        fix="--set llama.rope.scaling.type=yarn",
        safe=True,
        silent=ready().kv("llama.rope.scaling.type", "linear"),
    ),
    Sample(
        "rope-scaling-type-invalid",
        ready().kv("llama.rope.scaling.type", "su"),
        TYPE,
        fix="--set llama.rope.scaling.type=longrope",
        safe=False,
    ),
    Sample(
        "rope-scaling-type-invalid",
        ready().kv("llama.rope.scaling.type", "llama3"),
        TYPE,
        fix="--delete llama.rope.scaling.type",
        safe=False,
    ),
    Sample("rope-scaling-type-invalid", ready().kv("llama.rope.scaling.type", ""), TYPE, 'is ""'),
    # also on an architecture that never ropes
    Sample(
        "rope-scaling-type-invalid", keys("mamba2", rope__scaling__type="dynamic"), "field:mamba2.rope.scaling.type"
    ),
    Sample(
        "rope-factor-odd",
        ready().kv("llama.rope.scaling.factor", 0.25),
        FACTOR,
        "4 is meant?",
        severity="warning",
        fix="--set llama.rope.scaling.factor=4.0",
        safe=False,
        silent=ready().kv("llama.rope.scaling.factor", 4.0),
    ),
    Sample("rope-factor-odd", ready().kv("llama.rope.scaling.factor", -2.0), FACTOR, "is -2", severity="error"),
    Sample("rope-factor-odd", ready().kv("llama.rope.scaling.factor", float("inf")), FACTOR, "is inf"),
    Sample(
        "rope-factor-double",
        ready().kv("llama.rope.scaling.factor", 2.0).kv("llama.rope.scale_linear", 4.0),
        "field:llama.rope.scale_linear",
        "llama.cpp takes 2",
        fix="--delete llama.rope.scale_linear",
        safe=True,
        silent=ready().kv("llama.rope.scale_linear", 4.0),
    ),
    # case 6: three of the four keys
    Sample(
        "yarn-incomplete",
        yarn(rope__scaling__factor=None),
        "field:qwen2.rope.scaling.factor",
        "nothing is scaled",
        silent=yarn(),
        severity="warning",
        fix="--rope-scaling yarn",
    ),
    Sample(
        "yarn-incomplete",
        yarn(rope__scaling__original_context_length=None),
        "field:qwen2.rope.scaling.original_context_length",
        "llama.cpp takes context_length",
        silent=yarn(),
    ),
    Sample(
        "yarn-context-mismatch",
        yarn(context_length=32768),
        "field:qwen2.context_length",
        "is 32,768, YaRN reaches 131,072 (4 × 32,768)",
        silent=yarn(),
        severity="warning",
        fix="--set qwen2.context_length=131072",
        safe=False,
    ),
    # lowered on purpose, which is always plain
    Sample("yarn-context-mismatch", yarn(context_length=65536), message="is 65,536", severity="info", silent=yarn()),
    Sample(
        "yarn-context-mismatch",
        yarn(context_length=32768),
        message="is 32,768",
        severity="info",
        context=Context(Wish(context_length=8192)),
        silent=yarn(),
    ),
    Sample(
        "yarn-context-mismatch", yarn(context_length=262144), "field:qwen2.context_length", "is 262,144", silent=yarn()
    ),
    Sample(
        "longrope-original-missing",
        keys("phi3", context_length=131072, block_count=1).tensor("rope_factors_long.weight", (48,)),
        "field:phi3.rope.scaling.original_context_length",
        "never used",
        severity="warning",
        silent=keys("phi3", context_length=131072, rope__scaling__original_context_length=4096).tensor(
            "rope_factors_long.weight", (48,)
        ),
    ),
    # case 7
    Sample(
        "rope-freqs-missing",
        llama31(False),
        "tensor:rope_freqs.weight",
        "looks like Llama 3.1",
        silent=llama31(True),
        severity="warning",
    ),
    # fine-tunes with tokens of their own, a lowered context, other names; Llama 3 and its long versions
    Sample(
        "rope-freqs-missing",
        llama31(added=1),
        "tensor:rope_freqs.weight",
        "128,257 tokens",
        silent=llama31(named=False, context=8192),
    ),
    Sample(
        "rope-freqs-missing",
        llama31(context=32768, added=2),
        silent=llama31(context=1048576, rope__freq_base=3580165449.0),
    ),
    Sample(
        "rope-freqs-missing",
        llama31(context=8192),
        silent=llama31(rope__scaling__type="yarn", rope__scaling__factor=8.0),
    ),
    Sample("rope-freqs-missing", llama31(named=False, added=7), silent=llama31(named=False, context=262144)),
    Sample(
        "rope-freq-base-odd",
        ready().replace("llama.rope.freq_base", 0.0),
        "field:llama.rope.freq_base",
        "is 0",
        severity="error",
        fix="--rope-freq-base '…'",
    ),
    Sample(
        "rope-freq-base-odd",
        ready().replace("llama.rope.freq_base", 10.0),
        "field:llama.rope.freq_base",
        "is 10",
        severity="warning",
    ),
    Sample(
        "rope-dimension-zero",
        ready().replace("llama.rope.dimension_count", 0),
        "field:llama.rope.dimension_count",
        "the first token hangs",
        severity="error",
        fix="--delete llama.rope.dimension_count",
        safe=False,
    ),
    Sample(
        "rope-dimension-mismatch",
        ready().replace("llama.rope.dimension_count", 8),
        "field:llama.rope.dimension_count",
        "is 8, heads have 16",
        severity="error",
        safe=False,
    ),
    Sample(
        "rope-dimension-mismatch",
        ready()
        .replace("llama.rope.dimension_count", 8)
        .kv("llama.attention.key_length", 16)
        .kv("llama.attention.value_length", 16),
        "field:llama.rope.dimension_count",
        "is 8, heads have 16",
        severity="error",
        fix="--set llama.rope.dimension_count=16",
        safe=True,
    ),
    Sample(
        "rope-dimension-mismatch",
        llama(arch="qwen2").replace("qwen2.rope.dimension_count", 32),
        "field:qwen2.rope.dimension_count",
        "keys and tensors agree with qwen2.rope.dimension_count 16, or with qwen2.attention.head_count 2 and",
        safe=False,
        silent=llama(arch="phi2").replace("phi2.rope.dimension_count", 8),
    ),
    Sample(
        "rope-sections",
        keys("qwen2vl", rope__dimension_sections=[16, 24, 24]),
        "field:qwen2vl.rope.dimension_sections",
        "has 3 entries, llama.cpp reads 4",
        fix="--set 'qwen2vl.rope.dimension_sections",
        safe=True,
        silent=keys("qwen2vl", rope__dimension_sections=[16, 24, 24, 0]),
    ),
    Sample(
        "rope-switched-off",
        keys("granite", rope__scaling__finetuned=False),
        "field:granite.rope.scaling.finetuned",
        "RoPE is off",
        severity="warning",
        fix="--delete granite.rope.scaling.finetuned",
        silent=keys("granite", rope__scaling__finetuned=True),
    ),
    Sample(
        "rope-switched-off",
        keys("granitehybrid", rope__scaling__finetuned=False),
        severity="info",
        silent=keys("llama", rope__scaling__finetuned=False),
    ),
    Sample(
        "mla-half",
        keys("deepseek2", attention__key_length_mla=192),
        "field:deepseek2.attention.value_length_mla",
        "value_length_mla is missing",
        severity="warning",
        silent=keys("deepseek2", attention__key_length_mla=192, attention__value_length_mla=128),
    ),
    Sample(
        "sliding-window-missing",
        keys("gemma3", block_count=6),
        "field:gemma3.attention.sliding_window",
        "full attention",
        severity="warning",
        silent=keys("gemma3", attention__sliding_window=512),
    ),
    # case 26
    Sample(
        "sliding-window-missing",
        keys("phi3", block_count=6),
        "field:phi3.attention.sliding_window",
        "older llama.cpp builds refuse",
        severity="info",
        silent=keys("phi3", attention__sliding_window=2047),
    ),
    Sample(
        "sliding-window-pattern-empty",
        keys("gemma3", attention__sliding_window=512, attention__sliding_window_pattern=1),
        "field:gemma3.attention.sliding_window_pattern",
        "aborts when it makes the context",
        severity="error",
        silent=keys("gemma3", attention__sliding_window=512, attention__sliding_window_pattern=6),
    ),
    Sample(
        "sliding-window-pattern-empty",
        keys("gemma4", block_count=2, attention__sliding_window=512).kv(
            "gemma4.attention.sliding_window_pattern", [False, False]
        ),
        "field:gemma4.attention.sliding_window_pattern",
        silent=keys("gemma4", block_count=2, attention__sliding_window=512).kv(
            "gemma4.attention.sliding_window_pattern", [True, False]
        ),
    ),
]
