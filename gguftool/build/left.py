"""What is in a source folder and not in what was made of it: tensors by group, files, settings; why, and the way on.

Which tensors the converter took it says itself, through `converter_driver.py`; before it has run their names tell, as
far as they do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from gguftool.brief import short_repr
from gguftool.build.converter import Converter
from gguftool.build.converter_driver import TOLD
from gguftool.build.folder.look import Folder
from gguftool.build.runs import ELSE, LONGEST, dense_modules, is_encoder, makes_projector
from gguftool.errors import GgufToolError
from gguftool.facts import llama_cpp
from gguftool.facts.converters import known
from gguftool.facts.generation import without_key
from gguftool.quantity import human
from gguftool.reading import Malformed, from_json, json_file
from gguftool.records import dataclass, field
from gguftool.regex import regex
from gguftool.shell import gguftool, path_word


@dataclass(frozen=True, slots=True)
class Left:
    """Something that is in the source and in no file that was made.

    Attributes:
        kind: ``tensors``, ``file`` or ``setting``.
        what: in words, one of a kind: ``an encoder of images``.
        names: tensors of the source, or names in its folder.
        nbytes: of them in the source; 0 for a setting.
        why: why it is not there.
        way: what gives it all the same, a command where there is one; "" where nothing does.
    """

    kind: str
    what: str
    names: tuple[str, ...]
    nbytes: int
    why: str
    way: str = ""

    __repr__ = short_repr

    @property
    def line(self) -> str:
        """All of it in words."""
        sized = f" ({human(self.nbytes)})" if self.nbytes else ""
        if self.kind == "tensors":
            many = f"{len(self.names):,} tensors" if self.names[1:] else "one tensor"
            what = f"{self.what}: {many}{sized}, {self.names[0]}{' …' if self.names[1:] else ''}"
        elif self.kind == "file":
            what = f"{self.what}: {', '.join(self.names[:_SHOWN])}{' …' if self.names[_SHOWN:] else ''}{sized}"
        else:
            what = self.what
        return f"{what}: {self.why}" + (f"; {self.way}" if self.way else "")


def rows(left: Iterable[Left]) -> list[dict[str, object]]:
    """The same as data; of many names the first."""
    return [
        {
            "kind": one.kind,
            "what": one.what,
            "count": len(one.names),
            "names": list(one.names[:_LISTED]),
            "bytes": one.nbytes,
            "why": one.why,
            "way": one.way or None,
        }
        for one in left
    ]


_SHOWN, _LISTED = 3, 20
"""Names in a line, and in a row."""


@dataclass(slots=True)
class Told:
    """What one run of the converter said of the tensors of the source; names as they stand there.

    Attributes:
        unused: those that it did not take, or that nothing came of.
        complete: it said so at all; an older converter does not.
        mtp: its class of this model can give the MTP layers alone.
    """

    unused: set[str] = field(default_factory=set)
    complete: bool = False
    mtp: bool = False

    def hear(self, line: str) -> bool:
        """Take a line of its log; False for one that is about something else."""
        if not line.startswith(TOLD):
            return False
        try:
            found = from_json(line[len(TOLD) :])
        except Malformed:
            return True
        for name, value in found.items() if isinstance(found, Mapping) else ():
            if isinstance(value, list):
                self.unused |= {text for text in value if isinstance(text, str)}
            elif name == "mtp":
                self.mtp, self.complete = value is True, True
        return True


@dataclass(frozen=True, slots=True)
class Asked:
    """How a folder is converted, as far as it decides what is left out.

    Attributes:
        tool: the converter; None before one is there.
        projector: the projector is wanted.
        more: arguments of the user for the converter.
        made: names of the tensors in the model that was made; None before.
    """

    tool: Converter | None
    projector: bool = True
    more: tuple[str, ...] = ()
    made: frozenset[str] | None = None


def left_out(folder: Folder, asked: Asked, told: Sequence[Told] | None) -> tuple[Left, ...]:
    """What of a folder is in nothing that was made of it.

    Args:
        folder: the source.
        asked: how it is converted.
        told: what each run of the converter said; None before it ran, and then only what names tell is told.
    """
    return (*_tensors(folder, asked, told), *_files(folder, asked), *_settings(folder))


# -- tensors

_BUFFERS = regex(
    r"(?:.*\.)?(?:inv_freq|masked_bias|attn\.bias|attention\.bias|position_ids|num_batches_tracked|rotary_emb\.\w+"
    r"|original_inv_freq|relative_position_index)$"
)
"""Numbers that every program works out by itself: nothing is lost with them."""
_SCALES = regex(r".*\.(?:input_scale|activation_scale|k_scale|v_scale|q_scale|kv_scale|output_scale|input_amax)$")
_VOICE = regex(r"(?:.*\.)?(?:talker|token2wav|code2wav)\.")
_SOUND = regex(r".*(?:audio|sound|speech|conformer|whisper)")
_MTP = regex(r"(?:model\.)?mtp[._]|.*\.(?:nextn|eh_proj|enorm|hnorm|shared_head)\.|.*\bmtp_")
_LAYER = regex(r"(?:model\.|transformer\.|language_model\.)*(?:layers|h|blocks)\.(\d{1,6})\.")
_HEAD = regex(r"(?:.*\.)?lm_head\.(?:weight|bias)$")


def _tensors(folder: Folder, asked: Asked, told: Sequence[Told] | None) -> Iterator[Left]:
    if ELSE & {word.partition("=")[0] for word in asked.more}:
        return  # a part of the model is what was asked for
    sizes = {entry.name: entry.nbytes for entry in folder.tensors}
    if told is None:
        makes = asked.projector and asked.tool is not None and makes_projector(folder, asked.tool)
        unused = {n for n in sizes if _VOICE.match(n[:LONGEST]) or (is_encoder(n) and not makes)}
    elif not told or not all(one.complete for one in told):
        return
    else:
        unused = set.intersection(*(one.unused for one in told)) & set(sizes)
    groups: dict[str, list[str]] = {}
    for name in sizes:
        if name in unused and not _BUFFERS.match(name[-LONGEST:]):
            groups.setdefault(_group(name[:LONGEST], folder), []).append(name)
    for what, names in groups.items():
        if what == HEAD and folder.config.text.get("tie_word_embeddings", True) is not False:
            continue  # it is the embedding once more
        why, way = _WHY[what](folder, asked, any(one.mtp for one in told or ()))
        yield Left("tensors", what, tuple(names), sum(sizes[n] for n in names), why, way)


IMAGES, SOUND, VOICE = "an encoder of images", "an encoder of sound", "a voice"
MTP, SCALES, HEAD, OTHER = "MTP layers", "scales of activations and cache", "an output matrix", "other tensors"


def _group(name: str, folder: Folder) -> str:
    if _VOICE.match(name):
        return VOICE
    if is_encoder(name):
        return SOUND if _SOUND.match(name) else IMAGES
    if _SCALES.match(name):
        return SCALES
    layers = folder.config.text.get("num_hidden_layers")
    layer = _LAYER.match(name)
    if _MTP.match(name) or (layer and isinstance(layers, int) and int(layer[1]) >= layers > 0):
        return MTP
    return HEAD if _HEAD.match(name) else OTHER


def _of_encoder(folder: Folder, asked: Asked, mtp: bool) -> tuple[str, str]:
    name = folder.config.projector_architecture or "this model"
    if asked.tool is not None and makes_projector(folder, asked.tool):
        if not asked.projector:
            return "no projector was wanted", "leave --no-mmproj away"
        return f"the projector of {name} has no place for them", ""
    if asked.tool is not None and name in known().projector:
        return f"{asked.tool.label} makes no projector of {name}", f"{llama_cpp()} does: --llama-cpp DIR"
    return f"no projector can be made of {name}", "a newer llama.cpp may make one; the language model works without"


def _of_voice(folder: Folder, asked: Asked, mtp: bool) -> tuple[str, str]:
    return "the converter makes what listens and writes, not what speaks", ""


def _of_mtp(folder: Folder, asked: Asked, mtp: bool) -> tuple[str, str]:
    if {"--no-mtp", "--no-nextn"} & set(asked.more):
        return "--no-mtp was said", "leave it away, or make them a draft model of their own: --converter-arg=--mtp"
    why = f"the converter leaves them out of {folder.architecture}: answers stay the same, nothing is drafted with them"
    if not mtp:
        return why, ""
    out = f"mtp-{os.path.basename(os.path.abspath(folder.path))}.gguf"
    words = ("convert", path_word(folder.path), "-o", path_word(out), "--converter-arg=--mtp")
    return why, gguftool(*words)


def _of_scales(folder: Folder, asked: Asked, mtp: bool) -> tuple[str, str]:
    return "llama.cpp measures activations by itself, and the type of its cache is chosen at the start", ""


def _of_head(folder: Folder, asked: Asked, mtp: bool) -> tuple[str, str]:
    return f"llama.cpp's {folder.architecture} takes the embedding in its place, config.json says that they differ", ""


def _of_others(folder: Folder, asked: Asked, mtp: bool) -> tuple[str, str]:
    return f"the converter took nothing of that name for {folder.architecture}", ""


_WHY: Mapping[str, Callable[[Folder, Asked, bool], tuple[str, str]]] = {
    IMAGES: _of_encoder,
    SOUND: _of_encoder,
    VOICE: _of_voice,
    MTP: _of_mtp,
    SCALES: _of_scales,
    HEAD: _of_head,
    OTHER: _of_others,
}


# -- files

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".onnx", ".msgpack", ".h5", ".npz", ".tflite")
_TRAINING = regex(r"(?:training_args|optimizer|scheduler|rng_state|scaler|random_states|trainer)[\w.-]*\.\w+")
"""Of a trainer: nothing of the model is in them."""
_TERMS = regex(r"(?:NOTICE|USE_POLICY|ACCEPTABLE_USE|USAGE_POLICY)(?:[-_.][\w.-]*)?", re.I)


def _files(folder: Folder, asked: Asked) -> Iterator[Left]:
    dense = dense_modules(folder.path)
    if dense and asked.made is not None and not any(name.startswith("dense_") for name in asked.made):
        why = f"llama.cpp has no dense modules for {folder.architecture}: embeddings are not projected"
        yield _file(folder, "dense modules", [f"{name}/model.safetensors" for name in dense], why)
    adapter = [n for n in folder.names if n.startswith("adapter_model.")]
    if adapter:
        way = "merge it first (peft: merge_and_unload), or convert_lora_to_gguf.py and --lora"
        yield _file(folder, "an adapter", adapter, "it is not merged into the weights", way)
    read = set(folder.files)
    others = [
        n for n in folder.names
        if n.endswith(_WEIGHTS) and n not in read and n not in adapter and not _TRAINING.fullmatch(n)
        and os.path.isfile(os.path.join(folder.path, n))
    ]  # fmt: skip
    if others:
        first = folder.files[0] if folder.files else "nothing"
        yield _file(folder, "further weights", others, f"the converter reads {first}{' …' if folder.files[1:] else ''}")
    code = [n for n in folder.names if n.endswith(".py")]
    if code:
        yield _file(folder, "code of the model", code, "nothing in the folder is run")
    terms = [n for n in folder.names if _TERMS.fullmatch(n)]
    if terms:
        why = "a GGUF file has a place for the licence's name and link alone"
        yield _file(folder, "terms that go with every copy", terms, why, "publish them beside it")


def _file(folder: Folder, what: str, names: Iterable[str], why: str, way: str = "") -> Left:
    found = tuple(names)
    paths = (os.path.join(folder.path, name) for name in found)
    return Left("file", what, found, sum(os.path.getsize(p) for p in paths if os.path.isfile(p)), why, way)


# -- settings


def _settings(folder: Folder) -> Iterator[Left]:
    try:
        found = json_file(os.path.join(folder.path, "generation_config.json"))
    except GgufToolError:
        found = {}
    odd = without_key(found if isinstance(found, Mapping) else {})
    if odd:
        listed = ", ".join(f"{name} {_short(value)}" for name, value in odd.items())
        way = "ask for them in the request, where the server has them"
        yield Left("setting", f"of generation_config.json: {listed}", tuple(odd), 0, "GGUF has no keys for them", way)
    try:
        found = json_file(os.path.join(folder.path, "config_sentence_transformers.json"))
    except GgufToolError:
        found = {}
    prompts = found.get("prompts") if isinstance(found, Mapping) else None
    used = tuple(str(use) for use, text in prompts.items() if text) if isinstance(prompts, Mapping) else ()
    if used:
        why = "a GGUF file has no place for texts that go before a question or a document, and llama-server adds none"
        way = "whoever asks puts them before the text"
        yield Left("setting", f"prompts of sentence-transformers ({', '.join(used[:5])})", used, 0, why, way)
    quant = folder.config.raw.get("quantization_config")
    method = quant.get("quant_method") if isinstance(quant, Mapping) else None
    if isinstance(method, str):
        why = "weights are written as numbers again; how activations and cache were quantised has no place"
        yield Left("setting", f"quantization_config ({method})", ("quantization_config",), 0, why)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) < 40 else f"{text[:39]}…"
