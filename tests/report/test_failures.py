"""With --format json every command prints one object that its schema describes, also when it fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gguftool.cli.group import TABLE, gguftool
from tests.build import llama
from tests.json_schemas import SCHEMAS, check_schema, validator


def _formats(name: str) -> list[str]:
    with gguftool.make_context("gguftool", ["--version"], resilient_parsing=True) as ctx:
        command = gguftool.get_command(ctx, name)
    assert command is not None
    option = next((p for p in command.params if p.name == "format"), None)
    return [f for f in getattr(getattr(option, "type", None), "choices", []) if f in ("json", "jsonl")]


COMMANDS = [entry.name for entry in TABLE if entry.name not in ("completion", "edit")]
"""Completion prints a script of a shell, edit is for people at a terminal."""


def test_every_command_speaks_json() -> None:
    assert {name for name in COMMANDS if "json" not in _formats(name)} == set()
    assert {path.name.removesuffix(".schema.json") for path in SCHEMAS.glob("*.json")} == {
        *COMMANDS,
        "completion",
        "envelope",
        "gguftool",
        "glance",
        "needs",
        "scan-emit",
        "scan-row",
        "scan-stores",
    }


FAILURES = {
    "no arguments": [],
    "an option nobody knows": ["--no-such-option"],
    "a missing file": ["{missing}"],
    "two missing files": ["{missing}", "{missing}2"],
    "no GGUF": ["{page}"],
    "a cut header": ["{cut}"],
    "a folder without models": ["{folder}"],
    "a bad address": ["hf://"],
}
MORE = {
    "diff": [["{good}", "{missing}"]],
    "explain": [["no.such.key"], ["--flag", "--no-such-flag"]],
    "rules": [["no-such-rule"]],
    "fix": [["{good}", "--set", "nothing"], ["{good}", "--delete", "general.architecture"]],
    "split": [["{good}", "{good}"], ["{missing}", "x", "--max-size", "1M"]],
    "merge": [["{good}", "-o", "{good}"]],
    "convert": [["{folder}", "-o", "{good}.out"]],
    "quantize": [["{good}", "{good}.out", "Q4_K_M"], ["{good}", "{good}.out", "no-type"]],
    "prepare": [["{missing}", "-o", "{good}.out"], ["{good}", "-o", "{good}.out", "--quantize", "no-type"]],
    "check-log": [["{good}", "--expect", "{page}"]],
    "doctor": [["--error", "never heard of"]],
    "dump": [["--raw", "no.such.key", "{good}"], ["--tokens", "x", "{good}"]],
    "hash": [["--algorithm", "no-such", "{good}"]],
    "kv-test": [["{good}", "--types", "no-such"]],
    "quant-test": [["{good}"], ["{good}", "{good}", "--plot", "x.png"]],
    "verify": [["--against", "{missing}", "{good}"], ["--join", "{good}.out", "{good}"]],
    "lint": [["--select", "no-such-rule", "{good}"], ["--policy", "{page}", "{good}"]],
    "plan": [["{good}", "--ctx", "no"]],
    "launch": [["{good}", "--ctx", "no"], ["--translate", "frobnicate -x"]],
    "scan": [["--fail-on", "no", "{good}"]],
}
CASES = [(name, label, args) for name in COMMANDS for label, args in FAILURES.items()]
CASES += [(name, " ".join(args), args) for name, rows in MORE.items() for args in rows]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("failures")
    (root / "folder").mkdir()
    (root / "page.gguf").write_bytes(b"<html>not found</html>")
    good = llama().write(root / "good.gguf")
    (root / "cut.gguf").write_bytes(good.read_bytes()[:700])
    return {
        "missing": str(root / "missing.gguf"),
        "folder": str(root / "folder"),
        "page": str(root / "page.gguf"),
        "cut": str(root / "cut.gguf"),
        "good": str(good),
    }


@pytest.mark.parametrize(("name", "label", "args"), CASES, ids=[f"{n}-{label}" for n, label, _ in CASES])
def test_a_failure_is_an_object_of_its_schema(
    name: str, label: str, args: list[str], places: dict[str, str], cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for form in _formats(name):
        done = cli(name, *(arg.format(**places) for arg in args), "--format", form)
        if label == "an option nobody knows":
            assert done.code == 2
        lines = [done.out] if form == "json" else done.out.splitlines()
        if not lines:
            assert (name, form, done.code) == ("scan", "jsonl", 0)
        objects = [json.loads(line) for line in lines]
        for found in objects:
            if found["format"] == "gguftool.scan-row/1":
                validator("scan-row").validate(found)
            else:
                check_schema(found)
        if not objects or objects[-1]["format"] == "gguftool.scan-row/1":
            continue
        found = objects[-1]
        assert found["format"] == f"gguftool.{name}/1"
        if done.code not in (0, 1):
            assert found["ok"] is False
        if done.code in (2, 4, 5, 6, 7):
            assert found["errors"], done.out


def test_no_command_at_all(cli) -> None:
    for args in (["no-such-command"], ["--no-such-option"]):
        done = cli(*args, "--format", "json")
        assert done.code == 2
        check_schema(json.loads(done.out))


@pytest.mark.parametrize("name", COMMANDS)
def test_an_empty_success_is_not_taken(name: str) -> None:
    """The way out for errors is for errors only."""
    if name in ("diff", "dump"):
        return
    found = {"format": f"gguftool.{name}/1", "tool": {"name": "gguftool", "version": "1"}, "ok": True, "errors": []}
    assert not validator(name).is_valid(found)


def test_the_value_of_one_key_is_an_object_too(places: dict[str, str], cli) -> None:
    done = cli("dump", "--raw", "general.name", places["good"], "--format", "json")
    check_schema(json.loads(done.out))
    assert done.json["metadata"][0]["value"] == "tiny llama"
