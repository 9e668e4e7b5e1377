"""Finding llama.cpp's tools, and driving llama-quantize."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gguftool.build import engine, kernels, tools
from gguftool.build.failed import failure
from gguftool.build.process import Ended
from gguftool.errors import MissingFile, ToolFailed, UsageError
from gguftool.model import open_model
from tests.building.models import DENSE, model

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _nothing_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLAMA_CPP_DIR", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


@pytest.fixture
def program(tmp_path: Path, llama_cpp: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A llama.cpp build folder whose bin/llama-quantize works (see llama_quantize.py)."""
    folder = tmp_path / "llama.cpp" / "build" / "bin"
    folder.mkdir(parents=True)
    script = folder / "llama-quantize"
    stand_in = Path(__file__).parent / "llama_quantize.py"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" "{stand_in}" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("LIBLLAMA", str(llama_cpp))
    return tmp_path / "llama.cpp"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return model(DENSE, "f16").write(tmp_path / "in.gguf")


def test_without_llama_cpp_the_built_in_engine_is_taken():
    found = engine.find()
    assert found.name == "builtin"
    assert found.label.startswith("gguftool built-in, libggml 0.")
    assert kernels.library_path()


@pytest.mark.parametrize("name", ["llama-quantize", "library"])
def test_a_missing_engine_says_how_to_get_it(name: str):
    with pytest.raises(ToolFailed) as caught:
        engine.find(name)
    assert caught.value.exit_code == 6
    assert "--llama-cpp DIR" in str(caught.value.hint)


def test_names_that_are_none():
    with pytest.raises(UsageError):
        engine.find("gpu")
    with pytest.raises(MissingFile):
        engine.find("auto", "/no/such/folder")


@pytest.mark.oracle
def test_order_of_the_engines(program: Path, llama_cpp: Path, monkeypatch: pytest.MonkeyPatch):
    assert engine.find("auto", str(llama_cpp)).name == "library"
    monkeypatch.setenv("LLAMA_CPP_DIR", str(program))
    assert engine.find().name == "llama-quantize"
    assert engine.find("library", str(llama_cpp)).label == "libllama v0.5.0"
    monkeypatch.delenv("LLAMA_CPP_DIR")
    monkeypatch.setenv("PATH", f"{program}/build/bin:/usr/bin:/bin")
    found = engine.find()
    assert found.name == "llama-quantize"
    assert found.tool is not None
    assert {"tensor-type", "override-kv", "imatrix"} <= found.tool.flags


@pytest.mark.oracle
def test_llama_quantize_gives_what_was_planned(cli, program: Path, source: Path, tmp_path: Path):
    files = []
    for name, more in (("llama-quantize", ["--llama-cpp", program]), ("builtin", [])):
        out = tmp_path / f"{name}.gguf"
        args = ("quantize", source, out, "Q4_K_M", "--engine", name, *more, "--tensor-type", "attn_v=q8_0")
        result = cli(*args, "--log", tmp_path / "log", "--format", "json")
        assert result.code == 0, result.err
        assert result.json["notes"] == []
        assert result.json["size"] == result.json["file_size"] == out.stat().st_size
        files.append(out)
    with open_model(files[0]) as theirs, open_model(files[1]) as ours:
        assert theirs["gguftool.quantize.engine"] == "llama-quantize"
        assert all(theirs.read(t) == ours.read(t) for t in ours.tensors)
        assert list(theirs.fields) == list(ours.fields)
    assert (tmp_path / "log").exists()


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        ("main: failed to quantize model from 'x': basic_ios::clear: iostream error", 5, "disk is full"),
        ("llama_model_quantize: failed to quantize: unknown model architecture: 'new'", 6, "does not know the arch"),
        ("llama_model_quantize: failed to quantize: something else", 6, "something else"),
        (
            "llama_model_quantize: failed to quantize: key not found in model: llama.context_length",
            3,
            "does not take it: key not found in model: llama.context_length",
        ),
        (
            "llama_model_quantize: failed to quantize: tensor 'a.weight' has invalid data",
            3,
            "a.weight: the source data",
        ),
        (
            "[   3/  21] blk.0.attn_k.weight   - [   256,    64,      1,      1], type =    f32, converting to f16 .. "
            "llama_model_quantize: failed to quantize: quantized data validation failed",
            3,
            "blk.0.attn_k.weight: quantising to F16 gave invalid values",
        ),
    ],
)
def test_failures_in_plain_words(cli, program: Path, source: Path, tmp_path: Path, monkeypatch, said, code, words):
    monkeypatch.setenv("QUANTIZE_FAILS", said)
    result = cli("quantize", source, tmp_path / "out.gguf", "Q8_0", "--llama-cpp", program)
    assert (result.code, words in result.err) == (code, True), result.err
    assert ("--engine builtin" in result.err) == ("something else" in said)
    assert sorted(os.listdir(tmp_path)) == ["in.gguf", "llama.cpp"]


