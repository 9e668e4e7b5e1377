"""The converter as users have it, with torch, in the environment that ``gguftool convert --setup`` makes.

900 MB and a minute: `./dev test-convert` runs this, `./dev test` does not.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gguftool.model import open_model
from gguftool.predict.pairs import misfits
from tests.building import hf, hf_whole
from tests.conftest import Result
from tests.oracle.llama import greedy
from tests.real_models import cache_dir

Cli = Callable[..., Result]
pytestmark = [pytest.mark.slow, pytest.mark.oracle, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def torch_cache() -> Path:
    """XDG_CACHE_HOME of these tests; the environment in it is made once."""
    return cache_dir().parent / "converter-with-torch"


def test_setup(cli: Cli, torch_cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(torch_cache))
    result = cli("convert", "--setup", "--setup-arg", "torch==2.13.0", "--format", "json")
    assert result.code == 0, result.err
    assert result.json["setup"]["architectures"] > 150
    assert result.json["setup"]["environment"].startswith(str(torch_cache))


@pytest.mark.parametrize("arch", hf.CONFIGS)
@pytest.mark.parametrize("outtype", ["f16", "bf16", "q8_0"])
def test_with_and_without_torch_the_bytes_are_the_same(
    arch: str, outtype: str, cli: Cli, torch_cache: Path, converter_cache: Path, tmp_path: Path, monkeypatch
):
    source = hf.folder(tmp_path / arch, arch, parts=2)
    pre = ("--pre", "qwen2") if arch.startswith("qwen") else ()
    files = []
    for cache, more in ((torch_cache, ()), (converter_cache, ("--converter-arg=--no-lazy",))):
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        path = tmp_path / f"{len(files)}.gguf"
        result = cli("convert", source, "-o", path, "--outtype", outtype, *pre, *more)
        assert result.code == 0, result.err
        files.append(path.read_bytes())
    assert files[0] == files[1]


def test_the_whole_way(cli: Cli, torch_cache: Path, llama_cpp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(torch_cache))
    folder, output = hf.folder(tmp_path / "gemma3", "gemma3"), tmp_path / "g.gguf"
    args = ("--quantize", "Q4_K_M", "--context-length", "2048", "--kv-cache-type", "q8_0", "--llama-cpp", llama_cpp)
    result = cli("prepare", folder, "-o", output, *args, "--format", "json")
    assert result.code == 0, result.err
    assert result.json["steps"][1]["data"]["engine"] == "libllama v0.5.0"
    assert len(greedy(output, [5, 6, 7], 4)) == 4
    assert os.path.isfile(f"{output}.manifest")


def test_eyes_and_dense_modules_the_whole_way(
    cli: Cli, torch_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Model and projector of prepare, checked together; EmbeddingGemma with its dense modules."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(torch_cache))
    place = tmp_path / "models--acme--Tiny-Eyes-2B" / "snapshots" / ("0123456789" * 4)
    output = tmp_path / "E-Q8_0.gguf"
    args = ("--quantize", "Q8_0", "--context-length", "512", "--kv-cache-type", "f16", "--engine", "builtin")
    done = cli("prepare", hf_whole.vision(place), "-o", output, *args, "--format", "json")
    assert done.code == 0, done.err
    steps = {step["name"]: step["data"] for step in done.json["steps"]}
    eyes = tmp_path / "mmproj-E-BF16.gguf"
    assert steps["publish"] == {"path": str(output), "projector": str(eyes)}
    assert steps["convert"]["left"] == []
    assert eyes.name in Path(steps["manifest"]["path"]).read_text()
    with open_model(output) as model, open_model(eyes) as side:
        assert model["general.name"] == side["general.name"] == "Tiny Eyes 2B"
        assert misfits(model, side) == ()
    made = cli("convert", hf_whole.embedder(tmp_path / "e"), "-o", tmp_path / "e.gguf", "--format", "json")
    assert (made.code, made.json["left"]) == (0, []), made.err
    with open_model(tmp_path / "e.gguf") as model:
        assert {"dense_2.weight", "dense_3.weight"} <= set(model.tensors)
        assert model["gemma-embedding.pooling_type"] == 1
