"""Folders that hold a model of another kind: what helps is told where a GGUF is wanted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("names", "helps"),
    [
        (("config.json", "model.safetensors"), "gguftool convert"),
        (("model_index.json", "unet"), "sd-cli"),
        (("rank0.engine", "config.json"), "TensorRT"),
        (("model.onnx",), "ONNX"),
        (("model.safetensors",), "without their config.json"),
        (("mistral.llamafile",), "llamafile"),
        (("readme.txt",), ""),
    ],
)
def test_a_folder_without_gguf(names: tuple[str, ...], helps: str, tmp_path: Path, cli) -> None:
    for name in names:
        (tmp_path / name).write_text("{}")
    result = cli("dump", str(tmp_path))
    assert result.code == 2
    assert "no .gguf file in this folder" in result.err
    assert helps in result.err


@pytest.mark.parametrize(
    ("architecture", "helps"),
    [
        ("WhisperForConditionalGeneration", "whisper-cli"),
        ("MllamaForConditionalGeneration", "ollama run"),
        ("NewForCausalLM", "a newer llama.cpp"),
    ],
)
def test_the_converter_is_not_said_to_be_too_old_for_what_it_will_never_have(
    architecture: str, helps: str, tmp_path: Path
) -> None:
    from gguftool.build.folder.look import look

    (tmp_path / "config.json").write_text(json.dumps({"architectures": [architecture]}))
    problems = look(str(tmp_path), supported=["LlamaForCausalLM"]).problems
    [said] = [p.hint for p in problems if p.kind == "unknown-architecture"]
    assert helps in said
    assert ("a newer llama.cpp" in said) == (architecture == "NewForCausalLM")
