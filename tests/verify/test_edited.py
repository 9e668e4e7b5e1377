"""After a fix the published file is still provable, out of the undo record beside it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.build import llama


@pytest.fixture
def published(tmp_path: Path) -> tuple[Path, str]:
    path = llama(layers=2).write(tmp_path / "m.gguf")
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


EDITS = {
    "same size": ("--set", "llama.context_length=4096"),
    "longer": ("--set", "general.description=" + "x" * 5000),
    "shorter": ("--delete", "general.name"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_hash_of_the_published_file(cli, published, edit: tuple[str, str]):
    path, sha = published
    assert cli("fix", path, *edit).code == 0
    assert hashlib.sha256(path.read_bytes()).hexdigest() != sha
    result = cli("verify", "--sha256", sha, path, "--format", "json")
    assert result.code == 0
    [note] = result.json["files"][0]["notes"]
    assert note["kind"] == "edited-since"
    assert "before the last edit with gguftool it was exactly the file that --sha256 names" in note["message"]


def test_several_edits_ago(cli, published):
    path, sha = published
    for edit in EDITS.values():
        assert cli("fix", path, *edit).code == 0
    result = cli("verify", "--sha256", sha, path)
    assert result.code == 0
    assert "before the last 3 edits" in result.out


def test_data_damaged_after_the_edit_is_no_longer_provable(cli, published):
    path, sha = published
    cli("fix", path, *EDITS["longer"])
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    assert cli("verify", "--sha256", sha, path).code == 1


def test_header_damaged_after_the_edit(cli, published):
    path, sha = published
    cli("fix", path, *EDITS["longer"])
    data = bytearray(path.read_bytes())
    at = data.index(b"xxxx")
    data[at] ^= 1
    path.write_bytes(data)
    assert cli("verify", "--sha256", sha, path).code == 1


def test_manifest_after_an_edit(cli, published, tmp_path: Path):
    """Data and tensors are as listed; the change of the header is known and recorded."""
    path, _ = published
    cli("verify", "--write-manifest", tmp_path / "list", path)
    cli("fix", path, *EDITS["longer"])
    result = cli("verify", "--against", tmp_path / "list", path, "--format", "json")
    assert result.code == 0
    assert [n["kind"] for n in result.json["files"][0]["notes"]] == ["edited-since"]


def test_journal_of_an_unfinished_edit(cli, published):
    path, _ = published
    Path(f"{path}-journal").write_bytes(b"x")
    result = cli("verify", path)
    assert result.code == 7
    assert f"gguftool recover {path}" in result.out
