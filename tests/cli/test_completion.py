"""What each parameter completes; the table, the readers of what was typed, and what it costs.

The shells themselves: `tests.cli.completing`.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gguftool.cli.complete import offer, sources, table
from gguftool.cli.complete.line import continued, words
from gguftool.cli.complete.shells import SHELLS
from gguftool.cli.group import TABLE, gguftool
from gguftool.facts.cachetypes import CACHE_TYPES
from gguftool.lint.rules import FAMILIES, by_id
from tests.build import GGUF
from tests.pace import within

BREAKS = " \t\n\"'><=;|&(:"


@pytest.fixture
def ask(cli, monkeypatch: pytest.MonkeyPatch):
    """The words offered behind those of a line; the last one is begun."""

    def run(*typed: object, behind: str = "") -> list[str]:
        monkeypatch.setenv("_GGUFTOOL_COMPLETE", "fish_complete")
        done = cli(behind, "\x1f", *typed[:-1], shlex.quote(str(typed[-1])) if typed[-1] else "")
        assert (done.code, done.err) == (0, "")
        return [row.partition("\t")[0] for row in done.out.splitlines()]

    return run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return GGUF("llama").kv("my.own.key", "x").kv("bad\nplain", "x").kv("my.own.other", 5).write(tmp_path / "m.gguf")


def parameters() -> Iterator[tuple[str, click.Parameter]]:
    """Every parameter of every command that takes a value."""
    for entry in TABLE:
        command = gguftool.get_command(click.Context(gguftool), entry.name)
        assert command is not None
        for param in command.params:
            if not (isinstance(param, click.Option) and (param.is_flag or param.count)):
                yield entry.name, param


def needs_none(param: click.Parameter) -> bool:
    """A choice is click's; a number has no names."""
    kind = type(param.type).__name__
    return isinstance(param.type, click.Choice) or kind in (
        "IntRange", "FloatRange", "IntParamType", "FloatParamType", "CountType", "SizeType",
    )  # fmt: skip


def test_every_parameter_has_a_completer():
    """Who adds one says what it takes: a list, files, or nothing that anybody could list."""
    without = [
        f"{name} {param.name}" for name, param in parameters() if not needs_none(param) and not table.of(name, param)
    ]
    assert without == []
    seen = {row for name, param in parameters() for row in table.rows(name, param)}
    assert set(table.TABLE) - seen == set(), "rows that no parameter has"


def test_what_is_not_completed_cannot_be_listed():
    """A parameter whose help or type names values is not called free text."""
    for name, param in parameters():
        completer = table.of(name, param)
        values = getattr(getattr(getattr(param.type, "found", None), "option", None), "kind", None)
        if completer is not None and (completer.__doc__ or "").startswith("any"):
            assert not getattr(values, "values", ()), f"{name} {param.name}"
            assert not isinstance(param.type, click.Path), f"{name} {param.name}"


def test_every_completer_answers(ask, model: Path, monkeypatch: pytest.MonkeyPatch):
    """No parameter of any command fails, with nothing and with something typed; what is offered takes the word on."""
    monkeypatch.chdir(model.parent)
    some = 0
    for name, param in parameters():
        option = [next(n for n in param.opts if n.startswith("--"))] if isinstance(param, click.Option) else []
        ahead = [name, str(model), *option] if option else [name]
        for begun in ("", "q8_0,") if len(name) % 2 else ("m",):
            found = ask(*ahead, begun)
            assert all(word.lower().startswith(begun) for word in found), (ahead, begun, found)
            some += bool(found)
    assert some > 100


def test_rules_and_families_as_they_are():
    told = dict(map(offer._pair, sources.rules(offer.Asked(click.Context(gguftool)))))
    assert set(told) == {*by_id(), *FAMILIES}
    assert {name: told[name] for name in by_id()} == {name: rule.title for name, rule in by_id().items()}


def test_lists_leave_out_what_they_have(ask):
    assert ask("lint", "--select", "template,templat") == []
    assert ask("kv-test", "m.gguf", "--cache-type", "q8_0/q4_0,q8_0/q4") == [
        "q8_0/q4_0,q8_0/q4_0", "q8_0/q4_0,q8_0/q4_1"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "typed", [("lint", "--cache-type"), ("fix", "--kv-cache-type"), ("prepare", "-ctk"), ("kv-test", "--types")]
)
def test_cache_types_behind_every_name_of_the_option(ask, typed: tuple[str, str]):
    assert ask(*typed, "") == sorted(CACHE_TYPES)


def test_values_of_keys(ask, model: Path):
    assert ask("fix", model, "--set", "pooling_type=") == [f"pooling_type={n}" for n in "01234"]
    assert ask("fix", model, "--set", "llama.rope.scaling.type=") == [
        f"llama.rope.scaling.type={n}" for n in ("linear", "longrope", "none", "yarn")
    ]
    assert ask("fix", model, "--set", "tokenizer.ggml.add_eos_token=") == [
        f"tokenizer.ggml.add_eos_token={n}" for n in ("false", "true")
    ]
    assert ask("fix", model, "--set", "general.name=") == []


