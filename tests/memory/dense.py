"""Dense models by their published sizes, as headers: what others measured the speed of."""

from __future__ import annotations

import mmap
import os
from math import prod
from pathlib import Path

from tests.build import GGUF

SIZES = {
    # architecture, layers, width, feed-forward, heads, of K and V, width of one, vocabulary, output of its own
    "tinyllama-1.1b": ("llama", 22, 2048, 5632, 32, 4, 64, 32003, True),
    "llama-3.2-3b": ("llama", 28, 3072, 8192, 24, 8, 128, 128256, False),
    "llama-2-7b": ("llama", 32, 4096, 11008, 32, 32, 128, 32000, True),
    "llama-2-13b": ("llama", 40, 5120, 13824, 40, 40, 128, 32000, True),
    "mistral-7b": ("llama", 32, 4096, 14336, 32, 8, 128, 32000, True),
    "qwen3-0.6b": ("qwen3", 28, 1024, 3072, 16, 8, 128, 151936, False),
    "qwen3-1.7b": ("qwen3", 28, 2048, 6144, 16, 8, 128, 151936, False),
    "qwen3-4b": ("qwen3", 36, 2560, 9728, 32, 8, 128, 151936, False),
    "qwen3-8b": ("qwen3", 36, 4096, 12288, 32, 8, 128, 151936, True),
}


ZEROS = mmap.mmap(-1, 1 << 31)
"""Data of any tensor: memory that nobody touches."""


def header(name: str) -> GGUF:
    """A model in 16 bits."""
    arch, layers, width, feed, heads, kv, size, words, output = SIZES[name]
    g = GGUF(arch).kv("general.file_type", 1)

    def tensor(called: str, shape: tuple[int, ...], kind: str = "f32") -> None:
        g.tensor(called, shape, kind, memoryview(ZEROS)[: prod(shape) * (2 if kind == "f16" else 4)])  # type: ignore[arg-type]

    for key, value in {
        "block_count": layers, "context_length": 131072, "embedding_length": width, "feed_forward_length": feed,
        "attention.head_count": heads, "attention.head_count_kv": kv, "attention.key_length": size,
        "attention.value_length": size, "attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 1e6,
        "vocab_size": words,
    }.items():  # fmt: skip
        g.kv(f"{arch}.{key}", value)
    tensor("token_embd.weight", (width, words), "f16")
    tensor("output_norm.weight", (width,))
    if output:
        tensor("output.weight", (width, words), "f16")
    for i in range(layers):
        b = f"blk.{i}."
        for norm in ("attn_norm", "ffn_norm"):
            tensor(f"{b}{norm}.weight", (width,))
        if arch == "qwen3":
            tensor(b + "attn_q_norm.weight", (size,))
            tensor(b + "attn_k_norm.weight", (size,))
        for what, shape in {
            "attn_q": (width, heads * size), "attn_k": (width, kv * size), "attn_v": (width, kv * size),
            "attn_output": (heads * size, width), "ffn_gate": (width, feed), "ffn_up": (width, feed),
            "ffn_down": (feed, width),
        }.items():  # fmt: skip
            tensor(f"{b}{what}.weight", shape, "f16")
    return g


def dense(name: str, folder: Path) -> Path:
    """The same as a file whose data is a hole."""
    path = folder / f"{name}.gguf"
    g = header(name)
    path.write_bytes(g.header())
    os.truncate(path, path.stat().st_size + sum(len(t["data"]) + 32 for t in g._tensors))
    return path
