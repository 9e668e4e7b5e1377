"""Both ways with the real `llama-gguf-split`, where it is built.

It comes in no package. The tests run when it is in PATH or named by GGUFTOOL_LLAMA_GGUF_SPLIT, and are left out
otherwise; the layout it writes is pinned in test_resplit.py without it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.build import llama
from tests.oracle.llama import load

TOOL = os.environ.get("GGUFTOOL_LLAMA_GGUF_SPLIT") or shutil.which("llama-gguf-split")
pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(TOOL is None, reason="no llama-gguf-split in PATH or GGUFTOOL_LLAMA_GGUF_SPLIT"),
]


def official(*args: object) -> subprocess.CompletedProcess[str]:
    command = [str(TOOL), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return llama(layers=20).write(tmp_path / "m.gguf")


@pytest.mark.parametrize("options", [["--max-tensors", 20], ["--max-tensors", 20, "--metadata-first"]])
def test_our_shards_are_byte_for_byte_theirs(cli, model: Path, tmp_path: Path, options: list[object]):
    assert cli("split", model, *options, "-o", tmp_path / "ours").code == 0
    theirs = ["--no-tensor-first-split"] if "--metadata-first" in options else []
    done = official("--split", "--split-max-tensors", 20, *theirs, model, tmp_path / "theirs")
    assert done.returncode == 0, done.stderr
    ours, other = (sorted(tmp_path.glob(f"{name}-*")) for name in ("ours", "theirs"))
    assert len(ours) == len(other) > 2
    for a, b in zip(ours, other, strict=True):
        assert a.read_bytes() == b.read_bytes()


def test_they_merge_ours(cli, model: Path, tmp_path: Path):
    """Three split keys stay in their result; everything else is the model."""
    cli("split", model, "--max-tensors", 15, "-o", tmp_path / "s")
    [first, *_] = sorted(tmp_path.glob("s-*"))
    done = official("--merge", first, tmp_path / "theirs.gguf")
    assert done.returncode == 0, done.stderr
    assert load(tmp_path / "theirs.gguf").ok
    result = cli("verify", tmp_path / "theirs.gguf", "--format", "json")
    assert result.code == 0
    assert [n["kind"] for n in result.json["files"][0]["notes"]] == ["split-keys-left"]
    hashes = [
        cli("hash", "--format", "gguf-hash", p).out.splitlines()[-1].split()[1]
        for p in (model, tmp_path / "theirs.gguf")
    ]
    assert hashes[0] == hashes[1]


def test_we_merge_theirs(cli, model: Path, tmp_path: Path):
    for options in (["--split-max-tensors", 13], ["--split-max-size", "1M"]):
        official("--split", *options, model, tmp_path / "s")
        [first, *_] = sorted(tmp_path.glob("s-*"))
        assert cli("verify", first).code == 0
        assert cli("merge", first, "-o", tmp_path / "back.gguf").code == 0
        assert (tmp_path / "back.gguf").read_bytes() == model.read_bytes()
        for path in tmp_path.glob("s-*"):
            path.unlink()
        (tmp_path / "back.gguf").unlink()


def test_what_theirs_does_with_a_cut_off_shard(cli, model: Path, tmp_path: Path):
    """The reason for checking every read: exit code 0 and a right-sized wrong file."""
    official("--split", "--split-max-tensors", 20, model, tmp_path / "s")
    shards = sorted(tmp_path.glob("s-*"))
    os.truncate(shards[1], shards[1].stat().st_size - 4000)
    done = official("--merge", shards[0], tmp_path / "theirs.gguf")
    assert done.returncode == 0
    theirs = (tmp_path / "theirs.gguf").read_bytes()
    assert len(theirs) >= model.stat().st_size
    assert cli("verify", tmp_path / "theirs.gguf").code == 0
    assert cli("merge", shards[0], "-o", tmp_path / "ours.gguf").code == 3
    assert not (tmp_path / "ours.gguf").exists()
