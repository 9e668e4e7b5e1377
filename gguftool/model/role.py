"""What a GGUF file is for: a model, or one of the other things that travel in the same format.

Decided by what is in the file: its keys and the names of its tensors, in this order. `general.type` is one sign among
them, the name of the file is none. Every command asks `role`, and takes its words and its way on from `ROLES`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from gguftool.errors import UsageError
from gguftool.facts.arch import facts
from gguftool.facts.layers import nextn_layers
from gguftool.model.model import Model


@dataclass(frozen=True, slots=True)
class Role:
    """One thing that a GGUF file can be.

    Attributes:
        what: what to call it, with its article.
        hint: what to do with it; "" for a model.
        runs: it can be launched by itself.
        loads: llama.cpp loads it as it loads a model, so what is true of models is true of it.
    """

    what: str
    hint: str = ""
    runs: bool = False
    loads: bool = False


ROLES: dict[str, Role] = {
    "model": Role("a language model", runs=True, loads=True),
    "encoder": Role(
        "an embedding or reranking model",
        "launch it with -- --embeddings, or -- --reranking",
        runs=True,
        loads=True,
    ),
    "draft": Role(
        "a draft model that needs its target model (for -md)",
        "name the target model, and give this file with --model-draft",
        loads=True,
    ),
    "vocoder": Role(
        "a vocoder, which turns codes into sound",
        "it is for llama-tts, beside the model that speaks: llama-tts -m MODEL -mv FILE",
        loads=True,
    ),
    "mmproj": Role(
        "a multimodal projector (for --mmproj)", "name the language model, and give this file with --mmproj"
    ),
    "adapter": Role(
        "a LoRA adapter (for --lora)", "name the base model, and give this file behind the dashes: -- --lora FILE"
    ),
    "control-vector": Role(
        "a control vector (for --control-vector)",
        "name the model, and give this file behind the dashes: -- --control-vector FILE",
    ),
    "imatrix": Role(
        "an importance matrix (input of llama-quantize)",
        "give it to `gguftool quantize`, with --imatrix",
    ),
    "vocab": Role("a vocabulary without weights", "name the model itself"),
    "metadata": Role("metadata without tensors", "name the model itself", loads=True),
    "image": Role("an image or diffusion model", "use the program it was made for"),
    "audio": Role("a speech or audio model", "use the program it was made for"),
    "foreign": Role("a model of another program", "use the program it was made for"),
    "nothing": Role("an empty GGUF: no metadata and no tensors", "fetch the file again"),
}
"""Role -> what to call it and what to do with it."""

DRAFTS = frozenset({"eagle3", "dflash", "gemma4-assistant"})
"""Architectures whose context needs that of a target model (`ctx_other`, llama.cpp b11434)."""

_COMFY = "ComfyUI or stable-diffusion.cpp"
_MADE_FOR: tuple[tuple[str, str, str], ...] = (
    (
        "image",
        _COMFY,
        "flux flux2 kontext sd sd1 sd2 sd3 sdxl aura auraflow chroma cosmos hidream hyvid hunyuan_image hunyuan_video "
        "ideogram ltxv lumina2 mochi omnigen omnigen2 pig pixart qwen_image sana svd unet vae wan z_image "
        "clip_g clip_l clip_vision clip-vision",
    ),
    ("audio", "whisper.cpp and its kin", "whisper"),
    ("audio", "TTS.cpp and its kin", "kokoro outetts parler-tts dia orpheus csm bark chatterbox f5-tts"),
    (
        "audio",
        "a speech program of its own",
        "cosyvoice moonshine musicgen parakeet piper sensevoice vibevoice",
    ),
    ("foreign", "Ollama's own engine", "mllama gptoss qwen25vl deepseekocr glmocr glm4moelite"),
    ("foreign", "bitnet.cpp of microsoft/BitNet", "bitnet-b1.58 bitnet-25"),
)
OTHERS: dict[str, tuple[str, str]] = {
    arch: (kind, program) for kind, program, archs in _MADE_FOR for arch in archs.split()
}
"""`general.architecture` of files made for other programs -> role and program; llama.cpp b11434 knows none of them."""

BITNET_TYPES = {36: "I2_S", 37: "I8_S", 38: "TL1"}
"""Tensor types of bitnet.cpp; llama.cpp once used these ids for repacked IQ4_NL."""
_BITNETS = ("bitnet", "bitnet-b1.58", "bitnet-25")

_IMAGE_TENSOR = re.compile(
    r"(?:model\.diffusion_model|first_stage_model|cond_stage_model|text_encoders|double_blocks|single_blocks"
    r"|joint_blocks|joint_transformer_blocks|single_transformer_blocks|transformer_blocks|input_blocks|down_blocks"
    r"|double_stream_blocks|double_layers|distilled_guidance_layer|img_in|txt_in|patch_embedding|text_model"
    r"|(?:en|de)coder\.(?:conv_in|down_blocks|up_blocks))\."
)
_AUDIO_TENSOR = re.compile(r"(?:encoder\.(?:conv1|blocks\.\d+\.attn)|decoder\.blocks\.\d+\.cross_attn)\.")
_PROJECTOR_TENSOR = re.compile(r"(?:v|mm|a|resampler)\.")
_OWN_TENSOR = re.compile(
    r"(?:token_embd|token_types|position_embd|output|output_norm|rope_freqs|(?:enc\.|dec\.)?blk\.\d+)\."
)
"""Names that llama.cpp gives to tensors of a language model (`llama-arch.cpp`, b11434)."""
_LORA = (".lora_a", ".lora_b")
_LOOKED_AT = 64
"""Tensors whose names are looked at when no key says what a file is."""


def role(m: Model) -> str:
    """The role of a file, a key of `ROLES`; ``model`` when nothing speaks against it."""
    return next((name for name, is_so in _SIGNS if is_so(m)), "model")


def what_it_is(m: Model) -> str:
    """What to call the file, with the program it was made for when that is known."""
    name = role(m)
    program = made_for(m)
    arch = m.architecture or "no architecture"
    return f"{ROLES[name].what} ({arch}, made for {program})" if program else ROLES[name].what


def made_for(m: Model) -> str:
    """The other program that a file was made for; "" when llama.cpp's own can use it or none is known."""
    name, arch = role(m), m.architecture
    if name not in ("image", "audio", "foreign"):
        return ""
    if bitnet_types(m):
        return OTHERS["bitnet-b1.58"][1]
    if arch in OTHERS:
        return OTHERS[arch][1]
    return {"image": _COMFY, "audio": "a speech program of its own"}.get(name, "a program that is not known")


