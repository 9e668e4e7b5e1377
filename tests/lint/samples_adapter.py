"""Adapter: LoRA adapters, control vectors, importance matrices."""

from __future__ import annotations

import struct

from gguftool.lint.rule import Context
from tests.beside import control_vector
from tests.build import GGUF
from tests.lint.samples import Sample

READ = Context(data=True)
Q = "blk.0.attn_q.weight"


def pair(g: GGUF, name: str, n_in: int = 64, out: int = 64, rank: int = 8, kind: str = "f32", more: tuple = ()) -> GGUF:
    """Two halves, as convert_lora_to_gguf.py lays them (b11434)."""
    return g.tensor(f"{name}.lora_a", (n_in, rank, *more), kind).tensor(f"{name}.lora_b", (rank, out, *more), kind)


def lora(arch: str = "llama") -> GGUF:
    """A sound adapter: two layers, experts, the embedding, as converted from PEFT."""
    g = GGUF(arch).kv("general.type", "adapter").kv("adapter.type", "lora").kv("adapter.lora.alpha", 16.0)
    g.kv("general.name", "a").kv("general.file_type", 0)
    for layer in (0, 1):
        pair(pair(g, f"blk.{layer}.attn_q.weight"), f"blk.{layer}.attn_v.weight", out=32)
    pair(g, "blk.1.ffn_up_exps.weight", out=128, more=(4,))
    return g.tensor("token_embd.weight.lora_a", (8, 300)).tensor("token_embd.weight.lora_b", (8, 64))


def vector(layers: int = 3, width: int = 64) -> GGUF:
    """A sound control vector of three layers, or one that has lost some."""
    return control_vector(width, tuple(range(1, layers + 1)))


def matrix() -> GGUF:
    """A sound importance matrix, as llama-imatrix writes it (b11434)."""
    g = GGUF().kv("general.type", "imatrix").kv("imatrix.datasets", ["wiki.txt"]).kv("imatrix.chunk_count", 8)
    g.kv("imatrix.chunk_size", 512)
    counts = struct.pack("<f", 4096)
    g.tensor(f"{Q}.in_sum2", (64,)).tensor(f"{Q}.counts", (1,), "f32", counts)
    return g.tensor("blk.0.ffn_up_exps.weight.in_sum2", (64, 2)).tensor(
        "blk.0.ffn_up_exps.weight.counts", (1, 2), "f32", counts * 2
    )


def a(rule: str, fires: GGUF, where: str = "", message: str = "", **more: object) -> Sample:
    return Sample(rule, fires, where, message, silent=lora(), **more)  # type: ignore[arg-type]


def v(rule: str, fires: GGUF, where: str = "", message: str = "", **more: object) -> Sample:
    return Sample(rule, fires, where, message, silent=vector(), **more)  # type: ignore[arg-type]


def i(rule: str, fires: GGUF, where: str = "", message: str = "", **more: object) -> Sample:
    return Sample(rule, fires, where, message, silent=matrix(), **more)  # type: ignore[arg-type]


