"""What kind of folder it is, and whether the converter knows the architecture."""

from __future__ import annotations

import os
from collections.abc import Iterator

from gguftool.build.folder.problem import Problem
from gguftool.build.folder.seen import CONFIG, Seen
from gguftool.build.folder.tokenizer import MISTRAL_COMMON
from gguftool.facts import BUILD
from gguftool.facts.converters import Registry, known, packaged
from gguftool.facts.programs import converter_elsewhere
from gguftool.model.otherkinds import held
from gguftool.near import near_names
from gguftool.regex import regex
from gguftool.shell import blank, gguftool, path_word

_OTHERWISE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("LevModel", ("lev_release.json", "adapter_config.json")),
    ("KevModel", ("adapter_config.json", "head.pt", "training_config.json")),
    ("NimbleModel", ("adapter_config.json", "schema_config.json")),
    ("ModernBertDecisionModel", ("encoder", "rl_agent_config.json")),
    ("ModernBertDecisionModel", ("encoder", "julia_config.json")),
    ("ClefModel", (CONFIG, "joint_head_config.json")),
    ("OpenJevModel", (CONFIG, os.path.join("helper", "shim.py"))),
)
"""Folders that a converter tells by a file of their own, whatever config.json says or without one, and the name it
gives them (`conversion/base.py:load_hparams_guess`, b11434)."""
MISTRAL = "--mistral-format"
NO_TEXT = frozenset({"UltravoxModel"})
"""Names of models whose class only says so (`conversion/ultravox.py`, b11434)."""
_HEAD = regex(
    r"For(?:Sequence|Token|Multiple\w*|Image|Audio)Classification$|Reward\w*$|ForScore$|ForQuestionAnswering$"
)
"""Names of models with a head that gives no words."""


def without_config(seen: Seen) -> Iterator[Problem]:
    """What lies there instead of a config.json."""
    if seen.has(CONFIG) or _told_otherwise(seen):
        return
    found = held(seen.path)
    if found is not None:
        yield Problem(found.kind, f"{seen.path}: holds {found.what}", found.way)
    else:
        yield Problem("no-config", f"{seen.path}: has no config.json", "is it a Hugging Face model folder?")


def _told_otherwise(seen: Seen) -> bool:
    registry = seen.registry or known()
    if "PocketTTSModel" in registry.text and "flow_lm.bos_emb" in seen.tensors:
        return True  # told by its tensors, without a file of its own
    return any(n in registry.text and all(os.path.exists(seen.at(f)) for f in files) for n, files in _OTHERWISE)


def mistral(seen: Seen) -> Iterator[Problem]:
    """Whether a folder in Mistral's own format has what the converter wants of it."""
    if seen.lacks_mistral_common:
        said = f"{seen.path}: for {MISTRAL} the converter needs mistral-common, which is not in its environment"
        yield Problem("no-mistral-common", said, f"take the Hugging Face version of the model, or {MISTRAL_COMMON}")
    if not seen.has("params.json"):
        yield Problem("no-params", f"{seen.path}: has no params.json", f"leave {MISTRAL} away, or name another folder")
    if not any(n.startswith("consolidated") and n.endswith(".safetensors") for n in seen.names):
        yield Problem(
            "no-weights",
            f"{seen.path}: has no consolidated*.safetensors",
            "download them, or take the Hugging Face version",
        )
    if not any(seen.has(n) or (n == "tokenizer.model" and _numbered(seen)) for n in ("tekken.json", "tokenizer.model")):
        yield Problem("no-tokenizer", f"{seen.path}: has neither tekken.json nor tokenizer.model", "download it")


def _numbered(seen: Seen) -> bool:
    return any(n.startswith("tokenizer.model.v") for n in seen.names)


def architecture(seen: Seen) -> Iterator[Problem]:
    """Whether the converter knows it."""
    if not seen.config_read or _told_otherwise(seen):
        return
    name = seen.config.projector_architecture if seen.wants_projector else seen.architecture
    if not name:
        yield _nameless(seen)
    elif name in NO_TEXT and not seen.wants_projector:
        way = "the projector alone: " + gguftool("convert", path_word(seen.path), "--converter-arg=--mmproj")
        yield Problem("projector-only", f"of {name} the converter makes the projector alone", way)
    elif not seen.takes(name):
        yield _not_taken(seen, name, packaged() if seen.registry is None else seen.registry)
    elif seen.registry is not None and name != (other := seen.config.architecture) and not seen.wants_projector:
        said = f"this converter takes {other} for {name}; since {BUILD} they are told apart"
        way = "name a source tree of llama.cpp: " + gguftool("convert", path_word(seen.path), "--llama-cpp", blank())
        yield Problem("older-converter", said, way, fatal=False)


def _nameless(seen: Seen) -> Problem:
    """What config.json should say, told from ``model_type`` where a model of that name is known."""
    kind = str(seen.config.text.get("model_type") or "").replace("_", "").lower()
    likely = next((n for n in sorted(known().text) if kind and n.lower() == f"{kind}forcausallm"), "NAME")
    return Problem("no-architecture", "config.json names no architecture", f'it needs "architectures": ["{likely}"]')


def _not_taken(seen: Seen, name: str, registry: Registry) -> Problem:
    """Why the converter will not convert it, and what will; without one, what the one of ``--setup`` would say."""
    which = "this converter" if seen.registry is not None else "the converter of gguftool convert --setup"
    tree = f"name a source tree of llama.cpp, {BUILD} or newer: " + gguftool(
        "convert", path_word(seen.path), "--llama-cpp", blank()
    )
    release, here = known(), seen.registry is not None
    if seen.wants_projector:
        said = f"{which} makes no projector of {name}"
        newer = name in release.projector and name not in registry.projector
        return Problem(
            "no-projector", said, tree if newer else "leave --mmproj away for the language model alone", here
        )
    if name in registry.broken:
        said = f"{which} lists {name}, but lacks a part that it needs for it"
        return Problem("broken-converter", said, tree, here)
    if name in release.text:
        return Problem("unknown-architecture", f"{which} does not know {name}; that of {BUILD} does", tree, here)
    said = f"{which} does not know {name}" + ("" if here else f", nor does that of {BUILD}")
    if _HEAD.search(name):
        those = ", ".join(sorted(n for n in registry.text if _HEAD.search(n)))
        way = f"it takes such heads of {those}; a language model's name in config.json gives a model without its head"
        return Problem("unknown-architecture", f"{said}: a head for classes or rewards, not for words", way, here)
    if elsewhere := converter_elsewhere(name):
        return Problem("unknown-architecture", said, elsewhere)  # whoever converts
    if name in release.projector:
        part = "the language model in it has to say its own architecture, in text_config of config.json; the projector "
        way = part + "alone: " + gguftool("convert", path_word(seen.path), "--converter-arg=--mmproj")
        return Problem("projector-only", f"of {name} the converter makes the projector alone", way, here)
    near = near_names(name, registry.text, 3, 0.7)
    names = f"names near to it: {', '.join(near)}; " if near else ""
    return Problem(
        "unknown-architecture",
        said,
        f"{names}a newer llama.cpp may know it; writing another name into config.json gives a wrong model unless the "
        "two are the same in all but name",
        here,
    )
