"""`gguftool plan --measure`: the real library, or a program built for the devices, in place of the estimate."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from gguftool.programs import Tool
from tests.memory.giants import whole

MIB = 1 << 20
GIB = 1 << 30


def test_measured(cli, llama: Path):
    pytest.importorskip("xllamacpp")
    j = cli("plan", llama, "--ctx", 8192, "--measure", "--vram", "none", "--ram", "64GiB", "--format", "json").json
    assert j["compute"]["basis"] == "measured"
    # what b11549 reserves for 8192 cells, 512 tokens
    assert j["compute"]["bytes"] == pytest.approx(138_430_496, rel=0.001)


def test_the_line_that_measures_runs_as_it_is_printed(cli, llama: Path):
    pytest.importorskip("xllamacpp")
    asked = ("plan", llama, "--ctx", 8192, "--vram", "none", "--ram", "64GiB")
    line = next(x for x in cli(*asked).out.splitlines() if "--measure" in x)
    words = shlex.split(line.split("allocates nothing: ")[1])
    assert words[:3] == ["gguftool", "plan", "--measure"]
    r = cli(*words[1:])
    assert r.code == 0
    assert "compute is estimated" not in r.out
    assert "--measure" not in r.out


def test_for_a_device_its_own_program_is_offered(cli, llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked = ("plan", llama, "--ctx", 8192, "--vram", "24GiB", "--ram", "64GiB")
    program = tmp_path / "llama-fit-params"
    found: list[Tool] = []
    monkeypatch.setattr("gguftool.programs.everywhere", lambda name: iter([x for x in found if x.name == name]))
    r = cli(*asked)
    assert "compute is estimated" in r.out
    assert "--measure" not in r.out
    found.append(Tool(program.name, str(program), "PATH"))
    line = next(x for x in cli(*asked).out.splitlines() if "--measure" in x)
    assert line.strip().startswith(str(program))


def test_the_program_beside_the_server_that_is_found_counts(monkeypatch: pytest.MonkeyPatch):
    from types import SimpleNamespace

    from gguftool.run import measurer

    def find(name: str, given: str | None = None, *, may_lack: bool = False) -> Tool | None:
        where = {("llama-server", None): "/o/llama-server", ("llama-fit-params", "/o"): "/o/llama-fit-params"}
        path = where.get((name, given))
        return None if path is None else Tool(name, path, "PATH")

    monkeypatch.setattr(measurer, "find", find)
    wishes = SimpleNamespace(server=None)
    planner = SimpleNamespace(machine=SimpleNamespace(devices=("CUDA0",)))
    assert measurer.at_hand(SimpleNamespace(wishes=wishes), planner) == "/o/llama-fit-params"


def test_measuring_from_a_header_alone(cli, tmp_path: Path):
    pytest.importorskip("xllamacpp")
    path = whole("llama-3.1-8b", tmp_path)
    alone = tmp_path / "header.gguf"
    with path.open("rb") as file:
        alone.write_bytes(file.read(17920))
    j = cli("plan", alone, "--measure", "--vram", "none", "--ram", "64GiB", "--format", "json").json
    assert j["compute"]["basis"] == "measured"


def test_measuring_for_a_device_needs_its_program(cli, llama: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gguftool.programs.everywhere", lambda name: iter(()))
    r = cli("plan", llama, "--measure", "--vram", "16GiB", "--ram", "64GiB", "--format", "json")
    assert r.code == 6
    assert "llama-fit-params" in json.loads(r.stdout)["errors"][0]["message"]
