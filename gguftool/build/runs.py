"""What the converter is asked to make of one folder: the language model, and the projector where it has an encoder.

The projector comes first: it is small, and what is wrong with it shows before the long run begins.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from gguftool.brief import short_repr
from gguftool.build.converter import Converter
from gguftool.build.folder.look import Folder
from gguftool.build.folder.seen import beside_text
from gguftool.errors import GgufToolError
from gguftool.reading import json_file
from gguftool.records import dataclass
from gguftool.regex import regex

MODEL, PROJECTOR = "model.gguf", "mmproj-model.gguf"
DENSE = "--sentence-transformers-dense-modules"
ELSE = frozenset({"--mmproj", "--mtp", "--dspark", "--vocab-only", "--print-supported-models", "--dry-run"})
"""Options of the converter with which it makes something else than the language model."""
_BOTH = frozenset("--no-lazy --use-temp-file --bigendian --verbose --mistral-format --fp8-as-q8".split())
_BOTH_WITH_VALUE = frozenset("--metadata --model-name --target-model-dir".split())
"""Options that mean the same for a projector. Splitting does not: llama.cpp loads no projector in pieces."""
_FLOATS = ("auto", "f32", "f16", "bf16")
_ENCODER = regex(r"(?:.*\.)?(?:aligner|sam_model|qwen2_model|vqmodel|embed_vision|embed_audio|apm|mm_\w+)\.|image_")
"""Names of encoders besides those that every language model is without (the models' own `filter_tensors`, b11434)."""
LONGEST = 400
"""Characters of a tensor's name that are looked at; a real one has a hundred."""
_ENCODER_CONFIGS = ("vision_config", "audio_config", "vision_encoder", "audio_encoder", "whisper_config")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the converter.

    Attributes:
        what: ``model`` or ``projector``.
        file: name of the file that is to be made.
        outtype: type of the matrices.
        arguments: of the converter, besides those.
    """

    what: str
    file: str
    outtype: str
    arguments: tuple[str, ...]

    __repr__ = short_repr


def runs(folder: Folder, tool: Converter, outtype: str, more: tuple[str, ...], *, projector: bool) -> tuple[Run, ...]:
    """The runs for a folder, in order.

    Args:
        folder: what is converted.
        tool: the converter.
        outtype: type of the matrices.
        more: arguments of the user for the converter; with one that makes something else, it is the only run.
        projector: make the projector, too.
    """
    dense = (DENSE,) if has_dense(folder.path) and DENSE in tool.options and DENSE not in more else ()
    model = Run("model", MODEL, outtype, (*dense, *more))
    if ELSE & {word.partition("=")[0] for word in more}:
        return (Run("model", MODEL, outtype, more),)
    if not projector or not makes_projector(folder, tool):
        return (model,)
    # Few bytes, and the eyes of the model: a type of fewer bits is chosen for it alone or not at all.
    first = Run("projector", PROJECTOR, outtype if outtype in _FLOATS else "auto", ("--mmproj", *_shared(more)))
    return (first, model)


def makes_projector(folder: Folder, tool: Converter) -> bool:
    """Whether a folder has an encoder that this converter makes a projector of."""
    known = tool.projectors or frozenset()
    return folder.config.projector_architecture in known and has_encoder(folder)


def has_encoder(folder: Folder) -> bool:
    """Whether there is an encoder of images or sound; of pickled weights only config.json tells."""
    if folder.tensors:
        return any(is_encoder(entry.name) for entry in folder.tensors)
    return any(isinstance(folder.config.raw.get(name), Mapping) for name in _ENCODER_CONFIGS)


def is_encoder(name: str) -> bool:
    """Whether a tensor of the source is one of an encoder of images or sound, by its name."""
    return beside_text(name[:LONGEST]) or _ENCODER.match(name[:LONGEST]) is not None


def has_dense(path: str) -> bool:
    """Whether ``modules.json`` of sentence-transformers names a Dense module."""
    return bool(dense_modules(path))


def dense_modules(path: str) -> list[str]:
    """Folders of the Dense modules that ``modules.json`` names."""
    try:
        found: Any = json_file(os.path.join(path, "modules.json"))
    except GgufToolError:
        return []
    rows = found if isinstance(found, list) else []
    named = [(row.get("type"), row.get("path")) for row in rows if isinstance(row, Mapping)]
    return [at for kind, at in named if isinstance(kind, str) and kind.endswith("Dense") and isinstance(at, str)]


def _shared(more: Iterable[str]) -> tuple[str, ...]:
    out: list[str] = []
    words = iter(more)
    for word in words:
        name, has_value, _ = word.partition("=")
        if name in _BOTH or (name in _BOTH_WITH_VALUE and has_value):
            out.append(word)
        elif name in _BOTH_WITH_VALUE:
            out += [word, *([value] if (value := next(words, None)) is not None else [])]
    return tuple(out)
