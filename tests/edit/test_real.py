"""A real model, edited in each way: the real llama.cpp loads it and says the same words; undo gives it back."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from gguftool.format.parse import parse
from gguftool.source import LocalFile
from gguftool.verify.proof import original
from tests.oracle.llama import ask, greedy
from tests.real_models import GEMMA3

PROMPT = [2, 818, 5279, 529, 7001, 563]  # <bos>The capital of France is
EDITS = {
    "insert": ["--set", "general.description=edited by a test", "--kv-cache-type", "q8_0"],
    "patch": ["--context-length", "16384"],
    "rewrite": ["--set", "general.description=edited by a test", "--strategy", "rewrite"],
    "rewrite-realign": ["--realign", "64"],
    "template-behind-tokens": ["--set", f"tokenizer.chat_template={'{{ messages }}' * 900}"],
}


def data_sha(path: Path) -> str:
    """sha256 of everything behind the header."""
    source = LocalFile(path)
    at = parse(source).data_offset
    source.close()
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        f.seek(at)
        while piece := f.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def sha(path: Path) -> str:
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


@pytest.fixture(scope="module")
def said(gemma3: Path) -> list[int]:
    tokens = greedy(gemma3, PROMPT, 8)
    assert len(tokens) == 8
    return tokens


@pytest.mark.real
@pytest.mark.oracle
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", EDITS)
def test_edited_model_says_the_same(name: str, gemma3: Path, gemma3_copy: Path, said: list[int], cli):
    path = gemma3_copy
    path.chmod(0o644)
    result = cli("fix", path, *EDITS[name], "--format", "json")
    assert result.code == 0, result.err
    assert result.json["strategy"] == {"template-behind-tokens": "insert"}.get(name, name.partition("-")[0])
    if name != "rewrite-realign":  # alignment 64 pads the tensors anew, each with the same bytes
        assert data_sha(path) == data_sha(gemma3)
    answer = ask(path, n_ctx=256, prompt=PROMPT, n=8)
    assert answer.ok, answer.errors
    assert list(answer.tokens) == said
    assert original(str(path), GEMMA3.sha256) == 1
    assert cli("undo", path).code == 0
    assert sha(path) == GEMMA3.sha256


@pytest.mark.real
def test_tensors_are_the_same_bytes_after_realigning(gemma3: Path, gemma3_copy: Path, cli):
    gemma3_copy.chmod(0o644)
    assert cli("fix", gemma3_copy, "--realign", "128", "--no-undo").code == 0
    before, after = LocalFile(gemma3), LocalFile(gemma3_copy)
    old, new = parse(before), parse(after)
    assert new.alignment == 128
    for a, b in zip(old.tensors, new.tensors, strict=True):
        (at, end), (where, _) = old.where(a), new.where(b)
        assert where % 128 == 0
        assert before.read_at(at, end - at) == after.read_at(where, end - at), a.name
    before.close()
    after.close()


@pytest.mark.real
@pytest.mark.oracle
def test_unloadable_in_the_middle(gemma3_copy: Path):
    """llama.cpp refuses the state in which an edit leaves a file for a moment."""
    gemma3_copy.chmod(0o644)
    with open(gemma3_copy, "r+b") as f:
        f.write(b"GGTX")
    answer = ask(gemma3_copy)
    assert answer.verdict == "refused"
    assert any("GGTX" in line for line in answer.errors)


@pytest.mark.real
def test_a_small_edit_writes_little(gemma3_copy: Path, cli):
    """The header of this model has 6.5 MB; an edit in front of the token list must not write all of it."""
    gemma3_copy.chmod(0o644)
    first = cli("fix", gemma3_copy, "--kv-cache-type", "q8_0", "--format", "json").json
    assert first["strategy"] == "insert"
    assert first["bytes_written"] < 100_000
    second = cli("fix", gemma3_copy, "--context-length", "8192", "--format", "json").json
    assert second["strategy"] == "patch"
    assert second["bytes_written"] < 30_000
