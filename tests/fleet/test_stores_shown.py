"""`gguftool scan --stores` as a command: text, JSON, Markdown, exit codes."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

import gguftool
from gguftool.hub.stores import places
from tests import stores as made
from tests.build import GGUF, llama

MODEL = llama().bytes()
OTHER = llama(layers=2).bytes()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in made.ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(places, "_others", lambda: iter(()))
    monkeypatch.setattr(places, "OLLAMA_SERVICE", ())
    return tmp_path / "home"


@pytest.fixture
def filled(home: Path) -> Path:
    """All kinds of things: a copy, an old revision, an orphan, a half download, lost names, a broken model."""
    cache, ollama = home / ".cache/huggingface/hub", home / ".ollama/models"
    made.hub(cache, "o/r", {"m.gguf": OTHER}, "a" * 40, ref=None)
    made.hub(cache, "o/r", {"m.gguf": MODEL}, "b" * 40)
    made.ollama(ollama, "registry.ollama.ai/library/tiny/latest", MODEL)
    made.put(ollama / "blobs" / f"sha256-{'5' * 64}", llama(layers=3).bytes())
    made.put(home / ".lmstudio/models/p/r/half.gguf.part", OTHER[:9000])
    made.put(home / ".lmstudio/models/p/r/cut\x1b[31m.gguf", llama(layers=4).bytes()[:-100])
    (home / ".lmstudio/models/p/r/gone.gguf").symlink_to("nowhere")
    made.age(home)
    return home


def test_nothing_is_there(cli) -> None:  # type: ignore[no-untyped-def]
    result = cli("scan", "--stores")
    assert result.code == 0
    assert "no store of Hugging Face, Ollama, LM Studio, llama.cpp, jan, GPT4All" in result.out
    assert cli("scan", "--stores", "--format", "json").json["files"] == []


def test_text(cli, filled: Path) -> None:  # type: ignore[no-untyped-def]
    before = sorted(filled.rglob("*"))
    result = cli("scan", "--stores")
    assert result.code == 1, "a model is cut off"
    out = result.out
    assert out.replace("\n", "").isprintable()
    for line in (
        "o/r/m.gguf (old)",
        "tiny:latest",
        "FAULT",
        "the same content",
        "hf cache rm",
        "ln -f",
        "not touched for 90 days",
    ):
        assert line in out, line
    assert "1 old revision of o/r" in out
    commands = [line.strip() for line in out.splitlines() if re.match(r"  (rm|cmp|ollama|\S*hf) ", line)]
    assert {shlex.split(c)[0].rpartition("/")[2] for c in commands} == {"rm", "cmp", "hf"}
    assert sorted(filled.rglob("*")) == before, "nothing is deleted"
    assert cli("scan", "--stores", "--fail-on", "never").code == 0


def test_json(cli, filled: Path) -> None:  # type: ignore[no-untyped-def]
    result = cli("scan", "--stores", "--hash", "--format", "json")
    found = result.json
    assert (result.code, found["ok"], found["format"]) == (1, False, "gguftool.scan-stores/1")
    assert [s["program"] for s in found["stores"]] == ["Hugging Face", "Ollama", "LM Studio"]
    assert {c["kind"] for c in found["commands"]} == {"lost", "part", "orphan", "old", "merge", "copy"}
    assert [c["proof"] for c in found["copies"]] == ["data"]
    assert found["disk"] == sum(f["disk"] for f in found["files"])
    simple = sum(c["frees"] for c in found["commands"] if c["copies"] is None)
    assert found["reclaimable"] == simple + found["copies"][0]["extra"]
    rows = {os.path.basename(f["open"]): f["row"] for f in found["files"] if f["row"]}
    assert rows["m.gguf"]["load"] == "loads"
    assert rows["m.gguf"]["facts"]["architecture"] == "llama"
    assert rows["cut\x1b[31m.gguf"]["ok"] is False


def test_markdown(cli, filled: Path) -> None:  # type: ignore[no-untyped-def]
    out = cli("scan", "--stores", "--format", "markdown").out
    assert "| o/r/m.gguf (old)" in out
    assert "```sh\n# names whose data is gone\n" in out
    assert out.replace("\n", "").isprintable()


def test_formats_and_folders(cli, filled: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    assert cli("scan", "--stores", "--format", "jsonl").code == 2
    assert cli("scan").code == 2
    made.put(tmp_path / "more/x.gguf", llama(layers=3).bytes())
    found = cli("scan", "--stores", tmp_path / "more", "--format", "json").json
    assert found["stores"][-1]["program"] == "folder"
    assert cli("scan", "--stores", tmp_path / "none").code == cli("scan", tmp_path / "none").code == 2


def test_a_shard_that_is_missing(cli, home: Path) -> None:  # type: ignore[no-untyped-def]
    first = GGUF("llama").shard(0, 2, tensors=2).tensor("a.weight", (32, 32)).bytes()
    made.hub(home / ".cache/huggingface/hub", "o/r", {"m-00001-of-00002.gguf": first})
    result = cli("scan", "--stores")
    assert result.code == 1
    assert "FAULT" in result.out


def test_from_python(filled: Path) -> None:
    found = gguftool.stored_models(read=True)
    assert not found.ok
    assert [c.proof for c in found.found.compared.copies] == ["data"]
    assert len(found.rows) == 5
    assert found.offers.reclaimable
