"""What a source folder says about embeddings: the modules of sentence-transformers, and what its tokenizer puts around.

Source: `modules.json` and the ``config.json`` of each module's folder, as sentence-transformers saves them;
`tokenizer.json` as the tokenizers library does. llama.cpp's converter reads the same (`conversion/base.py`, b11434).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gguftool.brief import short_repr
from gguftool.records import dataclass

if TYPE_CHECKING:
    from gguftool.lint.against import HfFolder

MODES = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "last",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
    "pooling_mode_weightedmean_tokens": "weightedmean",
}
"""Switches of a Pooling module in the converter's order, and what each stands for; llama.cpp has the first three."""
WORDS = {"lasttoken": "last"}
"""What `pooling_mode` calls a way of pooling, where the name is another one."""


@dataclass(frozen=True, slots=True)
class Module:
    """One step of a sentence-transformers model.

    Attributes:
        kind: last part of its class: ``Transformer``, ``Pooling``, ``Dense``, ``Normalize`` …
        path: its folder, "" for the model's own.
        config: ``config.json`` of that folder; {} when there is none.
    """

    kind: str
    path: str
    config: Mapping[str, Any]

    __repr__ = short_repr


def modules(folder: HfFolder) -> tuple[Module, ...]:
    """The steps of ``modules.json``; () when it is not there or is no list of modules."""
    out = []
    for entry in folder.modules:
        kind = entry.get("type")
        path = entry.get("path", "")
        if isinstance(kind, str) and isinstance(path, str):
            out.append(Module(kind.rpartition(".")[2], path, folder.inside.get(f"{path}/config.json", {})))
    return tuple(out)


def pooled(folder: HfFolder) -> tuple[str, ...]:
    """How the source pools: one name, several where they are put side by side, () where it does not say."""
    step = next((x for x in modules(folder) if x.kind == "Pooling"), None)
    if step is None:
        return ()
    said = tuple(name for key, name in MODES.items() if step.config.get(key) is True)
    word = step.config.get("pooling_mode")
    if said or not isinstance(word, str):
        return said
    return (WORDS.get(word, word),)


def ends(folder: HfFolder) -> tuple[str | None, str | None] | None:
    """Texts of the tokens that the source puts before and behind every text; None where it does not say.

    A tokenizer.json with ByteLevel alone says nothing: tokenizers in Python put tokens around by themselves.

    Source: ``post_processor`` of tokenizer.json, which outranks ``add_bos_token`` of tokenizer_config.json.
    """
    processor = folder.post_processor
    if processor is None:
        return None
    before = behind = None
    told = False
    for step in _steps(processor):
        kind = step.get("type")
        if kind in ("BertProcessing", "RobertaProcessing"):
            before, behind, told = _first(step.get("cls")), _first(step.get("sep")), True
        elif kind == "TemplateProcessing" and isinstance(single := step.get("single"), list) and single:
            before, behind, told = _special(single[0]), _special(single[-1]) if len(single) > 1 else None, True
    return (before, behind) if told else None


def _steps(processor: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    inside = processor.get("processors", [processor])
    return [step for step in inside if isinstance(step, Mapping)] if isinstance(inside, list) else []


def _first(pair: object) -> str | None:
    return pair[0] if isinstance(pair, list) and pair and isinstance(pair[0], str) else None


def _special(piece: object) -> str | None:
    token = piece.get("SpecialToken") if isinstance(piece, Mapping) else None
    name = token.get("id") if isinstance(token, Mapping) else None
    return name if isinstance(name, str) else None


def prompts(folder: HfFolder) -> Mapping[str, str]:
    """Texts that the source puts before a text of each use: ``query``, ``document`` …; empty ones are left out."""
    found = folder.inside.get("config_sentence_transformers.json", {}).get("prompts")
    if not isinstance(found, Mapping):
        return {}
    return {str(k): v for k, v in found.items() if isinstance(v, str) and v}
