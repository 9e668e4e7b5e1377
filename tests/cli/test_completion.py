"""What the shell completes; asked the way the scripts ask, and once by a real bash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gguftool.cli import complete
from gguftool.facts.cachetypes import CACHE_TYPES
from gguftool.lint.rules import FAMILIES, family
from tests.build import GGUF


@pytest.fixture
def ask(cli, monkeypatch: pytest.MonkeyPatch):
    """The names offered behind the words of a line; the last word is the one begun."""

    def run(*words: object, behind: str = "") -> list[str]:
        line = " ".join(["gguftool", *map(str, words)])
        monkeypatch.setenv("_GGUFTOOL_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", f"{line} {behind}".rstrip() if words[-1] else f"{line} {behind}")
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        return [row.partition(",")[2] for row in cli().out.splitlines() if row]

    return run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    g = GGUF("llama").kv("my.own.key", "x").kv("bad\nplain,evil", "x").kv("$(touch x)", "x").kv("my.own.other", 5)
    return g.write(tmp_path / "m.gguf")


def test_rules_and_families(ask):
    deploy = [rule.id for rule in family("deploy")]
    assert set(FAMILIES) | set(deploy) <= set(ask("lint", "--select", ""))
    assert ask("lint", "--ignore", "kv-cache-type-s") == ["kv-cache-type-slow"]
    assert ask("lint", "--select", "deploy,kv-cache-type-s") == ["deploy,kv-cache-type-slow"]
    assert ask("rules", "templ")[0] == "template"


def test_keys(ask, model: Path):
    assert ask("explain", "general.archi") == ["general.architecture"]
    assert "context_length" in ask("explain", "context_l")
    for words in (("dump", model, "--raw", "my.own."), ("fix", model, "--delete", "my.own.")):
        assert ask(*words) == ["my.own.key", "my.own.other"]
    assert ask("dump", "--raw", "my.own.", behind=str(model)) == ["my.own.key", "my.own.other"]
    assert ask("fix", model, "--set", "my.own.k") == ["my.own.key="]
    assert ask("fix", "--set", "general.quantization_v") == ["general.quantization_version="]
    assert ask("fix", model, "--rename", "my.own.k") == ["my.own.key="]


def test_names_of_a_hostile_file_reach_no_shell(ask, model: Path):
    assert ask("dump", model, "--raw", "") == ["general.architecture", "my.own.key", "my.own.other"]


def test_a_file_is_read_in_bounds(ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    g = GGUF("llama")
    for i in range(complete.MOST_NAMES + 100):
        g.kv(f"k.{i:04d}", i)
    path = g.write(tmp_path / "many.gguf")
    assert len(ask("dump", path, "--raw", "k.")) == complete.MOST_NAMES
    monkeypatch.setattr(complete, "MOST_BYTES", 200)
    assert 0 < len(ask("dump", path, "--raw", "k.")) < 20
    os.mkfifo(tmp_path / "fifo")
    for name in (tmp_path / "fifo", tmp_path, "hf://owner/repo", tmp_path / "none.gguf"):
        assert ask("dump", name, "--raw", "k.") == []


@pytest.mark.parametrize(
    "words", [("lint", "--cache-type"), ("fix", "--kv-cache-type"), ("prepare", "-ctk"), ("kv-test", "--types")]
)
def test_cache_types_behind_every_name_of_the_option(ask, words: tuple[str, str]):
    assert ask(*words, "") == sorted(CACHE_TYPES)
    assert ask(*words, "q8_0/q4") == ["q8_0/q4_0", "q8_0/q4_1"]


def test_quantisation_types(ask):
    assert ask("quantize", "m.gguf", "q4_k") == ["Q4_K_M", "Q4_K_S"]
    assert ask("prepare", "--quantize", "MXF") == ["MXFP4_MOE"]
    assert ask("quantize", "m.gguf", "out.gg") == ["out.gg"]


def test_hidden_names_are_not_offered(ask):
    assert ask("lint", "--c") == ["--ctx", "--cache-type", "--config"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_in_a_real_bash(cli, model: Path, tmp_path: Path):
    script = tmp_path / "gguftool.bash"
    script.write_text(cli("completion", "bash").out)
    (tmp_path / "gguftool").write_text(f"#!/bin/sh\nexec {sys.executable} -m gguftool\n")
    (tmp_path / "gguftool").chmod(0o755)
    ask = """
    source "$1"
    compopt() { local IFS=' '; echo "compopt $*"; }
    COMP_WORDS=(gguftool fix "$2" --set my.own.k) COMP_CWORD=4
    _gguftool_completion gguftool
    printf '%s\\n' "${COMPREPLY[@]}"
    """
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", ask, "bash", script, model], env=env, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split("\n") == ["compopt -o nospace", "my.own.key=", ""], done.stderr
