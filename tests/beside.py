"""Files that stand beside three layers of `tests.build.llama`: fitting ones, and levers to spoil the fit."""

from __future__ import annotations

from tests.build import GGUF, llama


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


def projector(kind: str = "gemma3", width: int = 64) -> GGUF:
    """A small one that llama.cpp loads: 56 by 56 pixels in patches of 14, one layer 32 wide."""
    g = GGUF("clip").kv("general.type", "mmproj").kv("general.name", "tiny eyes").kv("general.file_type", 1)
    g.kv("clip.has_vision_encoder", True).kv("clip.projector_type", kind).kv("clip.use_gelu", True)
    for key, value in {
        "image_size": 56, "patch_size": 14, "embedding_length": 32, "feed_forward_length": 64, "block_count": 1,
        "attention.head_count": 2, "attention.layer_norm_epsilon": 1e-6, "projection_dim": width,
        "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
    }.items():  # fmt: skip
        g.kv(f"clip.vision.{key}", value)
    g.tensor("v.patch_embd.weight", (14, 14, 3, 32), "f16").tensor("v.patch_embd.bias", (32,))
    g.tensor("v.position_embd.weight", (32, 16)).tensor("v.post_ln.weight", (32,)).tensor("v.post_ln.bias", (32,))
    for name in ("attn_q", "attn_k", "attn_v", "attn_out"):
        g.tensor(f"v.blk.0.{name}.weight", (32, 32), "f16").tensor(f"v.blk.0.{name}.bias", (32,))
    for name in ("ln1", "ln2"):
        g.tensor(f"v.blk.0.{name}.weight", (32,)).tensor(f"v.blk.0.{name}.bias", (32,))
    g.tensor("v.blk.0.ffn_up.weight", (32, 64), "f16").tensor("v.blk.0.ffn_up.bias", (64,))
    g.tensor("v.blk.0.ffn_down.weight", (64, 32), "f16").tensor("v.blk.0.ffn_down.bias", (32,))
    if kind == "idefics3":
        return g.kv("clip.vision.projector.scale_factor", 2).tensor("mm.model.fc.weight", (128, width), "f16")
    if kind == "mlp":
        g.tensor("mm.0.weight", (32, 48), "f16").tensor("mm.0.bias", (48,))
        return g.tensor("mm.2.weight", (48, width), "f16").tensor("mm.2.bias", (width,))
    return g.tensor("mm.input_projection.weight", (width, 32), "f16").tensor("mm.soft_emb_norm.weight", (32,))


def sighted(*markers: str, layers: int = 3) -> GGUF:
    """The model with tokens of its own around an image."""
    g = llama(layers=layers)
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + [f"▁t{i}" for i in range(32)]
    for i, text in enumerate(markers or ("<start_of_image>", "<end_of_image>")):
        tokens[-1 - i] = text
    return g.replace("tokenizer.ggml.tokens", tokens)


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
