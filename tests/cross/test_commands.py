"""Words that people try for a command lead to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gguftool.cli.group import OTHER_WORDS, TABLE, called
from gguftool.version import __version__
from tests.build import GGUF

# What people of other tools type first (ollama, git, exiftool, hf, docker, LM Studio).
EXPECTED = {
    "dump": "show info inspect view cat metadata",
    "fix": "set repair patch",
    "launch": "serve run start server",
    "lint": "check validate test",
    "plan": "estimate vram memory size",
    "hash": "sha256 checksum",
    "diff": "compare",
    "merge": "join",
    "quantize": "compress quant",
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return GGUF("llama").write(tmp_path / "m.gguf")


@pytest.mark.parametrize(("word", "name"), [(w, name) for name, words in EXPECTED.items() for w in words.split()])
def test_a_word_runs_the_command_it_means(cli, word: str, name: str):
    assert called(word) == called(word.upper()) == name
    shown = cli(word, "--help")
    assert (shown.code, shown.out) == (0, cli(name, "--help").out)


def test_no_word_is_a_command_or_means_two():
    names = [entry.name for entry in TABLE]
    words = [word for some in OTHER_WORDS.values() for word in some.split()]
    assert len({*names, *words, "help", "version"}) == len(names) + len(words) + 2
    assert set(OTHER_WORDS) <= set(names)
    assert called("kv_test") == "kv-test"


def test_one_note_says_which_command_it_is(cli, model: Path):
    result = cli("show", model, "--keys", "*")
    assert result.out == cli("dump", model, "--keys", "*").out
    assert result.err == "note: `show` is `gguftool dump`\n"
    for quiet in (cli("-q", "show", model), cli("show", "-q", model)):
        assert (quiet.code, quiet.err) == (0, "")
    assert cli("info", model, "--format", "json").json["format"] == "gguftool.dump/1"
    failed = cli("info", "--format", "json", "--no-such")
    assert failed.code == 2
    assert failed.stdout.startswith(b"{")
    assert b"gguftool.dump/1" in failed.stdout


def test_set_as_other_programs_have_it(cli, model: Path):
    for words in (("general.name", "Foo"), ("general.name=Foo",), ("--set", "general.name=Foo")):
        result = cli("set", model, *words, "--dry-run", "--json")
        assert result.json["changes"] == cli("fix", model, "--set", "general.name=Foo", "-n", "--json").json["changes"]


def test_a_model_in_place_of_a_command(cli, model: Path):
    result = cli(model)
    assert (result.code, result.out) == (0, cli("dump", "--overview", model).out)
    assert result.err == "note: this is `gguftool dump --overview`\n"
    assert cli(model, "--keys", "*").out == cli("dump", model, "--keys", "*").out
    missing = cli("nowhere.gguf")
    assert (missing.code, "nowhere.gguf: no such file" in missing.err) == (2, True)


def test_help_and_version(cli):
    assert cli("help").out == cli("--help").out
    for words in (("help", "lint"), ("help", "check"), ("check", "--help")):
        shown = cli(*words)
        assert (shown.code, shown.out, shown.err) == (0, cli("lint", "--help").out, "")
    assert cli("version").out == f"gguftool {__version__}\n"
    unknown = cli("help", "lnit")
    assert (unknown.code, "Did you mean `gguftool lint`" in unknown.err) == (2, True)


@pytest.mark.parametrize(("word", "said"), [("push", "hf upload")])
def test_what_another_program_does(cli, word: str, said: str):
    result = cli(word, "owner/repo")
    assert (result.code, said in result.err) == (2, True)


@pytest.mark.parametrize(
    ("word", "name"), [("shwo", "dump"), ("inspec", "dump"), ("repiar", "fix"), ("lnt", "lint"), ("servr", "launch")]
)
def test_a_slip_in_a_word_is_known_too(cli, word: str, name: str):
    said = cli(word).err
    assert "Did you mean" in said
    assert f"`gguftool {name}`" in said
