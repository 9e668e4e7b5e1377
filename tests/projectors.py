"""Sound projectors, small: one for each projector type that llama.cpp's own shapes let one make of a few numbers.

What a tensor must look like was found with the real loader (`clip_init`): each of them loads there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.build import GGUF

Shape = tuple[int, ...]
E, F, HEADS, OUT = 32, 64, 2, 64
"""Width inside, of the feed-forward part, heads, width of what comes out."""


@dataclass
class Made:
    """A projector being made: keys and tensors by name, in the order of the file."""

    keys: dict[str, tuple[object, str | None]] = field(default_factory=dict)
    tensors: dict[str, tuple[Shape, str]] = field(default_factory=dict)

    def key(self, name: str, value: object, type: str | None = None) -> Made:
        self.keys[name] = (value, type)
        return self

    def tensor(self, name: str, *shape: int, type: str = "f32") -> Made:
        self.tensors[name] = (shape, type)
        return self

    def linear(self, name: str, n: int, m: int, bias: bool = True, type: str = "f16") -> Made:
        self.tensor(f"{name}.weight", n, m, type=type)
        return self.tensor(f"{name}.bias", m) if bias else self

    def norm(self, name: str, n: int = E, bias: bool = True) -> Made:
        self.tensor(f"{name}.weight", n)
        return self.tensor(f"{name}.bias", n) if bias else self

    def gguf(self, seed: int = 1) -> GGUF:
        out = GGUF()
        for name, (value, type) in self.keys.items():
            out.kv(name, value, type)
        for name, (shape, type) in self.tensors.items():
            out.tensor(name, shape, type)
        return out


def _head(kind: str, modality: str, layers: int, **more: object) -> Made:
    made = Made()
    made.key("general.architecture", "clip").key("general.type", "mmproj").key("general.name", f"Tiny {kind}")
    made.key("general.file_type", 1).key(f"clip.has_{modality}_encoder", True).key("clip.projector_type", kind)
    p = f"clip.{modality}."
    made.key(p + "embedding_length", E).key(p + "attention.head_count", HEADS).key(p + "feed_forward_length", F)
    made.key(p + "block_count", layers).key(p + "projection_dim", OUT)
    made.key(p + "attention.layer_norm_epsilon", 1e-6)
    for name, value in more.items():
        made.key(p + name.replace("__", "."), value)
    return made


def vision(kind: str, image: int = 56, patch: int = 14, layers: int = 1, **more: object) -> Made:
    """Keys of an encoder for images."""
    made = _head(kind, "vision", layers, image_size=image, patch_size=patch, **more)
    made.key("clip.vision.image_mean", [0.5, 0.5, 0.5]).key("clip.vision.image_std", [0.5, 0.5, 0.5])
    return made.key("clip.use_gelu", True)


def layers(made: Made, n: int = 1, prefix: str = "v", bias: bool = True, norm_bias: bool = True) -> Made:
    """The layers most encoders have."""
    for i in range(n):
        b = f"{prefix}.blk.{i}."
        for part in ("q", "k", "v", "out"):
            made.linear(f"{b}attn_{part}", E, E, bias)
        made.norm(b + "ln1", bias=norm_bias).norm(b + "ln2", bias=norm_bias)
        made.linear(b + "ffn_up", E, F, bias).linear(b + "ffn_down", F, E, bias)
    return made


def patches(made: Made, positions: int = 16, patch: int = 14, bias: bool = True) -> Made:
    """The convolution that makes patches, and their positions."""
    made.tensor("v.patch_embd.weight", patch, patch, 3, E)
    if bias:
        made.tensor("v.patch_embd.bias", E)
    return made.tensor("v.position_embd.weight", E, positions) if positions else made


def gemma3() -> Made:
    made = layers(patches(vision("gemma3", projector__scale_factor=4))).norm("v.post_ln")
    return made.tensor("mm.input_projection.weight", OUT, E, type="f16").norm("mm.soft_emb_norm", E, False)


SOUND: dict[str, Callable[[], Made]] = {"gemma3": gemma3}
"""Projector type -> a sound file of it."""
