"""What kind of folder it is, and whether the converter knows the architecture."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.build.folder.problem import Problem
from gguftool.build.folder.seen import CONFIG, Seen
from gguftool.facts import BUILD
from gguftool.facts.converters import Registry, known, packaged
from gguftool.facts.programs import converter_elsewhere
from gguftool.near import near_names
from gguftool.shell import blank, gguftool, path_word


def without_config(seen: Seen) -> Iterator[Problem]:
    """What lies there instead of a config.json."""
    path = seen.path
    if seen.has(CONFIG):
        return
    if seen.only_adapter:
        yield Problem(
            "lora-only",
            f"{path}: holds a LoRA adapter, not a model",
            "merge it into its base model first (peft: merge_and_unload), or convert it with llama.cpp's "
            "convert_lora_to_gguf.py and load it with --lora",
        )
    elif seen.has("params.json"):
        yield Problem(
            "mistral-format",
            f"{path}: is in Mistral's own format (params.json)",
            "take the Hugging Face version of the model, or say --converter-arg --mistral-format",
            fatal=False,
        )
    elif seen.has("model_index.json"):
        way = converter_elsewhere("UNet2DConditionModel")
        yield Problem("diffusers", f"{path}: holds an image model of diffusers, no language model", way)
    else:
        yield Problem("no-config", f"{path}: has no config.json", "is it a Hugging Face model folder?")


def architecture(seen: Seen) -> Iterator[Problem]:
    """Whether the converter knows it."""
    if not seen.config_read:
        return
    name = seen.config.projector_architecture if seen.wants_projector else seen.architecture
    if not name:
        yield _nameless(seen)
    elif not seen.takes(name):
        yield _not_taken(seen, name, packaged() if seen.registry is None else seen.registry)


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
