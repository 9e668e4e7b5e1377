"""Projector: what `clip.cpp` asks of a file that is given with --mmproj."""

from __future__ import annotations

from tests.lint.samples import Sample
from tests.projectors import SOUND, Made


def g(kind: str = "gemma3") -> Made:
    return SOUND[kind]()


def without(made: Made, *names: str) -> Made:
    for name in names:
        made.keys.pop(name, None)
        made.tensors.pop(name, None)
    return made


def p(rule: str, fires: Made, where: str = "", message: str = "", **more: object) -> Sample:
    return Sample(rule, fires.gguf(), where, message, silent=g().gguf(), **more)  # type: ignore[arg-type]


V, HAS, TYPE = "clip.vision.", "clip.has_vision_encoder", "clip.projector_type"
MEAN, STD = V + "image_mean", V + "image_std"
SAMPLES = [
    p("projector-encoder", without(g(), HAS), f"field:{HAS}", "no encoder is named", fix=f"--set {HAS}=true",
      safe=True),
    p("projector-encoder", g().key(HAS, 1, "u32"), f"field:{HAS}", "is u32, must be a bool", fix=f"--set {HAS}=true"),
    p("projector-encoder", g().key("clip.has_audio_encoder", True), "field:clip.has_audio_encoder",
      "no tensor a.*", fix="--set clip.has_audio_encoder=false", safe=True),
    p("projector-type", g().key(TYPE, "gemma-3"), f"field:{TYPE}", "did you mean gemma3?", fix=f"--set {TYPE}=gemma3"),
    p("projector-type", g().key(TYPE, "locateanything"), f"field:{TYPE}", "which llama.cpp does not know"),
    p("projector-type", without(g("pixtral"), TYPE), f"field:{TYPE}", "is missing", fix=f"{TYPE}="),
    p("projector-widths", g("qwen2.5o").tensor("mm.a.fc.weight", 32, 96, type="f16").tensor("mm.a.fc.bias", 96),
      "file", "images come out in 64 numbers, sound in 96"),
    p("projector-key-missing", without(g(), V + "patch_size"), f"field:{V}patch_size", "of type gemma3",
      fix=f"--set {V}patch_size=14"),
    p("projector-key-missing", without(g(), V + "block_count", V + "feed_forward_length"), f"field:{V}block_count"),
    p("projector-key-missing", without(g("ultravox"), "clip.audio.projector.stack_factor"), message="of type ultravox"),
    p("projector-key-type", g().key(V + "block_count", 1, "u64"), f"field:{V}block_count", "is u64, must be u32",
      fix=f"--set {V}block_count", safe=True),
    p("projector-key-type", g().key(MEAN, [1, 1, 1], "[i32]"), f"field:{MEAN}", "must be arr[f32]"),
    p("projector-key-type", g().key("general.name", 5), "field:general.name", "must be str"),
    p("projector-image-mean", g().key(MEAN, [0.5, 0.5]), f"field:{MEAN}", "has 2 values, 3 are needed"),
    p("projector-image-mean", without(g(), STD), f"field:{STD}", "is missing"),
    p("projector-image-mean", g().key(STD, [0.0, 1.0, 1.0]), f"field:{STD}", severity="warning"),
    p("projector-value", g().key(V + "image_size", 9000), f"field:{V}image_size", "too large (max 8192)",
      fix=f"--set {V}image_size=56", safe=True),
    p("projector-value", g().key("clip.use_silu", True), "field:clip.use_gelu", "both use_gelu and use_silu"),
    p("projector-value", g().key(V + "patch_size", 0), f"field:{V}patch_size", "must be positive"),
    p("projector-value", g("internvl").key(V + "preproc_max_tiles", 0), f"field:{V}preproc_max_tiles", "aborts"),
    p("projector-positions", g().key(V + "image_size", 112), f"field:{V}image_size",
      "112 makes 64 patches of 14, v.position_embd.weight has 16 rows", fix=f"--set {V}image_size=56"),
    p("projector-positions", g("mlp").key(V + "image_size", 28), message="has 17 rows (one of them for the whole"),
    p("projector-tensor-missing", without(g(), "mm.soft_emb_norm.weight"), "tensor:mm.soft_emb_norm.weight", "gemma3"),
    p("projector-tensor-missing", g().key(V + "block_count", 2), f"field:{V}block_count", "the tensors say 1",
      fix=f"--set {V}block_count=1", safe=True),
    p("projector-tensor-shape", g().tensor("mm.soft_emb_norm.weight", 33), "tensor:mm.soft_emb_norm.weight",
      "does not fit into the graph: GGML_ASSERT(ggml_can_repeat(b, a)) failed"),
    p("projector-tensor-shape", g("internvl").key(V + "image_size", 112), f"field:{V}image_size", "the tensors say 56",
      fix=f"--set {V}image_size=56", safe=True),
    p("projector-tensor-type", g("janus_pro").tensor("v.patch_embd.weight", 14, 14, 3, 32, type="f64"),
      message="is F64"),
]  # fmt: skip
