"""Tensors against what the architecture asks for."""

from __future__ import annotations

from pathlib import Path

from gguftool.model import Model, from_source
from tests.build import GGUF
from tests.lint.samples import Sample, ready
from tests.predict.recipes import built


def changed(name: str, *, shape: tuple[int, ...] | None = None, type: str | None = None, **more: object) -> GGUF:
    """The healthy model with one tensor of another shape or type."""
    g = ready(**more)
    for t in g._tensors:
        if t["name"] == name:
            t["shape"] = shape or t["shape"]
            t["type"] = type or t["type"]
    return g


def without(*names: str, **more: object) -> GGUF:
    """The healthy model without some tensors."""
    g = ready(**more)
    g._tensors = [t for t in g._tensors if t["name"] not in names]
    return g


def wide_heads(key_length: bool, **more: object) -> GGUF:
    """Four heads of 80 in a model 64 wide; the key that says so may be missing."""
    g = ready(**more).replace("llama.rope.dimension_count", 80)
    if key_length:
        g.kv("llama.attention.key_length", 80).kv("llama.attention.value_length", 80)
    shapes = {"attn_q": (64, 320), "attn_k": (64, 160), "attn_v": (64, 160), "attn_output": (320, 64)}
    for t in g._tensors:
        for part, shape in shapes.items():
            if part in t["name"] and "norm" not in t["name"]:
                t["shape"] = shape
    return g


def real(base: str, *operations: dict[str, object]):  # type: ignore[no-untyped-def]
    """A header the real llama.cpp made, with operations of `tests.predict.recipes`."""

    def opened(folder: Path) -> Model:
        return from_source(built({"base": base, "ops": list(operations)}, str(folder / "m.gguf")), strict=False)

    return opened


SAMPLES = [
    Sample("tensor-missing", without("output_norm.weight"), "tensor:output_norm.weight", "output_norm.weight (64) is"),
    Sample(
        "tensor-missing",
        without("output_norm.weight").tensor("output_norm.weightx", (64,)),
        message="is missing; the file has output_norm.weightx",
    ),
    Sample(
        "tensor-missing",
        without("blk.0.ffn_up.weight", "blk.1.ffn_up.weight", layers=2),
        "tensor:blk.0.ffn_up.weight",
        "blk.0.ffn_up.weight (64 × 128) is missing, as in 1 other layer",
    ),
    Sample(
        "tensor-unexpected",
        ready().tensor("blk.0.attn_q.biax", (64,)),
        "tensor:blk.0.attn_q.biax",
        "is no tensor of llama; the nearest one is blk.0.attn_q.bias",
        ready().tensor("blk.0.attn_q.bias", (64,)),
    ),
    # whole layers too many are one finding of another rule
    Sample(
        "tensor-unexpected",
        ready().tensor("x.weight", (64,)),
        "tensor:x.weight",
        "is no tensor of llama",
        ready().tensor("blk.7.attn_norm.weight", (64,)),
    ),
    Sample(
        "tensor-shape",
        changed("blk.0.ffn_up.weight", shape=(64, 160)),
        "tensor:blk.0.ffn_up.weight",
        "is 64 × 160, the keys call for 64 × 128 (feed_forward_length 128)",
    ),
    Sample(
        "tensor-shape",
        changed("blk.0.attn_k.weight", shape=(64, 64)),
        "tensor:blk.0.attn_k.weight",
        "is 64 × 64, the keys call for 64 × 32 (attention.head_count_kv 2, attention.key_length absent",
    ),
    Sample(
        "head-size-mismatch",
        wide_heads(False).replace("llama.rope.dimension_count", 16),
        "field:llama.attention.key_length",
        "the attention tensors have heads of 80, the keys give 16 (embedding_length / head_count)",
        wide_heads(True),
        fix="--set llama.attention.key_length=80 --set llama.attention.value_length=80",
        safe=True,
    ),
    # a head size that only the norms and the queries show: value_length is there
    Sample(
        "head-size-mismatch",
        real("tiny/qwen3", {"op": "del", "key": "qwen3.attention.key_length"}),
        "field:qwen3.attention.key_length",
        "the attention tensors have heads of 64, the keys give 32 (embedding_length / head_count)",
        # another number of heads is another matter
        real("tiny/qwen3", {"op": "set", "key": "qwen3.attention.head_count", "type": "u32", "value": 2}),
        fix="--set qwen3.attention.key_length=64",
        safe=True,
    ),
    Sample(
        "size-key-mismatch",
        ready().replace("llama.feed_forward_length", 96),
        "field:llama.feed_forward_length",
        "llama.feed_forward_length is 96, 3 tensors say 128: blk.0.ffn_gate.weight",
        changed("blk.0.ffn_up.weight", shape=(64, 160)),
        fix="--set llama.feed_forward_length=128",
        safe=True,
    ),
    Sample(
        "size-key-mismatch",
        ready().replace("llama.embedding_length", 32).replace("llama.rope.dimension_count", 8),
        "field:llama.embedding_length",
        "is 32",
    ),
    Sample(
        "head-size-unusual",
        wide_heads(True),
        "field:llama.attention.key_length",
        "heads of 80 by attention.key_length, not 16 (embedding_length / head_count); keys and tensors agree",
        severity="info",
        fix="",
    ),
    Sample(
        "tensor-type-not-f32",
        changed("blk.0.attn_norm.weight", type="f16"),
        "tensor:blk.0.attn_norm.weight",
        "blk.0.attn_norm.weight is F16; llama.cpp computes with it in F32 only",
        changed("blk.0.attn_q.weight", type="f16"),
    ),
    Sample(
        "tensor-type-not-f32",
        ready().tensor("blk.0.attn_q.bias", (64,), "bf16"),
        "tensor:blk.0.attn_q.bias",
        "is BF16",
        ready().tensor("blk.0.attn_q.bias", (64,)),
    ),
    Sample(
        "tensor-type-not-for-weights",
        changed("blk.0.attn_q.weight", type="i32"),
        "tensor:blk.0.attn_q.weight",
        "is I32; llama.cpp has no product for it",
        changed("blk.0.attn_q.weight", type="q8_0"),
    ),
    Sample(
        "tensor-needed-by-graph",
        real("tiny/nemotron_h", {"op": "del_tensor", "name": "blk.0.ssm_conv1d.bias"}),
        "tensor:blk.0.ssm_conv1d.bias",
        "nemotron_h loads without it and dies afterwards",
        real("tiny/nemotron_h"),
    ),
    Sample(
        "tensor-ignored",
        real("tiny/glm4moe", {"op": "set", "key": "glm4moe.nextn_predict_layers", "type": "u32", "value": 1}),
        message="llama.cpp leaves",
        silent=real("tiny/qwen2"),
        severity="info",
        fix="",
    ),
    # a healthy model of another architecture, and one whose vocabulary is what is wrong
    Sample("tensor-missing", without("token_embd.weight"), "tensor:token_embd.weight", silent=real("tiny/gpt-oss")),
    Sample(
        "tensor-shape",
        changed("output_norm.weight", shape=(32,)),
        "tensor:output_norm.weight",
        "is 32, the keys call for 64 (embedding_length 64)",
        ready(tokenizer__ggml__pre="nonsense"),
    ),
]
