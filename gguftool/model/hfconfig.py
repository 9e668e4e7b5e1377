"""`config.json` of a Hugging Face folder as llama.cpp's converter reads it (`conversion/base.py`, b11434).

Many models keep the language model's part under a name of their own; the converter renames them before it looks.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from gguftool.facts import converters
from gguftool.records import dataclass

TEXT = "text_config"
RENAMED = ("llm_config", "lm_config", "thinker_config", "language_config", "lfm")
"""Names of the language model's part that become `text_config`; of several the last counts (`load_hparams`)."""


@dataclass(frozen=True)
class HfConfig:
    """The configuration of a model.

    Attributes:
        raw: ``config.json`` as it stands there; any JSON object.
    """

    raw: Mapping[str, Any]

    @cached_property
    def part(self) -> Mapping[str, Any]:
        """The language model's part; {} when the model has none."""
        found = _object(self.raw.get(TEXT))
        for name in RENAMED:
            inner = _object(self.raw.get(name))
            if name == "thinker_config" and inner is not None:
                inner = _object(inner.get(TEXT))
            found = inner if inner is not None else found
        return found or {}

    @cached_property
    def text(self) -> Mapping[str, Any]:
        """The language model's part laid over the rest: what the converter writes keys from."""
        return {**self.raw, **self.part}

    @property
    def architecture(self) -> str:
        """The name the converter of `gguftool.facts.BUILD` goes by, "" when there is none: ``Qwen2ForCausalLM``."""
        return self.named(converters.known())

    def named(self, registry: converters.Registry) -> str:
        """The name that converter goes by: which names count whatever the language model's part says differs."""
        return self._top if self._top in registry.top_level else _first(self.part) or self._top

    @property
    def projector_architecture(self) -> str:
        """The name the converter goes by with ``--mmproj``, "" when there is none: ``InternVisionModel``."""
        vision = _object(self.raw.get("vision_config", {}))
        # One that is null the converter does not survive.
        return (_first(vision) or self._top) if vision is not None else ""

    @cached_property
    def _top(self) -> str:
        top = _first(self.raw)
        if not top and (ssm := _object(self.raw.get("ssm_cfg"))) is not None:
            # Mamba as its authors published it, before transformers had it.
            layer = ssm.get("layer", "Mamba")
            top = f"{layer}ForCausalLM" if isinstance(layer, str) else ""
        return top


def _object(value: object) -> Mapping[str, Any] | None:
    return value if isinstance(value, Mapping) else None


def _first(config: Mapping[str, Any]) -> str:
    """The first of its architectures."""
    names = config.get("architectures")
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else ""
