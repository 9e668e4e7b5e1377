"""`config.json` of a Hugging Face folder as llama.cpp's converter reads it (`conversion/base.py`, b11434).

Many models keep the language model's part under a name of their own; the converter renames them before it looks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

TEXT = "text_config"
RENAMED = ("llm_config", "lm_config", "thinker_config", "language_config", "lfm")
"""Names of the language model's part that become `text_config`; of several the last counts (`load_hparams`)."""
TOP_LEVEL = frozenset(
    "StepVLForConditionalGeneration Sarashina2VisionForCausalLM Exaone4_5_ForConditionalGeneration "
    "Step3p7ForConditionalGeneration KimiK3ForConditionalGeneration".split()
)
"""Models that go by their own name, whatever the language model's part says (`get_model_architecture`)."""


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
        """The name the converter goes by, "" when there is none: ``Qwen2ForCausalLM``."""
        top = _first(self.raw)
        if not top and (ssm := _object(self.raw.get("ssm_cfg"))) is not None:
            # Mamba as its authors published it, before transformers had it.
            layer = ssm.get("layer", "Mamba")
            top = f"{layer}ForCausalLM" if isinstance(layer, str) else ""
        return top if top in TOP_LEVEL else _first(self.part) or top

    @property
    def projector_architecture(self) -> str:
        """The name the converter goes by for the projector (``--mmproj``), "" when there is none."""
        return _first(_object(self.raw.get("vision_config")) or {}) or _first(self.raw)


def _object(value: object) -> Mapping[str, Any] | None:
    return value if isinstance(value, Mapping) else None


def _first(config: Mapping[str, Any]) -> str:
    """The first of its architectures."""
    names = config.get("architectures")
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else ""
