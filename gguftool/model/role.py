"""What a GGUF file is for: a model, or one of the other things that travel in the same format.

Decided by what is in the file: its keys and the names of its tensors, in this order. `general.type` is one sign among
them, the name of the file is none. Every command asks `role`, and takes its words and its way on from `ROLES`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice

from gguftool.errors import UsageError
from gguftool.facts.layers import nextn_layers
from gguftool.model.embedder import embedder, what_it_gives
from gguftool.model.model import Model
from gguftool.model.origin import Origin, of_two_towers, origin
from gguftool.records import dataclass
from gguftool.regex import regex


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
        "gguftool launch chooses what it needs: --embeddings or --rerank, --pooling, -ub",
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
    "adapter": Role("a LoRA adapter (for --lora)", "name the base model, and give this file with --lora"),
    "control-vector": Role(
        "a control vector (for --control-vector)",
        "name the model, and give this file with --control-vector",
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
    "old": Role("a model in an old layout", "download a newer file of the same model, or convert it again"),
    "nothing": Role("an empty GGUF: no metadata and no tensors", "fetch the file again"),
}
"""Role -> what to call it and what to do with it."""

DRAFTS = frozenset({"eagle3", "dflash", "gemma4-assistant"})
"""Architectures whose context needs that of a target model (`ctx_other`, llama.cpp b11434)."""

_PROJECTOR_TENSOR = regex(r"(?:v|mm|a|resampler)\.")
_LORA = (".lora_a", ".lora_b")
_LOOKED_AT = 64
"""Tensors whose names are looked at when no key says what a file is."""


def role(m: Model) -> str:
    """The role of a file, a key of `ROLES`; ``model`` when nothing speaks against it."""
    found: str = m.once("role", lambda: _role(m))
    return found


def _role(m: Model) -> str:
    return next((name for name, is_so in _SIGNS if is_so(m)), "model")


def what_it_is(m: Model) -> str:
    """What to call the file, with the program it was made for when that is known."""
    name = role(m)
    if name == "encoder":
        return what_it_gives(m)
    what, made = ROLES[name].what, made_for(m)
    return f"{what} ({m.architecture or 'no architecture'}, made for {made})" if made else what


def made_for(m: Model) -> str:
    """The other program that a file was made for; "" when llama.cpp's own can use it or none is known."""
    found = _origin_of(m, role(m))
    return found.program.name if found is not None else ""


def way_on(m: Model) -> str:
    """What to do with a file that is no model to be launched; "" for a model."""
    name = role(m)
    found = _origin_of(m, name)
    return ROLES[name].hint if found is None else found.program.way


def _origin_of(m: Model, name: str) -> Origin | None:
    """Where a file of this role comes from."""
    found = origin(m) if name in STRANGE else None
    return found if found is not None and found.role == name else None


def only_runnable(m: Model) -> None:
    """For commands that run a model.

    Raises:
        UsageError: the file is not one that can be launched by itself; the hint says what it is for.
    """
    if not ROLES[role(m)].runs:
        raise UsageError(f"{m.name} is {what_it_is(m)}, not a model to be launched", way_on(m))


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
    if of_two_towers(m):
        return False
    if m.get("general.type") == "mmproj" or m.architecture == "clip":
        return True
    return not m.architecture and any(key.startswith("clip.") for key in m.fields) and _all(m, _PROJECTOR_TENSOR.match)


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
    found = embedder(m)
    return found is not None and found.sure


STRANGE = ("image", "audio", "foreign", "old")
"""Roles of files that llama.cpp cannot use; `gguftool.model.origin` tells them."""


def _made_elsewhere(name: str) -> Callable[[Model], bool]:
    def is_so(m: Model) -> bool:
        found = origin(m)
        return found is not None and found.role == name

    return is_so


_SIGNS: tuple[tuple[str, Callable[[Model], bool]], ...] = (
    ("imatrix", _imatrix),
    ("adapter", _adapter),
    ("control-vector", _control_vector),
    ("mmproj", _projector),
    *((name, _made_elsewhere(name)) for name in STRANGE),
    ("nothing", _nothing),
    ("vocab", _vocabulary),
    ("metadata", _without_tensors),
    ("draft", _draft),
    ("vocoder", _vocoder),
    ("encoder", _encoder),
)
"""In this order: the first that is so."""
