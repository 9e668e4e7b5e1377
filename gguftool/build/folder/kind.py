"""What kind of folder it is, and whether the converter knows the architecture."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.build.folder.problem import Problem
from gguftool.build.folder.seen import CONFIG, Seen
from gguftool.facts.programs import converter_elsewhere
from gguftool.near import near_names


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
    name = seen.config.architecture
    if not seen.config_read:
        return
    if not name:
        yield Problem("no-architecture", "config.json names no architecture", 'it needs "architectures": [NAME]')
        return
    if seen.supported is None or name in seen.supported:
        return
    said = f"this converter does not know {name}"
    if elsewhere := converter_elsewhere(name):
        yield Problem("unknown-architecture", said, elsewhere)
        return
    near = near_names(name, seen.supported, 3, 0.7)
    names = f"names near to it: {', '.join(near)}; " if near else ""
    yield Problem(
        "unknown-architecture",
        said,
        f"{names}a newer llama.cpp may know it; writing another name into config.json gives a wrong model unless the "
        "two are the same in all but name",
    )