def only_runnable(m: Model) -> None:
    """For commands that run a model.

    Raises:
        UsageError: the file is not one that can be launched by itself; the hint says what it is for.
    """
    found = ROLES[role(m)]
    if not found.runs:
        raise UsageError(f"{m.name} is {what_it_is(m)}, not a model to be launched", found.hint)


def bitnet_types(m: Model) -> frozenset[int]:
    """Tensor types of bitnet.cpp in a model of its architectures."""
    if m.architecture not in _BITNETS:
        return frozenset()
    return frozenset(t.info.type_id for t in m.all_tensors() if t.info.type_id in BITNET_TYPES)


def sidecar_by_name(path: str) -> str:
    """The role that a file name alone speaks for, "" for a model; as llama.cpp sorts the files of a folder.

    Source: `common/download.cpp:gguf_filename_is_model` (b11434), which looks for these anywhere in the name.
    """
    name = os.path.basename(path).lower()
    return next((kind for part, kind in _NAMES if part in name), "")


_NAMES = (
    ("mmproj", "mmproj"),
    ("imatrix", "imatrix"),
    *((part, "draft") for part in ("mtp-", "eagle3-", "dflash-", "dspark-")),
)


def _names(m: Model) -> Iterator[str]:
    return (t.name for t in islice(m.all_tensors(), _LOOKED_AT))


def _all(m: Model, fits: Callable[[str], object]) -> bool:
    """Whether there are tensors and the first of them all have such names."""
    names = list(_names(m))
    return bool(names) and all(map(fits, names))