ALPHA, TOKENS = "adapter.lora.alpha", "adapter.alora.invocation_tokens"
DEEP = "blk.0.attn_kv_a_mqa.weight"
SAMPLES = [
    a("adapter-general-type", lora().drop("general.type"), "field:general.type", "is missing",
      fix="--set general.type=adapter", safe=True),
    a("adapter-general-type", lora().replace("general.type", "model"), "field:general.type", "is 'model'"),
    a("adapter-general-type", lora().replace("general.type", 3), "field:general.type", "is u32, must be a string"),
    a("adapter-general-type", lora().replace("general.type", "model").tensor("x"), message="is 'model'", fix=""),
    a("adapter-type", lora().replace("adapter.type", "LoRA"), "field:adapter.type", "is 'LoRA'",
      fix="--set adapter.type=lora", safe=True),
    a("adapter-type", lora().drop("adapter.type"), "field:adapter.type", "is missing"),
    a("adapter-architecture", lora("lama"), "field:general.architecture", "did you mean llama?",
      fix="--set general.architecture=llama", safe=False),
    a("adapter-architecture", lora().drop("general.architecture"), message="is missing"),
    a("adapter-architecture", lora().replace("general.architecture", 1), message="is u32, must be a string"),
    a("adapter-alpha", lora().drop(ALPHA), f"field:{ALPHA}", "takes the scale as 1, whatever the rank (8) is",
      severity="warning", fix="adapter.lora.alpha="),
    a("adapter-alpha", lora().replace(ALPHA, 0.0), f"field:{ALPHA}", "is 0, which switches nothing off"),
    a("adapter-alpha", lora().replace(ALPHA, float("nan")), message="garbage", severity="error"),
    a("adapter-alpha", lora().replace(ALPHA, -16.0), message="taken away", severity="warning"),
    a("adapter-alpha", lora().replace(ALPHA, 1e30), message="no trainer", severity="warning"),
    a("adapter-alpha", lora().replace(ALPHA, 16, "u32"), f"field:{ALPHA}", "is u32, must be f32", severity="error",
      fix="--set adapter.lora.alpha=16", safe=True),
    a("adapter-alpha", lora().replace(ALPHA, [16.0, 1.0], "[f32]"), message="is arr[f32]", severity="error"),
    a("adapter-invocation", lora().kv(TOKENS, [1, 2], "[i32]"), f"field:{TOKENS}", "is arr[i32]", severity="error"),
    a("adapter-invocation", lora().kv(TOKENS, 7), f"field:{TOKENS}", "is u32, must be arr[u32]", severity="error"),
    a("adapter-invocation", lora().kv(TOKENS, [5, 4_000_000_000], "[u32]"), message="4,000,000,000",
      severity="warning"),
    Sample("adapter-invocation", lora().kv(TOKENS, 7), silent=lora().kv(TOKENS, [1, 2], "[u32]")),
    a("adapter-tensor-name", lora().tensor(f"{Q}.lora_A"), f"tensor:{Q}.lora_A", f"{Q}.lora_a would be one"),
    a("adapter-tensor-name", lora().tensor("base_model.model.x.q_proj.lora_A.weight"), message="that of PEFT"),
    a("adapter-tensor-name", lora().tensor("output.weight"), "tensor:output.weight", "a whole weight"),
    a("adapter-tensor-name", lora().tensor("blk.0.attn_norm.bias", (64,)), message="end with _norm.weight"),
    a("adapter-pair-incomplete", lora().drop_tensor(f"{Q}.lora_b"), f"tensor:{Q}.lora_a", "has lora_a and no lora_b"),
    a("adapter-pair-incomplete", lora().drop_tensor(f"{Q}.lora_b").tensor(f"{Q}.lora_B"), message=f"has {Q}.lora_B"),
    a("adapter-weight-unknown", pair(lora(), "blk.0.attn_qq.weight"), message="nearest name is blk.0.attn_q.weight"),
    a("adapter-weight-unknown", pair(lora(), "base_model.model.layers.0.q_proj"), message="convert_lora_to_gguf.py"),
    a("adapter-rank", lora().retensor(f"{Q}.lora_b", shape=(16, 64)), f"tensor:{Q}.lora_a", "rank 8, lora_b", fix=""),
    a("adapter-rank", lora().retensor(f"{Q}.lora_a", shape=(8, 64)), message="lora_a lies the other way round"),
    a("adapter-rank", lora().retensor(f"{Q}.lora_b", shape=(64, 8)), message="lora_b lies the other way round"),
    a("adapter-rank", lora().retensor("token_embd.weight.lora_a", shape=(300, 8)), "tensor:token_embd.weight.lora_a",
      severity="error"),
    a("adapter-rank", pair(lora(), "blk.0.attn_k.weight", rank=0), message="rank 0"),
    a("adapter-rank", pair(lora(), "blk.0.attn_k.weight", 8, 8, 64), message="than both sizes", severity="warning"),
    a("adapter-shape", pair(lora(), "blk.0.attn_k.weight", more=(2,)), "tensor:blk.0.attn_k.weight.lora_a",
      "more sizes than"),
    a("adapter-shape", lora().retensor("blk.1.ffn_up_exps.weight.lora_b", shape=(8, 128, 2)),
      message="different numbers of experts"),
    a("adapter-shape", pair(lora(), "blk.0.ffn_up_exps.weight"), message="for one expert"),
    a("adapter-tensor-type", pair(lora(), "blk.0.attn_k.weight", kind="f64"), "tensor:blk.0.attn_k.weight.lora_a",
      "is f64"),
    a("adapter-without-effect", pair(lora("deepseek2"), DEEP, out=24), f"tensor:{DEEP}.lora_a",
      "attn_kv_a_mqa", severity="warning"),
    a("adapter-without-effect", lora().drop_tensor(*[t["name"] for t in lora()._tensors]), "file", "has no pairs"),
    a("adapter-without-effect", pair(GGUF("deepseek2").kv("general.type", "adapter"), DEEP, out=24),
      message="the adapter does nothing", severity="error"),
    a("adapter-norms-aside", lora().tensor("blk.0.attn_norm.weight", (64,)), "tensor:blk.0.attn_norm.weight",
      "1 norm is passed over", severity="info"),
    v("direction-name", vector().tensor("direction.0", (64,)), "tensor:direction.0", "layers count from 1"),
    v("direction-name", vector().tensor("Direction.4", (64,)), message="the nearest is direction.4"),
    v("direction-name", vector().tensor("direction.-1", (64,)), message="runs without them", severity="error"),
    v("direction-type", vector().tensor("direction.4", (64,), "f16"), "tensor:direction.4", "is f16, must be f32"),
    v("direction-shape", vector().tensor("direction.4", (32,)), "tensor:direction.4", "32 numbers, direction.1 has 64"),
    v("direction-shape", vector().tensor("direction.4", (32, 2)), message="32 × 2, must be one row"),
    v("direction-shape", vector(1, 0), message="steers nothing"),
    v("direction-missing", GGUF("controlvector"), "file", "has no directions"),
    v("direction-layer", vector().tensor("direction.2147483647", (64,)), message="llama.cpp aborts", severity="error"),
    v("direction-layer", vector().tensor("direction.600", (64,)), message="at most 512", severity="warning"),
    v("direction-twice", vector().tensor("direction.01", (64,)), "tensor:direction.01", "they are added"),
    v("direction-count", vector().drop_tensor("direction.2"), "field:controlvector.layer_count", "is 3, there are 2"),
    i("imatrix-pair", matrix().drop_tensor(f"{Q}.counts"), f"tensor:{Q}.in_sum2", "has in_sum2 and no counts"),
    i("imatrix-pair", matrix().tensor(f"{Q}.in_sum", (32,)), f"tensor:{Q}.in_sum2", "32 plain sums and 64 squares"),
    i("imatrix-pair", matrix().tensor("x.in_sum", (32,)), "tensor:x.in_sum", "no in_sum2 and no counts"),
    i("imatrix-type", matrix().retensor(f"{Q}.in_sum2", type="f16"), f"tensor:{Q}.in_sum2", "is F16, must be F32"),
    i("imatrix-keys", matrix().drop("imatrix.chunk_count"), "field:imatrix.chunk_count", "is missing"),
    i("imatrix-keys", matrix().replace("imatrix.chunk_size", 512, "i32"), "field:imatrix.chunk_size", "is i32"),
    i("imatrix-counts", matrix().retensor(f"{Q}.counts", shape=(0,), data=b""), f"tensor:{Q}.counts", "by zero"),
    i("imatrix-counts", matrix().retensor(f"{Q}.counts", shape=(3,), data=bytes(12)), message="squares and 3"),
    i("imatrix-empty", matrix().drop_tensor(*[t["name"] for t in matrix()._tensors]), "file", "has no tensors"),
    i("imatrix-empty", GGUF().kv("general.type", "imatrix").tensor("x"), "file", "no tensor is an entry",
      severity="warning"),
    i("imatrix-never-reached", matrix().retensor(f"{Q}.counts", data=bytes(4)), f"tensor:{Q}.counts", "no token",
      context=READ),
    i("imatrix-never-reached", matrix().retensor("blk.0.ffn_up_exps.weight.counts", data=struct.pack("<2f", 0, 9)),
      "file", "1 of 2 experts", context=READ),
]  # fmt: skip