def test_many_names_are_offered_up_to_a_dot(ask, tmp_path: Path):
    g = GGUF("llama")
    for i in range(offer.MOST + 100):
        g.kv(f"k.{i:04d}.x", i)
    path = g.write(tmp_path / "many.gguf")
    assert ask("dump", path, "--raw", "k") == ["k."]
    assert len(ask("dump", path, "--raw", "k.")) == offer.MOST
    assert ask("dump", path, "--raw", "k.0005.") == ["k.0005.x"]


def test_a_file_is_read_in_bounds(ask, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert ask("dump", model, "--raw", "my.") == ["my.own.key", "my.own.other"]
    assert ask("dump", "--raw", "my.", behind=str(model)) == ["my.own.key", "my.own.other"]
    monkeypatch.setattr(sources, "MOST_BYTES", 120)
    assert ask("dump", model, "--raw", "my.") == ["my.own.key"]


def test_files_of_a_folder_that_is_hostile(ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "a").mkdir()
    for name in (
        "b\nc.gguf",
        "d\x1b[31m.gguf",
        "e.gguf",
        ".hidden.gguf",
        b"\xff.gguf".decode(errors="surrogateescape"),
    ):
        (tmp_path / "a" / name).touch()
    monkeypatch.chdir(tmp_path)
    assert ask("lint", "a/") == ["a/e.gguf"]
    assert ask("lint", "a/.h") == ["a/.hidden.gguf"]
    assert ask("lint", "none/") == []


@pytest.mark.parametrize(
    ("line", "wanted", "made"),
    [
        ("g x", "xy", "xy"),
        ("g --a=", "--a=b c", "b\\ c"),
        ("g 'a", "a'b", "a'\\''b"),
        ('g "a', 'a"$`\\!', 'a\\"\\$\\`\\\\"\\!"'),
        ('g "a b":c', "a b:cd", "cd"),
        ('g --x="a', "--x=ab", "ab"),
        ("g $HOME/a", "$HOME/a b", "$HOME/a\\ b"),
        ("g a\\ ", "a b", "a\\ b"),
        ("g a\\", "a b", "a\\ b"),
        ("g q4", "Q4_K", "Q4_K"),
        ("g a:q4", "a:Q4_K", "Q4_K"),
        ("g $'a", "a'\\b", "a\\'\\\\b"),
    ],
)
def test_what_bash_inserts(line: str, wanted: str, made: str):
    _, begun = words(line, BREAKS)
    assert continued(begun, wanted) == made


@pytest.mark.parametrize("text", ["$(touch x)", "a b\"c'd\\e!f`g`", "ü*?[x]{a,b}~#", "-x;y&z|w<v>u"])
@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_every_text_comes_back_from_bash(text: str, quote: str, tmp_path: Path):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    _, begun = words(f"g {quote}k", BREAKS)
    line = f"{quote}{continued(begun, 'k' + text)}{quote}"
    done = subprocess.run([bash, "-c", f"printf '%s\\n' {line}"], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == f"k{text}\n"
    assert os.listdir(tmp_path) == []


def test_nothing_is_ever_said(cli, monkeypatch: pytest.MonkeyPatch):
    """No error, whatever a script hands over: a terminal is being typed at."""
    for shell in SHELLS:
        monkeypatch.setenv("_GGUFTOOL_COMPLETE", f"{shell}_complete")
        for typed in (
            [],
            [""],
            ["\x1f"],
            ["gguftool upload ", "", ""],
            ["\x1f", "set", "x", ""],
            ["'", "'", "'"],
            ["-", "\\"],
        ):
            done = cli(*typed)
            assert (done.code, done.err) == (0, ""), (shell, typed)
    monkeypatch.setenv("_GGUFTOOL_COMPLETE", "tcsh_complete")
    assert (cli("x").code, cli("x").out) == (0, "")


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vocabulary of 262,144 tokens."""
    n = 262_144
    g = GGUF("llama").kv("tokenizer.ggml.tokens", [f"token{i}" for i in range(n)])
    g.kv("tokenizer.ggml.token_type", [3 if i % 64 == 0 else 1 for i in range(n)], "[i32]")
    return g.tensor("blk.0.attn_q.weight", (32,), "f32").write(tmp_path_factory.mktemp("huge") / "m.gguf")


@pytest.mark.parametrize(
    "line", ["fix {} --set general.", "fix {} --special eos=", "dump {} --tensors b", "lint --select ", "launch {} --"]
)
def test_what_a_press_of_the_key_costs(line: str, huge: Path):
    """At most 0.3 s of processor, start of Python included."""
    env = {**os.environ, "_GGUFTOOL_COMPLETE": "bash_complete"}
    command = [sys.executable, "-m", "gguftool", f"gguftool {line.format(huge)}", "", BREAKS]
    with within(0.3, lambda: sum(os.times()[2:4])):
        done = subprocess.run(command, env=env, capture_output=True, check=True)
    assert done.stdout
