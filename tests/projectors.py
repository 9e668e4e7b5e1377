"""Sound projectors, small: one for each projector type that llama.cpp's own shapes let one make of a few numbers.

What a tensor must look like was found with the real loader (`clip_init`, b11434; gemma4v: b11549): each of them loads
there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.build import GGUF, TENSOR

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

    def gguf(self) -> GGUF:
        """The file; its data is zeros, which no load looks at."""
        out = GGUF()
        for name, (value, type) in self.keys.items():
            out.kv(name, value, type)
        for name, (shape, type) in self.tensors.items():
            _, block, size = TENSOR[type]
            out.tensor(name, shape, type, data=bytes(math.prod(shape) * size // block))
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


def mlp() -> Made:
    """LLaVA 1.5: the last layer is not run."""
    made = layers(patches(vision("mlp", layers=2), 17, bias=False), 2)
    made.tensor("v.class_embd", E).norm("v.pre_ln").norm("v.post_ln")
    return made.linear("mm.0", E, OUT).linear("mm.2", OUT, OUT)


def ldpv2() -> Made:
    """MobileVLM 2, whose graph has room for 24 patches on each side and no other number."""
    made = layers(patches(vision("ldpv2", image=336, layers=2), 577, bias=False), 2)
    made.tensor("v.class_embd", E).norm("v.pre_ln")
    made.linear("mm.model.mlp.0", E, OUT).linear("mm.model.mlp.2", OUT, OUT)
    return made.tensor("mm.model.peg.0.weight", 3, 3, 1, OUT, type="f16").tensor("mm.model.peg.0.bias", OUT)


def idefics3() -> Made:
    made = layers(patches(vision("idefics3", projector__scale_factor=4, preproc_image_size=112))).norm("v.post_ln")
    return made.tensor("mm.model.fc.weight", E * 16, OUT, type="f16")


def lfm2() -> Made:
    made = layers(patches(vision("lfm2", projector__scale_factor=2))).norm("v.post_ln")
    return made.norm("mm.input_norm", E * 4).linear("mm.1", E * 4, F).linear("mm.2", F, OUT)


def janus_pro() -> Made:
    made = layers(patches(vision("janus_pro"))).norm("v.post_ln")
    return made.linear("mm.0", E, OUT).linear("mm.1", OUT, OUT)


def phi4() -> Made:
    made = layers(patches(vision("phi4", image_min_pixels=12544, image_max_pixels=602112)))
    return made.norm("v.post_ln").linear("mm.0", E, OUT).linear("mm.2", OUT, OUT)


def pixtral() -> Made:
    made = vision("pixtral", spatial_merge_size=2)
    layers(patches(made, 0, bias=False), bias=False, norm_bias=False).norm("v.pre_ln", bias=False)
    made.linear("mm.1", E, F).linear("mm.2", F, OUT).tensor("v.token_embd.img_break", OUT)
    return made.norm("mm.input_norm", E, False).tensor("mm.patch_merger.weight", E * 4, E, type="f16")


def lightonocr() -> Made:
    made = pixtral().key("clip.projector_type", "lightonocr")
    del made.tensors["v.token_embd.img_break"]
    return made


def kimivl() -> Made:
    made = layers(patches(vision("kimivl", projector__scale_factor=2))).norm("v.post_ln")
    return made.norm("mm.input_norm", E).linear("mm.1", E * 4, F).linear("mm.2", F, OUT)


def internvl() -> Made:
    made = layers(patches(vision("internvl", projector__scale_factor=2), 17)).tensor("v.class_embd", E)
    made.norm("mm.model.mlp.0", E * 4)
    return made.linear("mm.model.mlp.1", E * 4, F).linear("mm.model.mlp.3", F, OUT)


def llama4() -> Made:
    made = (
        layers(patches(vision("llama4", projector__scale_factor=2), 17, bias=False)).norm("v.pre_ln").norm("v.post_ln")
    )
    made.tensor("v.class_embd", E).tensor("mm.model.fc.weight", F, OUT, type="f16")
    made.tensor("v.patch_embd.weight", 14 * 14 * 3, E, type="f16")
    return made.linear("mm.model.mlp.1", E * 4, F, False).linear("mm.model.mlp.2", F, F, False)


def qwen2vl() -> Made:
    made = layers(patches(vision("qwen2vl_merger"), 0, bias=False)).norm("v.post_ln")
    made.tensor("v.patch_embd.weight.1", 14, 14, 3, E)
    return made.linear("mm.0", E * 4, E * 4).linear("mm.2", E * 4, OUT)


def qwen25vl() -> Made:
    made = vision("qwen2.5vl_merger", layers=2, n_wa_pattern=2)
    layers(patches(made, 0, bias=False), 2, norm_bias=False).norm("v.post_ln", bias=False)
    for i in range(2):
        made.linear(f"v.blk.{i}.ffn_gate", E, F)
    made.tensor("v.patch_embd.weight.1", 14, 14, 3, E).key("clip.use_gelu", False).key("clip.use_silu", True)
    return made.linear("mm.0", E * 4, E * 4).linear("mm.2", E * 4, OUT)


def qwen3vl() -> Made:
    """With one deepstack layer, so its embeddings are twice as wide."""
    made = patches(vision("qwen3vl_merger"), 16).norm("v.post_ln")
    layers(made)
    for part in ("q", "k", "v"):
        for end in ("weight", "bias"):
            del made.tensors[f"v.blk.0.attn_{part}.{end}"]
    made.linear("v.blk.0.attn_qkv", E, 3 * E).tensor("v.patch_embd.weight.1", 14, 14, 3, E)
    made.norm("v.deepstack.0.norm", E * 4).linear("v.deepstack.0.fc1", E * 4, E * 4)
    made.linear("v.deepstack.0.fc2", E * 4, OUT // 2)
    return made.linear("mm.0", E * 4, E * 4).linear("mm.2", E * 4, OUT // 2)


def resampler() -> Made:
    """MiniCPM-V: heads of 128, so the width is that of one."""
    made = layers(patches(vision("resampler"), 4900)).norm("v.post_ln").key("clip.minicpmv_version", 3, "i32")
    made.key("clip.minicpmv_query_num", 64)
    wide = 128
    made.tensor("resampler.pos_embed_k", wide, 4900).tensor("resampler.query", wide, 64)
    made.tensor("resampler.proj.weight", wide, wide, type="f16").tensor("resampler.kv.weight", E, wide, type="f16")
    for part in ("q", "k", "v", "out"):
        made.linear(f"resampler.attn.{part}", wide, wide)
    for part in ("q", "kv", "post"):
        made.norm(f"resampler.ln_{part}", wide)
    return made


def glm_edge() -> Made:
    made = layers(patches(vision("adapter"), 16)).tensor("adapter.conv.weight", 2, 2, E, OUT, type="f16")
    made.tensor("adapter.conv.bias", OUT).linear("adapter.linear.linear", OUT, OUT, False).norm(
        "adapter.linear.norm1", OUT
    )
    made.linear("adapter.linear.dense_h_to_4h", OUT, F, False).linear("adapter.linear.gate", OUT, F, False)
    made.linear("adapter.linear.dense_4h_to_h", F, OUT, False)
    return made.tensor("adapter.boi", OUT).tensor("adapter.eoi", OUT)


def glm4v() -> Made:
    made = vision("glm4v").key("clip.use_gelu", False).key("clip.use_silu", True)
    layers(patches(made, 16), bias=False, norm_bias=False)
    made.linear("v.blk.0.ffn_gate", E, F, False).tensor("v.patch_embd.weight.1", 14, 14, 3, E)
    made.norm("v.norm_embd", E, False).norm("v.post_ln", E, False)
    for part in ("q", "k", "v"):
        del made.tensors[f"v.blk.0.attn_{part}.weight"]
    made.linear("v.blk.0.attn_qkv", E, 3 * E, False)
    made.linear("mm.model.fc", OUT, OUT, False).linear("mm.up", OUT, F, False).linear("mm.gate", OUT, F, False)
    made.linear("mm.down", F, OUT, False).norm("mm.post_norm", OUT)
    return made.tensor("mm.patch_merger.weight", 2, 2, E, OUT, type="f16").tensor("mm.patch_merger.bias", OUT)


def cogvlm() -> Made:
    made = layers(patches(vision("cogvlm"), 17)).tensor("v.class_embd", E)
    for part in ("q", "k", "v"):
        for end in ("weight", "bias"):
            del made.tensors[f"v.blk.0.attn_{part}.{end}"]
    made.linear("v.blk.0.attn_qkv", E, 3 * E).linear("mm.model.fc", E, OUT, False).norm("mm.post_fc_norm", OUT)
    made.linear("mm.up", OUT, F, False).linear("mm.gate", OUT, F, False).linear("mm.down", F, OUT, False)
    return made.tensor("v.boi", OUT).tensor("v.eoi", OUT)


def nemotron() -> Made:
    made = layers(patches(vision("nemotron_v2_vl", projector__scale_factor=2), 26)).tensor("v.class_embd", E, 10)
    made.tensor("v.position_embd.weight", E, 16)
    made.norm("mm.model.mlp.0", E * 4, False)
    return made.linear("mm.model.mlp.1", E * 4, F, False).linear("mm.model.mlp.3", F, OUT, False)


def paddleocr() -> Made:
    made = layers(patches(vision("paddleocr", image_min_pixels=12544, image_max_pixels=602112))).norm("v.post_ln")
    return made.norm("mm.input_norm", E).linear("mm.1", E * 4, F).linear("mm.2", F, OUT)


def dots_ocr() -> Made:
    made = vision("dots_ocr", projector__scale_factor=2, image_min_pixels=12544, image_max_pixels=602112)
    layers(patches(made, 0), bias=False, norm_bias=False).key("clip.use_gelu", False).key("clip.use_silu", True)
    made.linear("v.blk.0.ffn_gate", E, F, False).norm("v.pre_ln", E, False).norm("mm.post_norm", E, False)
    return made.norm("mm.input_norm", E).linear("mm.0", E * 4, F).linear("mm.2", F, OUT)


def gemma4v() -> Made:
    made = vision("gemma4v", image=224)
    layers(patches(made, 0, bias=False), bias=False, norm_bias=False).tensor("v.position_embd.weight", E, 64, 2)
    made.linear("v.blk.0.ffn_gate", E, F, False)
    for part in ("attn_q_norm", "attn_k_norm"):
        made.norm(f"v.blk.0.{part}", E // HEADS, False)
    made.tensor("v.blk.0.attn_q.input_max", 1).tensor("v.blk.0.attn_q.input_min", 1)
    return made.linear("mm.input_projection", E, OUT, False)


def _audio(kind: str, **more: object) -> Made:
    made = _head(kind, "audio", 1, num_mel_bins=16, **more).tensor("a.position_embd.weight", E, 1500)
    for i, n in ((1, 16), (2, E)):
        made.tensor(f"a.conv1d.{i}.weight", 3, n, E, type="f16").tensor(f"a.conv1d.{i}.bias", 1, E)
    layers(made, prefix="a").norm("a.post_ln")
    del made.tensors["a.blk.0.attn_k.bias"]
    return made


def ultravox() -> Made:
    made = _audio("ultravox", projector__stack_factor=8)
    made.norm("mm.a.norm_pre", E * 8, False).norm("mm.a.norm_mid", F, False)
    return made.linear("mm.a.mlp.1", E * 8, F * 2, False).linear("mm.a.mlp.2", F, OUT, False)


def qwen2a() -> Made:
    return _audio("qwen2a").linear("mm.a.fc", E, OUT)


def voxtral() -> Made:
    made = _audio("voxtral", projector__stack_factor=4)
    return made.linear("mm.a.mlp.1", E * 4, F, False).linear("mm.a.mlp.2", F, OUT, False)


def musicflamingo() -> Made:
    return _audio("musicflamingo").linear("mm.a.mlp.1", E, F).linear("mm.a.mlp.2", F, OUT)


def meralion() -> Made:
    made = _audio("meralion", projector__stack_factor=5).norm("mm.a.norm_pre", E * 5)
    made.linear("mm.a.mlp.0", E * 5, F).linear("mm.a.mlp.1", F, F).linear("mm.a.mlp.2", F, F)
    return made.linear("mm.a.mlp.3", F, OUT)


def glma() -> Made:
    made = _audio("glma", projector__stack_factor=4).norm("mm.a.norm_pre", E)
    made.linear("mm.a.mlp.1", E * 4, F).linear("mm.a.mlp.2", F, OUT)
    return made.tensor("v.boi", OUT).tensor("v.eoi", OUT)


def both() -> Made:
    """Qwen 2.5 Omni: one file for images and sound, under the type that stands for both."""
    made = qwen25vl().key("clip.projector_type", "qwen2.5o")
    sound = qwen2a()
    made.keys |= {k: v for k, v in sound.keys.items() if ".audio" in k or "has_audio" in k}
    made.tensors |= sound.tensors
    return made


SOUND: dict[str, Callable[[], Made]] = {
    made().keys["clip.projector_type"][0]: made  # type: ignore[misc]
    for made in (
        gemma3, mlp, ldpv2, idefics3, lfm2, janus_pro, phi4, pixtral, lightonocr, kimivl, internvl, llama4, qwen2vl,
        qwen25vl, gemma4v, qwen3vl, glm_edge, glm4v, cogvlm, nemotron, paddleocr, dots_ocr, ultravox, qwen2a, voxtral,
        musicflamingo, meralion, glma, both, resampler,
    )
}  # fmt: skip
"""Projector type -> a sound file of it."""
