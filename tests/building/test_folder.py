"""The look at a Hugging Face folder: what speaks against converting it, told from the folder alone."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from gguftool.build.folder.look import Folder, look
from gguftool.build.safetensors import read_header
from gguftool.errors import FormatError, MissingFile, Unreadable
from tests.building import hf, stored

KNOWN = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "Gemma3ForCausalLM")


def kinds(found: Folder) -> list[str]:
    return [p.kind for p in found.problems]


@pytest.fixture
def qwen2(tmp_path: Path) -> Path:
    return hf.folder(tmp_path / "qwen2", "qwen2")


@pytest.mark.parametrize("arch", hf.CONFIGS)
@pytest.mark.parametrize("parts", [1, 3])
def test_a_healthy_folder(tmp_path: Path, arch: str, parts: int):
    found = look(str(hf.folder(tmp_path / arch, arch, parts=parts)), KNOWN)
    assert found.problems == ()
    assert found.architecture == hf.CONFIGS[arch]["architectures"][0]
    count = sum(math.prod(s) for s in hf.shapes(arch).values())
    assert (found.parameters, found.dtype, len(found.files)) == (count, "BF16", parts)
    assert found.output_size("f16") >= 2 * count
    assert found.output_size("q8_0") < found.output_size("bf16") < found.output_size("f32")


def test_unknown_architecture_names_the_near_one(qwen2: Path):
    (qwen2 / "config.json").write_text(json.dumps({"architectures": ["Qwen2ForCausalLMX"]}))
    (problem,) = look(str(qwen2), KNOWN).fatal
    assert problem.kind == "unknown-architecture"
    assert "Qwen2ForCausalLMX" in problem.message
    assert "Qwen2ForCausalLM" in str(problem.hint)


def test_architecture_of_a_model_inside_a_model_counts(qwen2: Path):
    config = {"architectures": ["Some2ForConditionalGeneration"], "text_config": {"architectures": [KNOWN[0]]}}
    (qwen2 / "config.json").write_text(json.dumps(config))
    assert look(str(qwen2), KNOWN).architecture == KNOWN[0]


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "\x00\xff"])
def test_config_that_is_no_object(qwen2: Path, text: str):
    (qwen2 / "config.json").write_text(text)
    assert "bad-config" in kinds(look(str(qwen2), KNOWN))


def test_lora_alone(tmp_path: Path):
    (tmp_path / "adapter_config.json").write_text("{}")
    hf.safetensors(tmp_path / "adapter_model.safetensors", {"a": ("BF16", (2,), bytes(4))})
    found = look(str(tmp_path))
    assert kinds(found) == ["lora-only"]  # that it has no tokenizer would lead astray
    assert "merge" in str(found.fatal[0].hint)


def test_no_tokenizer(qwen2: Path):
    (qwen2 / "tokenizer.json").unlink()
    (qwen2 / "tokenizer_config.json").unlink()
    assert kinds(look(str(qwen2))) == ["no-tokenizer"]


def test_a_shard_that_is_missing_is_named(tmp_path: Path):
    folder = hf.folder(tmp_path / "m", "qwen2", parts=3)
    (folder / "model-00002-of-00003.safetensors").unlink()
    (problem,) = look(str(folder)).fatal
    assert (problem.kind, "model-00002-of-00003.safetensors" in problem.message) == ("missing-weights", True)


def test_index_and_files_of_different_versions(tmp_path: Path):
    folder = hf.folder(tmp_path / "m", "qwen2", parts=2)
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    name, file = index["weight_map"].popitem()
    index["weight_map"]["model.other.weight"] = file
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    found = look(str(folder))
    assert kinds(found) == ["missing-tensors", "unlisted-tensors"]
    assert "model.other.weight" in found.problems[0].message
    assert name in found.problems[1].message


def test_index_that_is_broken(tmp_path: Path):
    folder = hf.folder(tmp_path / "m", "qwen2", parts=2)
    (folder / "model.safetensors.index.json").write_text('{"weight_map": 5}')
    assert "bad-index" in kinds(look(str(folder)))


def test_a_tensor_in_two_files(qwen2: Path):
    hf.safetensors(qwen2 / "model-extra.safetensors", {"model.norm.weight": ("BF16", (2,), bytes(4))})
    (problem,) = look(str(qwen2)).fatal
    assert problem.kind == "duplicate-tensors"
    assert "model.norm.weight" in problem.message


@pytest.mark.parametrize("kept", stored.TAKEN)
def test_quantised_weights_that_the_converter_undoes(tmp_path: Path, kept: str):
    folder = stored.apply(stored.folder(tmp_path), *stored.TAKEN[kept])
    assert look(str(folder), KNOWN).problems == ()


@pytest.mark.parametrize("kept", stored.REFUSED)
def test_quantised_weights_that_it_does_not(tmp_path: Path, kept: str):
    *how, kind = stored.REFUSED[kept]
    folder = stored.apply(stored.folder(tmp_path), *how)
    (problem,) = look(str(folder), KNOWN).problems
    assert (problem.kind, problem.fatal) == (kind, True)
    assert "model.layers.0" in problem.message or "quant" in problem.message
    assert problem.hint


def test_weights_that_were_cut_off(qwen2: Path):
    path = qwen2 / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[:-100])
    found = look(str(qwen2))
    assert kinds(found) == ["truncated"]
    assert "cut off" in found.problems[0].message


def test_pointers_of_git_lfs(qwen2: Path):
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"
    (qwen2 / "model.safetensors").write_bytes(pointer)
    (qwen2 / "tokenizer.json").write_bytes(pointer)
    found = look(str(qwen2))
    assert kinds(found) == ["lfs-pointer", "lfs-pointer"]
    assert found.fatal[0].hint == "git lfs pull"


def test_no_weights_and_what_is_there_instead(qwen2: Path):
    (qwen2 / "model.safetensors").rename(qwen2 / "weights.pt")
    (problem,) = look(str(qwen2)).fatal
    assert problem.kind == "no-weights"
    assert "weights.pt" in problem.message


def test_pickle_files_are_a_warning(qwen2: Path):
    (qwen2 / "model.safetensors").rename(qwen2 / "pytorch_model.bin")
    found = look(str(qwen2))
    assert (kinds(found), found.fatal) == (["pickle"], ())


def test_paths_that_are_no_folder(tmp_path: Path):
    with pytest.raises(MissingFile):
        look(str(tmp_path / "none"))
    (tmp_path / "file").write_text("x")
    with pytest.raises(Unreadable):
        look(str(tmp_path / "file"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1234567",
        b"\xff" * 8 + b"{}",
        b"\x02\0\0\0\0\0\0\0[]",
        b"\x02\0\0\0\0\0\0\0{x",
        b'\x07\0\0\0\0\0\0\0{"a":5}',
    ],
)
def test_safetensors_that_are_none(tmp_path: Path, data: bytes):
    (tmp_path / "x.safetensors").write_bytes(data)
    with pytest.raises(FormatError):
        read_header(str(tmp_path / "x.safetensors"))


def test_convert_refuses_with_the_advice(cli, qwen2: Path, tmp_path: Path, monkeypatch):
    hf.safetensors(qwen2 / "model-q.safetensors", {"x.weight.SCB": ("U8", (4,), bytes(4))})
    result = cli("convert", qwen2, "--check", "--format", "json")
    assert result.code == 4
    (problem,) = result.json["check"]["problems"]
    assert problem["kind"] == "quantised-source"
    assert "SCB" in problem["message"]
    assert not result.json["ok"]
    text = cli("convert", qwen2, "--check")
    assert "bitsandbytes" in text.out