def _imatrix(m: Model) -> bool:
    if m.get("general.type") == "imatrix" or "imatrix.datasets" in m or "imatrix.chunk_count" in m:
        return True
    return _all(m, lambda name: name.endswith((".in_sum", ".in_sum2", ".counts")))


def _adapter(m: Model) -> bool:
    if m.get("general.type") == "adapter" or "adapter.type" in m:
        return True
    # Norms may stand beside the pairs (`llama-adapter.cpp:llama_adapter_lora_init_impl`, b11434).
    pairs = any(name.endswith(_LORA) for name in _names(m))
    return pairs and _all(m, lambda name: name.endswith((*_LORA, "_norm.weight")))


def _control_vector(m: Model) -> bool:
    if m.architecture == "controlvector" or "controlvector.model_hint" in m:
        return True
    return _all(m, lambda name: name.startswith("direction."))


def _projector(m: Model) -> bool:
    if m.get("general.type") == "mmproj" or m.architecture == "clip":
        return True
    return not m.architecture and any(key.startswith("clip.") for key in m.fields) and _all(m, _PROJECTOR_TENSOR.match)


def _another(kind: str, tensor: re.Pattern[str] | None) -> Callable[[Model], bool]:
    def is_so(m: Model) -> bool:
        arch = m.architecture
        if facts(arch) is not None:
            return False
        if arch in OTHERS:
            return OTHERS[arch][0] == kind
        return tensor is not None and any(tensor.match(name) for name in _names(m))

    return is_so


def _no_name_of_ours(m: Model) -> bool:
    """Neither an architecture nor a tensor that llama.cpp has a name for: it was not made for llama.cpp."""
    if m.architecture or not m.header.complete or m.missing_shards:
        return False
    return _all(m, lambda name: not _OWN_TENSOR.match(name))


def _bitnet(m: Model) -> bool:
    return bool(bitnet_types(m))


def _without_tensors(m: Model) -> bool:
    if any(part.header.tensors or part.header.declared_tensors for part in m.parts):
        return False
    return m.header.complete and not m.missing_shards and m.shard_count == 1


def _nothing(m: Model) -> bool:
    return _without_tensors(m) and not m.header.fields


def _vocabulary(m: Model) -> bool:
    kinds = (None, "model", "vocab")
    return _without_tensors(m) and m.get("general.type") in kinds and "tokenizer.ggml.model" in m


def _draft(m: Model) -> bool:
    if m.architecture in DRAFTS:
        return True
    # `mtp_only` of the loaders: the head that predicts further tokens is there, the first layer is not.
    if m.missing_shards or not m.header.complete or not nextn_layers(m.arch):
        return False
    names = [t.name for t in m.all_tensors()]
    return any(".nextn." in name for name in names) and not any(name.startswith("blk.0.") for name in names)


def _vocoder(m: Model) -> bool:
    return m.architecture == "wavtokenizer-dec"


def _encoder(m: Model) -> bool:
    known = facts(m.architecture)
    if known is None or known.unsupported:
        return False
    if known.memory == "none":
        return "diffusion" not in known.flags
    # 0 is "no pooling", which a chat model may say too (`llama.h:llama_pooling_type`).
    return m.architecture in ("t5encoder", "llama-embed") or 1 <= m.arch.int("pooling_type") <= 4


_SIGNS: tuple[tuple[str, Callable[[Model], bool]], ...] = (
    ("imatrix", _imatrix),
    ("adapter", _adapter),
    ("control-vector", _control_vector),
    ("mmproj", _projector),
    ("foreign", _bitnet),
    ("image", _another("image", _IMAGE_TENSOR)),
    ("audio", _another("audio", _AUDIO_TENSOR)),
    ("foreign", _another("foreign", None)),
    ("foreign", _no_name_of_ours),
    ("nothing", _nothing),
    ("vocab", _vocabulary),
    ("metadata", _without_tensors),
    ("draft", _draft),
    ("vocoder", _vocoder),
    ("encoder", _encoder),
)
"""In this order: the first that is so."""
