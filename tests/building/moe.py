"""A mixture of four experts with a tokenizer of bytes, the same bytes on every machine; a text whose tokens it knows.

tests/data/imatrix was measured on it with llama-imatrix (b11434), see tests/data/README.md.
"""

from __future__ import annotations

from tests.build import GGUF
from tests.building.models import MOE, packed, shapes, weights

TOKENS = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abcdefghijklmnopqrstuvwxyz.,"]
TEXT = "the hen and the fox ran far, far from the old mill. " * 12


def moe(kind: str = "f32") -> GGUF:
    """`MOE` with a vocabulary."""
    built = GGUF()
    for key, value in {**MOE, "qwen3moe.vocab_size": len(TOKENS)}.items():
        built.kv(key, value)
    built.kv("general.file_type", {"f32": 0, "f16": 1}[kind])
    built.kv("tokenizer.ggml.model", "llama").kv("tokenizer.ggml.tokens", TOKENS)
    built.kv("tokenizer.ggml.scores", [0.0] * len(TOKENS))
    built.kv("tokenizer.ggml.token_type", [2, 3, 3, *[6] * 256, *[1] * 29], "[i32]")
    built.kv("tokenizer.ggml.bos_token_id", 1).kv("tokenizer.ggml.eos_token_id", 2)
    for seed, (name, shape) in enumerate(shapes("qwen3moe").items()):
        size = (256, len(TOKENS)) if name == "token_embd.weight" else shape
        own = kind if len(shape) > 1 else "f32"
        built.tensor(name, size, own, packed(weights(size, seed), own))
    return built
