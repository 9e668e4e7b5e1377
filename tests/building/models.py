"""Small models with fixed weights for the quantiser, the same bytes on every machine, with importance matrices."""

from __future__ import annotations

import numpy as np

from tests.build import GGUF

DENSE = {
    "general.architecture": "llama",
    "llama.context_length": 512,
    "llama.embedding_length": 256,
    "llama.block_count": 2,
    "llama.feed_forward_length": 320,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 1,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.vocab_size": 96,
}
MOE = {
    "general.architecture": "qwen3moe",
    "qwen3moe.context_length": 512,
    "qwen3moe.embedding_length": 256,
    "qwen3moe.block_count": 2,
    "qwen3moe.feed_forward_length": 256,
    "qwen3moe.expert_feed_forward_length": 256,
    "qwen3moe.attention.head_count": 4,
    "qwen3moe.attention.head_count_kv": 2,
    "qwen3moe.attention.key_length": 64,
    "qwen3moe.attention.value_length": 64,
    "qwen3moe.attention.layer_norm_rms_epsilon": 1e-6,
    "qwen3moe.expert_count": 4,
    "qwen3moe.expert_used_count": 2,
    "qwen3moe.vocab_size": 96,
}


def shapes(arch: str) -> dict[str, tuple[int, ...]]:
    """Names and shapes (fastest running first) of the tensors of `DENSE` and `MOE`."""
    found: dict[str, tuple[int, ...]] = {"token_embd.weight": (256, 96), "output_norm.weight": (256,)}
    if arch == "llama":
        found["output.weight"] = (256, 96)
    for i in range(2):
        parts: dict[str, tuple[int, ...]] = {
            "attn_norm": (256,),
            "attn_q": (256, 256),
            "attn_k": (256, 64 if arch == "llama" else 128),
            "attn_v": (256, 64 if arch == "llama" else 128),
            "attn_output": (256, 256),
            "ffn_norm": (256,),
        }
        if arch == "llama":
            parts |= {"ffn_gate": (256, 320), "ffn_up": (256, 320), "ffn_down": (320, 256)}
        else:
            parts |= {"attn_q_norm": (64,), "attn_k_norm": (64,), "ffn_gate_inp": (256, 4)}
            parts |= {f"ffn_{x}_exps": (256, 256, 4) for x in ("gate", "up", "down")}
        found |= {f"blk.{i}.{name}.weight": shape for name, shape in parts.items()}
    return found


def weights(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Numbers like those of trained weights, some columns larger than others. RandomState never changes its stream."""
    random = np.random.RandomState(seed)
    rows = random.standard_normal(tuple(reversed(shape))) * 0.05
    return (rows * (0.3 + random.uniform(size=shape[0]))).astype(np.float32)


def packed(values: np.ndarray, kind: str) -> bytes:
    """float32 values as that tensor type, by gguf-py."""
    from gguf import GGMLQuantizationType, quants

    if kind == "f32":
        return values.astype("<f4").tobytes()
    return quants.quantize(values, GGMLQuantizationType[kind.upper()]).tobytes()


def model(keys: dict[str, object], kind: str) -> GGUF:
    """A model whose matrices have the tensor type ``kind``, and whose vectors are f32."""
    built = GGUF()
    for key, value in keys.items():
        built.kv(key, value)
    built.kv("general.file_type", {"f32": 0, "f16": 1, "bf16": 32, "q8_0": 7}[kind])
    for seed, (name, shape) in enumerate(shapes(str(keys["general.architecture"])).items()):
        own = kind if len(shape) > 1 else "f32"
        built.tensor(name, shape, own, packed(weights(shape, seed), own))
    return built


def importances(arch: str) -> GGUF:
    """An importance matrix for all matrices, in the GGUF form."""
    built = GGUF().kv("general.type", "imatrix").kv("imatrix.datasets", ["calibration.txt"])
    built.kv("imatrix.chunk_count", 10).kv("imatrix.chunk_size", 512)
    for seed, (name, shape) in enumerate(shapes(arch).items()):
        if len(shape) < 2 or name == "token_embd.weight" or "gate_inp" in name:
            continue
        experts = shape[2] if len(shape) > 2 else 1
        random = np.random.RandomState(1000 + seed)
        sums = (random.uniform(size=(experts, shape[0])) ** 4 * 100 + 0.01).astype("<f4")
        counts = np.array([7.0 * (e + 1) if e != 2 else 0.0 for e in range(experts)], "<f4")
        built.tensor(f"{name}.in_sum2", (shape[0], experts), "f32", sums.tobytes())
        built.tensor(f"{name}.counts", (1, experts), "f32", counts.tobytes())
    return built


CASES = {
    "dense-f32": (DENSE, "f32"),
    "dense-f16": (DENSE, "f16"),
    "dense-q8_0": (DENSE, "q8_0"),
    "moe-bf16": (MOE, "bf16"),
}
