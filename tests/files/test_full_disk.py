"""A disk that is full: exit 5, said in words, and nothing half-written stays."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.build import GGUF, llama
from tests.verify.sets import pieces, write

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mounts a small disk")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """A disk of so many KiB."""
    place = tmp_path / "disk"
    place.mkdir()

    def make(kib: int) -> Path:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", place], capture_output=True)
        if done.returncode:
            pytest.skip("only root may mount")
        return place

    yield make
    subprocess.run(["umount", place], capture_output=True)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A model of some 500 KiB, its manifest is larger than 8."""
    built = llama()
    for i in range(60):
        built.tensor(f"more.{i}", (2048,))
    return built.write(tmp_path / "m.gguf")


def commands(source: Path, out: Path) -> dict[str, list[object]]:
    model = pieces(GGUF("llama").tensor("a", (65536,)).tensor("b", (65536,)), [1])
    shards = write(model, source.parent)
    data = source.read_bytes()
    for i in range(2):
        (source.parent / f"raw.gguf.part{i + 1}of2").write_bytes(data[i * 90_000 : (i + 1) * 90_000 if not i else None])
    return {
        "fix --output": ["fix", source, "--set", "general.name=x", "--output", out],
        "split": ["split", source, "--max-tensors", 12, "-o", str(out)[:-5]],
        "merge": ["merge", shards[0], "-o", out],
        "join": ["verify", "--join", out, source.parent / "raw.gguf.part1of2"],
        "manifest": ["verify", "--write-manifest", out, source],
        "quantize": ["quantize", source, out, "Q8_0", "--engine", "builtin"],
        "prepare": ["prepare", source, "-o", out],
    }


@linux
@pytest.mark.parametrize("what", ["fix --output", "split", "merge", "join", "manifest", "quantize", "prepare"])
@pytest.mark.parametrize("checked", [True, False], ids=["seen beforehand", "found out while writing"])
def test_writers(what: str, checked: bool, cli, disk, source: Path, monkeypatch: pytest.MonkeyPatch):
    place = disk(8)
    command = commands(source, place / "out.gguf")[what]
    if not checked:
        monkeypatch.setattr("gguftool.files.disk.free_bytes", lambda folder: 1 << 40)
    result = cli(*command)
    assert result.code == 5, result.err
    assert "free" in result.err
    assert "hint" in result.err
    left = {str(p.relative_to(place)) for p in place.rglob("*") if p.is_file()}
    assert {name for name in left if not name.startswith("out.gguf.prepare/")} == set()


@linux
@pytest.mark.parametrize("suffix", ["svg", "png", "pdf", "html"])
def test_a_picture_is_whole_or_not_there(suffix: str, cli, disk, source: Path):
    pytest.importorskip("matplotlib")
    place = disk(4)
    result = cli("plan", source, "--vram", "16GiB", "--ram", "64GiB", "--plot", place / f"p.{suffix}")
    assert result.code == 5, result.err
    assert "disk is full" in result.err
    assert not list(place.iterdir())


@linux
def test_rows_of_a_scan(cli, disk, source: Path):
    place = disk(4)
    (place / "rows.jsonl").write_text("{}\n" + " " * 4080 + "\n")
    result = cli("scan", source, "--resume", place / "rows.jsonl")
    assert result.code == 5, result.err
    assert "rows.jsonl" in result.err


@linux
def test_a_log_that_cannot_begin(cli, disk, smollm2: Path):
    place = disk(4)
    (place / "full").write_bytes(bytes(4096))
    result = cli("launch", smollm2, "--ctx", 512, "--check-only", "--port", 0, "--force", "--log", place / "s.log")
    assert result.code == 5, result.err
    assert "s.log" in result.err


@linux
@pytest.mark.oracle
def test_a_log_that_is_cut_off_is_said(cli, disk, smollm2: Path):
    place = disk(8)
    log = place / "s.log"
    result = cli("launch", smollm2, "--ctx", 512, "--check-only", "--port", 0, "--force", "--log", log)
    assert result.code == 5, result.err
    assert f"{log}: its disk is full" in result.err
    assert os.path.getsize(log) <= 8192
