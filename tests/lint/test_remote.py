"""Lint by address: the header of a model on the Hub, and a source model on the Hub (a server on this machine)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.server import Site, serve
from tests.lint.samples import ready


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Site]:
    for name in (
        "HF_TOKEN",
        "HF_HUB_CACHE",
        "HF_HUB_OFFLINE",
        "http_proxy",
        "https_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf-home"))
    monkeypatch.chdir(tmp_path)
    with serve(Site()) as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running


def put(site: Site, files: dict[str, bytes]) -> None:
    site.repos.setdefault("me/model", {}).update(files)


def test_header_by_range_request(site: Site, cli) -> None:  # type: ignore[no-untyped-def]
    whole = ready().replace("llama.block_count", 2).tensor("big", (1024, 1024), "f16", bytes(2 << 20)).bytes()
    put(site, {"m.gguf": whole})
    result = cli("lint", "hf://me/model/m.gguf", "--format", "json")
    (file,) = result.json["files"]
    assert file["path"] == "hf://me/model/m.gguf"
    assert "block-count-tensors" in {f["rule"] for f in file["findings"]}
    assert cli("lint", "hf://me/model/none.gguf", "--format", "json").code != 0


def test_fix_of_an_address_is_not_tried(site: Site, cli) -> None:  # type: ignore[no-untyped-def]
    put(site, {"m.gguf": ready().replace("llama.block_count", 2).bytes()})
    result = cli("lint", "hf://me/model/m.gguf", "--fix-unsafe")
    assert "cannot be fixed here: an address" in result.err
    assert result.code == 1


def test_against_a_repository(site: Site, cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 291,
        "max_position_embeddings": 2048, "rope_theta": 500000.0, "rms_norm_eps": 1e-5,
    }  # fmt: skip
    put(site, {"config.json": json.dumps(config).encode()})
    path = ready().write(tmp_path / "m.gguf")
    result = cli("lint", path, "--against", "hf://me/model", "--format", "json")
    found = {f["rule"]: f for f in result.json["files"][0]["findings"]}
    assert "500000" in found["source-rope-base"]["message"]
    assert found["source-rope-base"]["fix"]["command"].endswith("--set llama.rope.freq_base=500000.0")
    assert cli("lint", path, "--against", "hf://me/nothing").code != 0
