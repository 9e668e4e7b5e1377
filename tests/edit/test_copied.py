"""`fix --from OTHER --copy KEY`: keys of another model."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import gguftool
from tests.edit.test_toml import raw_of, write


def pair(tmp_path: Path) -> tuple[Path, Path]:
    to = write(
        tmp_path / "to.gguf",
        ("llama.context_length", "u32", 64),
        ("tokenizer.chat_template", "str", "old"),
        ("tokenizer.chat_template.tool_use", "str", "stale"),
        ("tokenizer.ggml.model", "str", "gpt2"),
        ("tokenizer.ggml.add_bos_token", "bool", True),
        ("general.sampling.temp", "f32", 0.5),
        ("general.sampling.top_k", "i32", 5),
    )
    other = write(
        tmp_path / "other.gguf",
        ("qwen2.context_length", "u32", 4096),
        ("tokenizer.chat_template", "str", "new\n"),
        ("tokenizer.ggml.model", "str", "llama"),
        ("tokenizer.ggml.tokens", "[str]", ["a", "b"]),
        ("tokenizer.ggml.scores", "[f32]", [0.25, -1.0]),
        ("general.sampling.temp", "f32", 0.25),
        ("my.odd", "i16", -3),
        ("my.more", "u64", 2**63),
        arch="qwen2",
    )
    return to, other


@pytest.mark.parametrize(
    "words",
    ["{to} --from {other} --copy template", "{to} --copy-from {other} --keys template", "--from {other} {to} template"],
)
def test_a_group_is_taken_whole(cli, tmp_path: Path, words: str):
    to, other = pair(tmp_path)
    kept, theirs = raw_of(to), raw_of(other)
    done = cli("fix", *words.format(to=to, other=other).split())
    assert done.code == 0, done.err
    now = raw_of(to)
    assert now["tokenizer.chat_template"] == theirs["tokenizer.chat_template"]
    assert set(kept) - set(now) == {"tokenizer.chat_template.tool_use"}
    assert all(now[k] == kept[k] for k in now if k != "tokenizer.chat_template")


def test_the_tokenizer_without_the_template(cli, tmp_path: Path):
    to, other = pair(tmp_path)
    kept, theirs = raw_of(to), raw_of(other)
    done = cli("fix", to, "--from", other, "--copy", "tokenizer,sampling")
    assert done.code == 0, done.err
    now = raw_of(to)
    for key in ("tokenizer.ggml.model", "tokenizer.ggml.tokens", "tokenizer.ggml.scores", "general.sampling.temp"):
        assert now[key] == theirs[key]
    assert set(kept) - set(now) == {"tokenizer.ggml.add_bos_token", "general.sampling.top_k"}
    assert now["tokenizer.chat_template"] == kept["tokenizer.chat_template"]


def test_keys_and_patterns_keep_their_types(cli, tmp_path: Path):
    to, other = pair(tmp_path)
    theirs = raw_of(other)
    done = cli("fix", to, "--from", other, "--copy", "my.*", "--copy", "context_length")
    assert done.code == 0, done.err
    now = raw_of(to)
    assert (now["my.odd"], now["my.more"]) == (theirs["my.odd"], theirs["my.more"])
    with gguftool.open(to) as m:
        assert m["llama.context_length"] == 4096
        assert "qwen2.context_length" not in m
    assert "like that already" in cli("fix", to, "--from", other, "--copy", "my.*").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--copy", "template"), "--copy needs --from"),
        (("--from", "{other}"), "groups: template, tokenizer, sampling"),
        (("--from", "{other}", "--copy", "my.ood"), "did you mean my.odd"),
        (("--from", "{other}", "--copy", "none.*"), "has nothing to copy"),
    ],
)
def test_what_is_missing_is_said(cli, tmp_path: Path, words: tuple[str, ...], said: str):
    to, other = pair(tmp_path)
    before = to.read_bytes()
    done = cli("fix", to, *(w.format(other=other) for w in words))
    assert (done.code, to.read_bytes()) == (2, before)
    assert said in done.err


def test_the_layout_of_the_other_is_not_copied(cli, tmp_path: Path):
    to, other = pair(tmp_path)
    assert cli("fix", other, "--realign", "64").code == 0
    done = cli("fix", to, "--from", other, "--copy", "general.*", "--dry-run")
    assert "general.alignment" not in done.out + done.err
    assert os.path.exists(to)
