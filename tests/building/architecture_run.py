"""Asks the converter's own functions by which name it goes; started by the converter's Python.

    python architecture_run.py SOURCE OUT.json.gz

SOURCE is a llama.cpp tree, or the folder with the package. For every name it lists, in every part of a configuration
that may name it, and for the default configuration of every model of transformers: what `load_hparams` and
`get_model_architecture` come to, for the model and for the projector. Of a configuration only what names architectures
is kept; one that occurs again is left out. And of the names those whose class `get_model_class` really gives.
`tests/data/building/architectures.json.gz` holds what it wrote for b11434 and for the packaged 0.1.1 (transformers
5.24), as ``release`` and ``packaged``.
"""

from __future__ import annotations

import copy
import gzip
import json
import logging
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PARTS = ("text_config", "llm_config", "lm_config", "language_config", "lfm", "thinker_config")
KEPT = (*PARTS, "vision_config", "ssm_cfg", "architectures")


def cases(names: list[str], defaults: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Configurations to ask about."""
    for name in names:
        yield {"architectures": [name]}
        yield {"architectures": [name], "text_config": {"architectures": ["LlamaForCausalLM"]}}
        yield {"architectures": [name], "text_config": {"architectures": None}, "vision_config": {}}
        yield {"architectures": [name], "vision_config": {"architectures": ["InternVisionModel"]}}
        for part in PARTS[:-1]:
            yield {"architectures": ["Outer"], part: {"architectures": [name]}}
        yield {"architectures": ["Outer"], "thinker_config": {"text_config": {"architectures": [name]}}}
    for config in defaults:
        for top in (["LlamaForCausalLM"], None):
            yield {**config, "architectures": top}
        for part in PARTS:
            if isinstance(config.get(part), dict):
                named = copy.deepcopy(config)
                inner = named[part]["text_config"] if part == "thinker_config" else named[part]
                inner["architectures"] = ["Qwen2ForCausalLM"]
                yield {**named, "architectures": ["Outer"]}
    yield from ({"ssm_cfg": {"layer": "Mamba2"}}, {"ssm_cfg": {}}, {}, {"architectures": []})


def asked(source: Path) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Configuration, name for the model, name for the projector; "" where the converter stops."""
    sys.path[:0] = [str(source / "gguf-py"), str(source)]
    from conversion import MMPROJ_MODEL_MAP, TEXT_MODEL_MAP, ModelBase, ModelType, get_model_architecture
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    logging.disable(logging.CRITICAL)

    def defaults() -> Iterator[dict[str, Any]]:
        for kind in CONFIG_MAPPING.keys():  # noqa: SIM118
            try:
                yield {**CONFIG_MAPPING[kind]().to_dict(), "model_type": kind}
            except Exception:
                continue

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for config in cases(sorted({*TEXT_MODEL_MAP, *MMPROJ_MODEL_MAP}), defaults()):
            (folder / "config.json").write_text(json.dumps(config, default=str))
            said = []
            for kind in (ModelType.TEXT, ModelType.MMPROJ):
                try:
                    said.append(get_model_architecture(ModelBase.load_hparams(folder, False), kind))
                except Exception:
                    said.append("")
            yield _kept(config), said[0], said[1]


def taken() -> list[list[str]]:
    """Names of models, and of projectors, whose class there is."""
    from conversion import MMPROJ_MODEL_MAP, TEXT_MODEL_MAP, get_model_class

    def given(name: str, projector: bool) -> bool:
        try:
            return bool(get_model_class(name, mmproj=projector))
        except Exception:
            return False

    return [sorted(n for n in table if given(n, i == 1)) for i, table in enumerate((TEXT_MODEL_MAP, MMPROJ_MODEL_MAP))]


def _kept(config: dict[str, Any]) -> dict[str, Any]:
    return {
        k: _kept(v) if isinstance(v, dict) and k != "ssm_cfg" else v
        for k, v in config.items()
        if k in KEPT and (v != {} or k == "ssm_cfg")
    }


def main() -> None:
    """Run it."""
    source, out = map(Path, sys.argv[1:3])
    rows = {json.dumps(row, sort_keys=True): row for row in asked(source)}
    with gzip.GzipFile(out, "wb", mtime=0) as f:
        f.write(json.dumps({"rows": list(rows.values()), "taken": taken()}).encode())
    print(len(rows))


if __name__ == "__main__":
    main()
