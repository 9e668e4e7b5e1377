"""What the converter calls the tensors of a Hugging Face model, by the names they have there.

`data/tensor_names.json` holds the names of `gguf-py/gguf/tensor_mapping.py` (`scripts/facts/tensornames.py` makes it).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from gguftool.facts.data import load
from gguftool.regex import regex

_LAYER = regex(r"(?<![^.])[0-9]{1,6}(?=\.)")
_ENDS = (".weight", ".bias")
"""Endings that are tried, as of `conversion/base.py:ModelBase.map_tensor_name`."""
_KEEPS_NAMES = frozenset(
    "LlamaForCausalLM MistralForCausalLM MixtralForCausalLM Qwen2ForCausalLM Qwen2MoeForCausalLM Qwen3ForCausalLM "
    "Qwen3MoeForCausalLM GemmaForCausalLM Gemma2ForCausalLM Gemma3ForCausalLM OlmoForCausalLM OlmoeForCausalLM "
    "SmolLM3ForCausalLM ArceeForCausalLM InternLM3ForCausalLM".split()
)
"""Models whose classes change values or put experts together, and take no names that the map has not (b11434, read)."""


def only_by_map(architecture: str) -> bool:
    """Whether the converter refuses every name of this model that the map has not."""
    return architecture in _KEEPS_NAMES or architecture in load("tensor_names.json")["plain"]


@cache
def _names(architecture: str) -> Mapping[str, str]:
    data = load("tensor_names.json")
    out: dict[str, str] = {}
    for arch in data["models"].get(architecture, ()):
        special = data["special"].get(arch, {})
        for number in data["tensors"].get(arch, ()):
            own, *theirs = data["names"][number]
            out |= dict.fromkeys((own, *special.get(str(number), theirs)), own)
    return out


def called(architecture: str, name: str) -> str | None:
    """What a tensor is called in a GGUF file, ``{bid}`` in the place of its layer; None when the map has it not.

    Args:
        architecture: as ``config.json`` says it: ``Qwen2ForCausalLM``.
        name: with the layer's number: ``model.layers.3.mlp.up_proj.weight``.
    """
    names = _names(architecture)
    whole = _LAYER.sub("{bid}", name, count=1)
    for one in (whole, name):
        if one in names:
            return names[one]
        for end in _ENDS:
            if one.endswith(end) and (found := names.get(one.removesuffix(end))) is not None:
                return found + end
    return None
