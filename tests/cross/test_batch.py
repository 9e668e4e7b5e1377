"""One file never hides the others: commands for many models report what one causes, go on, and end with 70."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click
import pytest

from gguftool.cli import scan_rows
from gguftool.cli.group import TABLE, gguftool
from gguftool.cli.values import ModelType
from gguftool.fleet import want
from gguftool.fleet.row import Row
from gguftool.fleet.scan import scan
from gguftool.lint import run
from gguftool.report.scan import FORMATS, format_named
from gguftool.report.scan.shown import Shown
from gguftool.source import LocalFile
from tests.build import llama
from tests.json_schemas import check_schema

BUG = 70
BAD = ("bad.gguf", "worse-bad.gguf")
ALWAYS = {"lint": ("--no-config",), "fix": ("--set", "general.name=x"), "scan": ("--jobs", "1")}
"""What a command must be told beside the models."""
ONE = {
    "merge": "the shards of one model",
    "imatrix": "one is measured, or they are added up",
    "quant-test": "they are held against one another",
}
"""Commands whose several arguments are one thing."""
MORE = [
    ("lint", "--no-config", "--exit-zero"),
    ("lint", "--no-config", "--fix"),
    ("lint", "--no-config", "--fix", "--dry-run", "--format", "json"),
    ("verify", "--hash"),
    ("verify", "--data", "--format", "json"),
    ("hash", "--tensors"),
    ("hash", "--tensors", "--format", "json"),
    ("scan", "--jobs", "2", "--format", "jsonl"),
    ("scan", "--jobs", "1", "--build", "b8179"),
    ("fix", "--dry-run", "--set", "general.name=x", "--format", "json"),
    ("fix", "--auto"),
]


def _several() -> list[tuple[str, ...]]:
    """Every command that takes several models, in each of its formats."""
    found: list[tuple[str, ...]] = []
    with gguftool.make_context("gguftool", ["--version"], resilient_parsing=True) as ctx:
        for entry in TABLE:
            command = gguftool.get_command(ctx, entry.name)
            params = command.params if command is not None else []
            if entry.name in ONE or not any(
                isinstance(p, click.Argument) and p.nargs == -1 and isinstance(p.type, ModelType) for p in params
            ):
                continue
            formats = next((p.type.choices for p in params if p.name == "format"), ("text",))
            found += [(entry.name, *ALWAYS.get(entry.name, ()), "--format", form) for form in formats]
    return found


LISTS = [*_several(), *MORE]


def test_every_command_for_several_models_is_walked() -> None:
    assert {"lint", "verify", "hash", "fix", "scan"} <= {args[0] for args in LISTS}


@pytest.fixture
def four(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Good models around two whose bytes make any reader fail."""
    monkeypatch.chdir(tmp_path)
    whole = LocalFile.read_at

    def read_at(self: LocalFile, offset: int, n: int) -> bytes:
        if self.name.endswith(BAD):
            raise OverflowError("int too large to convert to float")
        return whole(self, offset, n)

    monkeypatch.setattr(LocalFile, "read_at", read_at)
    names = ["a.gguf", *BAD, "c.gguf", "d.gguf"]
    for name in names:
        llama().write(tmp_path / name)
    return names


@pytest.mark.parametrize("args", LISTS, ids=" ".join)
def test_the_others_are_told_of(args: tuple[str, ...], four: list[str], cli) -> None:
    done = cli(*args, *four)
    assert done.code == (0 if "--exit-zero" in args else BUG), done.err
    said = done.out + done.err
    assert "Traceback" not in said
    for name in ("a.gguf", "c.gguf", "d.gguf"):
        assert name in done.out, done.out
    assert "OverflowError" in said
    if "json" in args:
        assert len([row for row in done.json["errors"] if row["code"] == "internal"]) >= len(BAD)
        assert done.json["ok"] is False
    if args[0] in ("lint", "scan", "verify") or "json" in args:
        assert "OverflowError" in done.out
    if "jsonl" in args:
        for line in done.out.splitlines():
            found = json.loads(line)
            if found["format"] == "gguftool.lint/1":
                check_schema(found)


def test_a_folder_is_like_its_files(four: list[str], cli, tmp_path: Path) -> None:
    for command in ("lint", "verify", "hash", "scan"):
        done = cli(command, str(tmp_path))
        assert (done.code, "d.gguf" in done.out) == (BUG, True), (command, done.out, done.err)


