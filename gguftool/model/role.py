"""What a GGUF file is for: a model, or one of the other things that travel in the same format."""

from __future__ import annotations

from gguftool.model.model import Model

ROLES: dict[str, str] = {
    "model": "a language model",
    "mmproj": "a multimodal projector (for --mmproj)",
    "adapter": "a LoRA adapter (for --lora)",
    "control-vector": "a control vector (for --control-vector)",
    "imatrix": "an importance matrix (input of llama-quantize)",
    "vocab": "a vocabulary without weights",
    "image": "an image or diffusion model",
    "nothing": "an empty GGUF: no metadata and no tensors",
}
"""Role -> what to call it."""

IMAGE_ARCHITECTURES = frozenset(
    "flux sd1 sd3 sdxl sd aura hidream cosmos ltxv hyvid wan lumina2 qwen_image pig vae unet z_image chroma".split()
)
"""`general.architecture` of files made for image programs (ComfyUI, stable-diffusion.cpp); llama.cpp knows none."""


def role(m: Model) -> str:
    """The role of a file, a key of `ROLES`; ``model`` when nothing speaks against it."""
    kind, arch = m.get("general.type"), m.architecture
    if kind == "imatrix" or "imatrix.datasets" in m or "imatrix.chunk_count" in m:
        return "imatrix"
    if kind == "adapter" or "adapter.type" in m:
        return "adapter"
    if arch == "controlvector":
        return "control-vector"
    if kind == "mmproj" or arch == "clip":
        return "mmproj"
    if arch in IMAGE_ARCHITECTURES:
        return "image"
    tensors = any(part.header.tensors or part.header.declared_tensors for part in m.parts)
    if not tensors and m.header.complete and not m.missing_shards and m.shard_count == 1:
        if not m.header.fields:
            return "nothing"
        if kind in (None, "model", "vocab") and "tokenizer.ggml.model" in m:
            return "vocab"
    return "model"
