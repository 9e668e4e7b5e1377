"""The hash of a file against the source that its keys, or the folders of a store, name."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from gguftool.api.diagnosed import diagnose
from gguftool.errors import ToolFailed
from gguftool.model import open_model
from gguftool.verify import named
from gguftool.verify.expect import Expectation
from gguftool.verify.manifest import Entry
from tests.build import llama

COMMIT = "a" * 40


@pytest.mark.parametrize(
    ("key", "text", "wanted"),
    [
        ("general.repo_url", "https://huggingface.co/me/Foo-GGUF", "hf://me/Foo-GGUF"),
        ("general.repo_url", "https://huggingface.co/me/Foo-GGUF/", "hf://me/Foo-GGUF"),
        ("general.source.huggingface.repository", "me/Foo", "hf://me/Foo"),
        ("general.source.url", "https://huggingface.co/me/Foo", "hf://me/Foo"),
        ("general.url", "https://example.com/me/foo", ""),
        ("general.repo_url", "https://github.com/me/foo", ""),
        ("general.repo_url", "no address at all", ""),
    ],
)
def test_repositories_in_the_keys(tmp_path: Path, key: str, text: str, wanted: str) -> None:
    with open_model(llama().kv(key, text).write(tmp_path / "m.gguf")) as m:
        assert named.repositories(m) == ((wanted,) if wanted else ())


def test_lm_studio_keeps_a_file_under_the_names_of_its_repository(tmp_path: Path) -> None:
    folder = tmp_path / ".lmstudio" / "models" / "me" / "Foo-GGUF"
    folder.mkdir(parents=True)
    with open_model(llama().write(folder / "m.gguf")) as m:
        assert named.repositories(m) == ("hf://me/Foo-GGUF",)


def test_the_copy_in_the_cache_tells_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    path = llama().kv("general.repo_url", "https://huggingface.co/me/Foo-GGUF").write(tmp_path / "m.gguf")
    root = tmp_path / "hf-home" / "hub" / "models--me--Foo-GGUF"
    for part in ("blobs", "refs", f"snapshots/{COMMIT}"):
        (root / part).mkdir(parents=True)
    (root / "refs" / "main").write_text(COMMIT)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    (root / "blobs" / digest).write_bytes(path.read_bytes())
    (root / "snapshots" / COMMIT / "m.gguf").symlink_to(root / "blobs" / digest)
    looked = {x.what: x for x in diagnose(path, run=False).looked}
    assert (looked["hash"].ok, looked["hash"].result) == (
        True, "as its source says (the copy of hf://me/Foo-GGUF in the cache)",
    )  # fmt: skip
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    first = diagnose(path, run=False).causes[0]
    assert first.next == ("verify", str(path), "--against", "hf://me/Foo-GGUF")


def test_else_the_hub_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = llama().kv("general.source.huggingface.repository", "me/Foo").write(tmp_path / "m.gguf")
    asked: list[str] = []

    def published(name: str, paths: list[str]) -> list[tuple[str, Expectation]]:
        asked.append(name)
        return [(p, Expectation(f"the Hub ({name})", Entry("m.gguf", "0" * 64, None))) for p in paths]

    monkeypatch.setattr(named, "published", published)
    found = diagnose(path, run=False)
    assert asked == ["hf://me/Foo"]
    assert found.causes[0].next[-1] == "hf://me/Foo"
    assert found.causes[0].evidence.startswith("verify:")
    diagnose(path, run=False, hashes=False)
    assert asked == ["hf://me/Foo"], "not with --no-hash"
    # What lies beside it is asked first.
    (tmp_path / "SHA256SUMS").write_text(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  m.gguf\n")
    assert {x.what: x.result for x in diagnose(path, run=False).looked}["hash"] == "as its source says (SHA256SUMS)"
    assert len(asked) == 1


def test_without_an_answer_it_says_how_to_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = llama().kv("general.repo_url", "https://huggingface.co/me/Foo").write(tmp_path / "m.gguf")

    def published(name: str, paths: list[str]) -> list[tuple[str, Expectation]]:
        raise ToolFailed("the Hub cannot be asked")

    monkeypatch.setattr(named, "published", published)
    hash = {x.what: x for x in diagnose(path, run=False).looked}["hash"]
    assert hash.ok is None
    assert "the Hub cannot be asked: gguftool verify " in hash.result
    assert hash.result.endswith("--against hf://me/Foo")
    monkeypatch.setattr(named, "published", lambda name, paths: [])
    hash = {x.what: x for x in diagnose(path, run=False).looked}["hash"]
    assert "hf://me/Foo has no file of that name" in hash.result
