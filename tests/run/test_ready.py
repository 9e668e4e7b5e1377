"""No door shows a command as ready that would not start, or would do something else than was planned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gguftool.api.plan import plan
from gguftool.build.convert import Options as Convert
from gguftool.build.pipeline import Done
from gguftool.build.prepare import Request
from gguftool.build.quantize import Options as Quantise
from gguftool.edit.deploy import Wanted
from gguftool.report.prepare import prepared_json, prepared_text
from gguftool.report.text import Style
from tests.beside import control_vector, lora, projector
from tests.build import llama

FITS = ("--vram", "none", "--ram", "64GiB", "-c", "512")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return llama(layers=3).write(tmp_path / "m.gguf")


def test_of_a_sound_model_the_command_is_ready(cli, model: Path) -> None:
    r = cli("plan", model, *FITS)
    assert r.code == 0
    assert "\ncommand\n  llama-server -m " in r.out
    j = cli("plan", model, *FITS, "--format", "json").json
    assert (j["not_ready"], j["not_loaded"]) == ([], None)


@pytest.mark.parametrize(
    ("option", "made", "why"),
    [
        ("--mmproj", lambda: projector(width=96), "of another model"),
        ("--lora", lambda: lora(("blk.0.attn_q.weight", 96, 64)), "llama.cpp refuses"),
        ("--lora", lambda: lora(arch="qwen2"), "llama.cpp refuses"),
        ("--control-vector", lambda: control_vector(96), "it would be left out"),
    ],
)
def test_a_file_that_does_not_go_with_the_model(cli, model: Path, tmp_path: Path, option: str, made, why: str) -> None:
    side = made().write(tmp_path / "side.gguf")
    r = cli("plan", model, *FITS, option, side)
    assert r.code == 1
    assert f"no command: {'llama.cpp refuses' if 'left' not in why else 'it would be left out'}" in r.out
    assert why in r.out
    assert "llama-server -m" not in r.out


@pytest.mark.parametrize(
    "words",
    [
        ["-ctv", "q4_0", "-fa", "off"],  # llama-context.cpp:llama_init_from_model
        ["--device", "CUDA7", "--vram", "8GiB"],
        ["--rpc", "[fe80::1%eth0]:50052=1GiB"],
    ],
)
def test_what_llama_cpp_refuses(cli, model: Path, words: list[str]) -> None:
    r = cli("plan", model, "--ram", "64GiB", "-c", "512", *words)
    assert r.code == 1
    assert "no command: llama.cpp refuses: " in r.out
    assert "llama-server -m" not in r.out


def test_what_does_not_fit(cli, model: Path) -> None:
    r = cli("plan", model, "-c", "65536", "--vram", "none", "--ram", "8MiB", "--reserve", "0")
    assert r.code == 5
    assert "no command: it does not fit" in r.out
    assert "llama-server -m" not in r.out


def test_a_file_that_llama_cpp_does_not_load(cli, tmp_path: Path) -> None:
    """What it takes can be planned all the same; the command is for the file once it is mended."""
    path = llama(layers=3).drop_tensor("blk.1.ffn_up.weight").write(tmp_path / "m.gguf")
    r = cli("plan", path, *FITS)
    assert r.code == 0
    assert re.search(r"\ndoes not load: .*tensor 'blk\.1\.ffn_up\.weight' not found", r.out)
    assert f"\nwhat to mend: gguftool lint {path}\n" in r.out
    assert "\ncommand once the file is mended\n" in r.out


def test_prepare_shows_none_that_does_not_fit(model: Path, tmp_path: Path) -> None:
    found = plan(model, ctx=65536, vram="none", ram=8 << 20, reserve=0)
    assert found.not_ready == ("it does not fit",)
    request = Request(str(model), str(tmp_path / "out.gguf"), None, Wanted(), Convert(), Quantise())
    done = [Done("plan", "does not fit", 0.1, {"command": [], "not_ready": list(found.not_ready)}, "")]
    text = prepared_text(request, done, True, Style(False))
    assert "is made, but it does not fit" in text
    assert "is ready" not in text
    assert prepared_json(request, done)["command"] is None
