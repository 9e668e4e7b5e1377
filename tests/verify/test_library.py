"""The library's own calls."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import gguftool
from tests.build import llama


def test_verify_split_merge(tmp_path: Path):
    model = llama()
    path = model.write(tmp_path / "m.gguf")
    assert gguftool.verify(path).ok
    assert gguftool.verify(path, sha256=hashlib.sha256(path.read_bytes()).hexdigest(), data=True).ok
    assert not gguftool.verify(path, sha256="0" * 64).ok
    shards = gguftool.split(path, str(tmp_path / "s"), max_tensors=4)
    assert gguftool.verify(shards[1].path).set.present == len(shards) == 3
    written = gguftool.merge(shards[0].path, output=tmp_path / "back.gguf")
    assert written.sha256 == gguftool.hash_file(path).file
    data = bytearray(path.read_bytes())
    data[-4:] = struct.pack("<f", float("inf"))
    path.write_bytes(data)
    assert gguftool.verify(path).ok
    assert not gguftool.verify(path, data=True).ok


def test_package_and_function_are_one(tmp_path: Path):
    from gguftool.verify import quick

    path = llama().write(tmp_path / "m.gguf")
    assert quick(path).ok
    assert gguftool.verify(path).ok


def test_open_takes_addresses(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    (tmp_path / "manifests" / "registry.ollama.ai" / "library" / "x").mkdir(parents=True)
    (tmp_path / "blobs").mkdir()
    llama().write(tmp_path / "blobs" / "sha256-aa")
    (tmp_path / "manifests" / "registry.ollama.ai" / "library" / "x" / "latest").write_text(
        '{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:aa"}]}'
    )
    assert gguftool.open("ollama://x").architecture == "llama"
