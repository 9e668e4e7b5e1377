"""`config.json` as the converter reads it (`conversion/base.py`: `load_hparams`, `get_model_architecture`; b11434)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gguftool.build.folder.look import look
from gguftool.facts.converters import known
from gguftool.lint.against import from_files
from gguftool.model.hfconfig import RENAMED, HfConfig

QWEN = {"architectures": ["Qwen2ForCausalLM"], "hidden_size": 896}
CASES: list[tuple[dict[str, Any], str, int | None]] = [
    ({"architectures": ["Qwen2ForCausalLM"], "hidden_size": 8}, "Qwen2ForCausalLM", 8),
    ({"architectures": ["InternVLChatModel"], "llm_config": QWEN, "hidden_size": 1}, "Qwen2ForCausalLM", 896),
    ({"architectures": ["MultiModalityCausalLM"], "language_config": QWEN}, "Qwen2ForCausalLM", 896),
    ({"architectures": ["GlmAsr"], "lm_config": QWEN}, "Qwen2ForCausalLM", 896),
    ({"architectures": ["Lfm2Audio"], "lfm": QWEN}, "Qwen2ForCausalLM", 896),
    ({"architectures": ["Qwen2_5Omni"], "thinker_config": {"text_config": QWEN}}, "Qwen2ForCausalLM", 896),
    ({"architectures": ["Gemma3ForConditionalGeneration"], "text_config": QWEN}, "Qwen2ForCausalLM", 896),
    # the part says no architecture: the model's own
    ({"architectures": ["Mistral3"], "text_config": {"hidden_size": 5}}, "Mistral3", 5),
    ({"architectures": ["Mistral3"], "text_config": {"architectures": None, "hidden_size": 5}}, "Mistral3", 5),
    # several parts: the one renamed last
    ({"text_config": {"hidden_size": 1}, "llm_config": {"hidden_size": 2}, "lfm": {"hidden_size": 3}}, "", 3),
    ({"llm_config": {"hidden_size": 2}, "language_config": {"hidden_size": 4}}, "", 4),
    # exceptions that go by their own name, with the part's numbers
    (
        {"architectures": ["KimiK3ForConditionalGeneration"],
         "text_config": {"architectures": ["KimiLinearForCausalLM"], "hidden_size": 7}},
        "KimiK3ForConditionalGeneration",
        7,
    ),
    # Mamba as its authors published it
    ({"ssm_cfg": {"layer": "Mamba2"}, "d_model": 2}, "Mamba2ForCausalLM", None),
    ({"ssm_cfg": {}, "d_model": 2}, "MambaForCausalLM", None),
    ({"d_model": 2}, "", None),
    # what no converter survives is no architecture here
    ({"architectures": "x", "text_config": [], "thinker_config": {}, "ssm_cfg": 3}, "", None),
    ({"architectures": [3]}, "", None),
]  # fmt: skip


@pytest.mark.parametrize(("config", "architecture", "hidden"), CASES)
def test_one_reading_in_both_rooms(
    config: dict[str, Any], architecture: str, hidden: int | None, tmp_path: Path
) -> None:
    read = HfConfig(config)
    assert (read.architecture, read.text.get("hidden_size")) == (architecture, hidden)
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = look(str(tmp_path), {"Qwen2ForCausalLM", "Mamba2ForCausalLM", "KimiK3ForConditionalGeneration"})
    assert found.architecture == architecture
    kinds = {p.kind for p in found.problems}
    if architecture in ("Qwen2ForCausalLM", "Mamba2ForCausalLM", "KimiK3ForConditionalGeneration"):
        assert not kinds & {"unknown-architecture", "no-architecture"}
    elif not architecture:
        assert "no-architecture" in kinds
    folder = from_files("x", {"config.json": json.dumps(config).encode()})
    assert folder.text == read.text


def test_quantisation_said_by_the_part_counts(tmp_path: Path) -> None:
    config = {"architectures": ["X"], "llm_config": {**QWEN, "quantization_config": {"quant_method": "awq"}}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert "quantised-source" in {p.kind for p in look(str(tmp_path)).problems}


@pytest.mark.real
def test_the_names_are_the_converters() -> None:
    from tests.llama_cpp_source import CannotFetch, source_tree

    try:
        text = (source_tree() / "conversion" / "base.py").read_text()
    except CannotFetch as why:
        pytest.skip(str(why))
    renames = text[text.index('if "llm_config" in config') : text.index("return config", text.index('"llm_config"'))]
    assert tuple(re.findall(r'if "(\w+)" in config', renames)) == RENAMED
    exceptions = re.search(r"ModelType\.TEXT and arch in \(([^)]*)\)", text)
    assert exceptions is not None
    assert set(re.findall(r'"(\w+)"', exceptions[1])) == known().top_level