DIED = (
    "[  12/  21] blk.0.ffn_up.weight                  - [   256,    320,      1,      1], type =    f16, converting to "
    "iq2_xs .. /src/ggml-quants.c:3288: GGML_ASSERT(grid_index >= 0) failed"
)


def test_an_assertion_of_the_program_names_no_engine_that_dies_of_the_same():
    """What llama-quantize b11434 printed for a matrix with negative importances."""
    said = failure("llama-quantize b1", "m.gguf", Ended(-6, ("loaded", DIED), 1.0))
    assert isinstance(said, ToolFailed)
    assert str(said) == "blk.0.ffn_up.weight: ggml gave up making IQ2_XS: GGML_ASSERT(grid_index >= 0) failed"
    assert "--engine" not in str(said.hint)
    assert "--tensor-type" in str(said.hint)


@pytest.mark.oracle
def test_an_engine_that_claims_success_and_wrote_half_a_file(cli, tmp_path: Path, source: Path):
    """The header comes last in llama.cpp: a killed run leaves zeros in front (llama.cpp #13258)."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "llama-quantize"
    script.write_text(
        '#!/bin/sh\n[ "$1" = --help ] && exit 1\nfor last; do :; done\n'
        'for a; do case $a in *part) head -c 4096 /dev/zero > "$a";; esac; done\n'
    )
    script.chmod(0o755)
    result = cli("quantize", source, tmp_path / "out.gguf", "Q8_0", "--no-provenance", "--llama-cpp", tmp_path)
    assert result.code == 6
    assert "broken" in result.err
    assert not (tmp_path / "out.gguf").exists()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("main: build = 4567 (abc1234)\nmain: built with cc", "b4567"),
        ("version: 0.6.0-dev (build 0, commit unknown)\nbuilt with GNU 12.2.0", "v0.6.0-dev"),
        ("version: 10434 (abcdef0)\nbuilt with", "b10434"),
        ("usage: llama-quantize", None),
    ],
)
def test_versions_as_llama_cpp_prints_them(text: str, version: str | None):
    assert tools.version_in(text) == version


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at processes through /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_a_program_ends_with_us_and_its_file_goes(number: signal.Signals, cli, source: Path, tmp_path: Path):
    """A llama-quantize that writes and goes on: what it wrote is gone, at the latest with the next run."""
    folder = tmp_path / "slow"
    folder.mkdir()
    script = folder / "llama-quantize"
    script.write_text(
        "#!/bin/sh\n"
        f'case "$1" in --help) PYTHONPATH="{ROOT}" exec "{sys.executable}" '
        f'"{Path(__file__).parent / "llama_quantize.py"}" --help;; esac\n'
        f'echo $$ > {tmp_path}/pid; echo part > "$(ls -d {tmp_path}/.out.gguf.*)"; exec sleep 60\n'
    )
    script.chmod(0o755)
    out = tmp_path / "out.gguf"
    command = [sys.executable, "-m", "gguftool", "quantize", source, out, "Q8_0", "--llama-cpp", folder]
    child = subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (tmp_path / "pid").exists():
        time.sleep(0.02)
    time.sleep(0.2)
    child.send_signal(number)
    _, err = child.communicate(timeout=30)
    assert child.returncode == (-number if number == signal.SIGKILL else 128 + number), err
    tool = Path("/proc", (tmp_path / "pid").read_text().strip(), "cmdline")
    while time.monotonic() < deadline and tool.exists() and b"sleep" in tool.read_bytes():
        time.sleep(0.02)
    assert not (tool.exists() and b"sleep" in tool.read_bytes())
    left = [n for n in os.listdir(tmp_path) if n.startswith(".out")]
    assert len(left) == (number == signal.SIGKILL)
    assert cli("quantize", source, out, "Q8_0", "--engine", "builtin").code == 0
    assert not [n for n in os.listdir(tmp_path) if n.startswith(".out")]


@pytest.mark.oracle
def test_a_private_model_stays_private(cli, program: Path, source: Path, tmp_path: Path):
    source.chmod(0o600)
    for name in ("llama-quantize", "library"):
        out = tmp_path / f"{name}.gguf"
        done = cli("quantize", source, out, "Q8_0", "--engine", name, "--llama-cpp", program)
        if name == "library" and done.code == 6:
            continue
        assert done.code == 0, done.err
        assert out.stat().st_mode & 0o777 == 0o600