def test_the_models_of_the_caches(four: list[str], cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_CACHE", str(tmp_path))
    done = cli("doctor", "--build", "b8179", "--format", "json")
    assert (done.code, done.json["ok"]) == (BUG, False)
    assert [row["code"] for row in done.json["errors"]] == ["internal"] * 2
    assert "bad.gguf" in done.json["errors"][0]["message"]
    assert cli("doctor", "--build", "b8179").code == BUG


def test_one_file_alone_is_the_same_bug(four: list[str], cli) -> None:
    for command in ("lint", "verify", "hash", "scan", "dump", "plan", "compat"):
        done = cli(command, "bad.gguf")
        assert (done.code, "OverflowError" in done.out + done.err) == (BUG, True), (command, done.err)


def _formats(name: str) -> list[str]:
    return [args[-1] for args in _several() if args[0] == name]


@pytest.mark.parametrize("form", _formats("lint"))
def test_a_rule_that_fails_is_counted(form: str, cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never a mere "not evaluated": the exit code is 70, and every format says which rule."""
    _fail(monkeypatch)
    llama().write(tmp_path / "m.gguf")
    done = cli("lint", "--no-config", str(tmp_path / "m.gguf"), "--format", form)
    assert done.code == BUG
    assert "key-type-wrong" in done.out
    assert "ZeroDivisionError" in done.out
    assert {
        "text": "1 rule failed",
        "json": '"failed_rules": 1',
        "jsonl": '"failed_rules":1',
        "sarif": '"executionSuccessful": false',
        "github": "::error file=",
        "gitlab": '"severity": "blocker"',
        "junit": "<error ",
    }[form] in done.out
    if form == "json":
        assert [row["code"] for row in done.json["errors"]] == ["internal"]


def _fail(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run.selected

    def boom(model: object, context: object) -> None:
        raise ZeroDivisionError("x" * 5000)

    def selected(*args: object) -> tuple[object, ...]:
        return tuple(replace(r, check=boom) if r.id == "key-type-wrong" else r for r in whole(*args))

    monkeypatch.setattr(run, "selected", selected)


@pytest.mark.parametrize("form", _formats("scan"))
def test_a_scan_shows_it_too(form: str, cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fail(monkeypatch)
    llama().write(tmp_path / "m.gguf")
    done = cli("scan", str(tmp_path), "--format", form)
    assert done.code == BUG
    assert ("key-type-wrong" in done.out, "ZeroDivisionError" in done.out) == (True, True), done.out


OTHERS = [
    ("fix", "--auto"),
    ("fix", "--auto", "--dry-run"),
    ("diagnose", "--no-run"),
    ("doctor", "--symptom", "talks nonsense"),
    ("prepare", "--yes", "--restart", "--overwrite", "-o", "out.gguf"),
]


@pytest.mark.parametrize("args", OTHERS, ids=" ".join)
def test_whoever_asks_the_rules_shows_it(
    args: tuple[str, ...], cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And ends with 70; what the rule would have said is not known, so `prepare` goes no further."""
    _fail(monkeypatch)
    monkeypatch.chdir(tmp_path)
    llama().write(tmp_path / "m.gguf")
    done = cli(*args, "m.gguf")
    assert (done.code, "key-type-wrong" in done.out + done.err, "Zero" in done.err) == (BUG, True, True), done.err
    done = cli(*args, "--format", "json", "m.gguf")
    assert (done.code, done.json["ok"], [row["code"] for row in done.json["errors"]]) == (BUG, False, ["internal"])
    check_schema(done.json)
    assert not (tmp_path / "out.gguf").exists()


def test_launch_says_so(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fail(monkeypatch)
    done = cli("launch", "--print", "--vram", "none", "--ram", "64GiB", llama().write(tmp_path / "m.gguf"))
    assert "key-type-wrong: the rule itself failed: ZeroDivisionError" in done.err


@pytest.mark.parametrize("form", FORMATS)
def test_a_row_that_cannot_be_written(form: str, cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a row that says so; the others stand beside it."""
    shape = format_named(form)
    for name in ("a", "bad", "c"):
        llama().write(tmp_path / f"{name}.gguf")

    def row(row: Row, shown: Shown) -> str:
        if row["path"].endswith("bad.gguf") and row["error"] is None:
            raise OverflowError("cannot convert float infinity to integer")
        return shape.row(row, shown)

    monkeypatch.setattr(scan_rows, "format_named", lambda name: replace(shape, row=row))
    done = cli("scan", "--jobs", "1", "--format", form, tmp_path)
    assert done.code == BUG
    assert ("a.gguf" in done.out, "c.gguf" in done.out, "OverflowError" in done.out) == (True, True, True), done.out


def test_a_killed_worker_is_one_row(four: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As by the kernel, when memory ran out: the rest is looked at all the same."""
    import os
    import signal

    whole = want.beginning

    def beginning(path: str) -> object:
        if path.endswith("bad.gguf"):
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(path)

    monkeypatch.setattr(want, "beginning", beginning)
    found = {os.path.basename(row["path"]): row["error"] for row in scan(four, jobs=2, lint=False)}
    assert {name for name, error in found.items() if error} == set(BAD)
    assert found["bad.gguf"]["code"] == "internal"
    assert set(found) == set(four)


def test_killed_workers_of_many_files(four: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many were handed over with the ones that kill, and however many wait behind them."""
    import os
    import signal

    whole, killed = want.beginning, tmp_path / "killed"
    killed.touch()

    def beginning(path: str) -> object:
        if path.endswith(("x07.gguf", "x33.gguf")):
            with open(killed, "a") as f:
                f.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(path)

    monkeypatch.setattr(want, "beginning", beginning)
    model = llama().bytes()
    for i in range(80):
        (tmp_path / f"x{i:02d}.gguf").write_bytes(model)
    found = [
        (os.path.basename(row["path"]), row["error"]) for row in scan(tmp_path, jobs=2, lint=False, include=["x*"])
    ]
    assert sorted(name for name, _ in found) == [f"x{i:02d}.gguf" for i in range(80)]
    assert {name for name, error in found if error} == {"x07.gguf", "x33.gguf"}
    assert killed.stat().st_size <= 6
