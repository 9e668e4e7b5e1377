"""Files that stand beside three layers of `tests.build.llama`: fitting ones, and levers to spoil the fit."""

from __future__ import annotations

from tests.build import GGUF


def control_vector(width: int = 64, layers: tuple[int, ...] = (1, 2)) -> GGUF:
    g = GGUF("controlvector").kv("controlvector.model_hint", "llama").kv("controlvector.layer_count", 3)
    for n in layers:
        g.tensor(f"direction.{n}", (width,))
    return g


def lora(*weights: tuple[str, int, int], arch: str = "llama", rank: int = 4) -> GGUF:
    g = GGUF(arch).kv("general.type", "adapter").kv("adapter.type", "lora").kv("adapter.lora.alpha", 16.0)
    for name, wide, high in weights or (("blk.0.attn_q.weight", 64, 64), ("blk.2.ffn_up.weight", 64, 128)):
        g.tensor(f"{name}.lora_a", (wide, rank)).tensor(f"{name}.lora_b", (rank, high))
    return g


def imatrix(sizes: dict[str, int]) -> GGUF:
    g = GGUF().kv("general.type", "imatrix").kv("imatrix.datasets", ["calibration.txt"])
    g.kv("imatrix.chunk_count", 10).kv("imatrix.chunk_size", 512)
    for name, n in sizes.items():
        g.tensor(f"{name}.in_sum2", (n, 1)).tensor(f"{name}.counts", (1, 1))
    return g


def measured(layers: int = 3, width: int = 64) -> dict[str, int]:
    wide = {"ffn_down": 2 * width}
    names = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    return {f"blk.{n}.{name}.weight": wide.get(name, width) for n in range(layers) for name in names}
