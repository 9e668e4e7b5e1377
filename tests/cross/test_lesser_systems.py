"""Windows and macOS: what reads works without what only Linux has; what writes works, or refuses in one sentence."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import lesser
from tests.build import llama
from tests.files.writers import NAMES, writer

LOG = "main: server is listening on http://127.0.0.1:8080 - starting the main loop\n"


def run(system: str, lines: Sequence[Sequence[object]], cwd: Path) -> list[tuple[int, str, str]]:
    """Exit code, stdout and stderr of each command line on a system."""
    text = "".join(json.dumps([str(word) for word in line]) + "\n" for line in lines)
    argv = [sys.executable, lesser.__file__, system]
    root = str(Path(lesser.__file__).parents[1])
    env = {"PYTHONPATH": root, "PATH": "/usr/bin:/bin", "HOME": str(cwd), "COLUMNS": "100"}
    done = subprocess.run(argv, input=text, capture_output=True, text=True, cwd=cwd, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model, another, a set of shards, a log."""
    llama(layers=2).write(tmp_path / "m.gguf")
    llama(layers=3).write(tmp_path / "n.gguf")
    (tmp_path / "s.log").write_text(LOG)
    return tmp_path


READING = (
    "dump m.gguf",
    "dump m.gguf --format json",
    "dump --overview m.gguf",
    "lint m.gguf",
    "lint m.gguf --format json",
    "lint m.gguf --format sarif",
    "lint .",
    "push-check . --exit-zero",
    "verify m.gguf",
    "verify --data m.gguf --format json",
    "hash m.gguf",
    "hash --tensors m.gguf",
    "plan m.gguf --vram 16GiB --ram 64GiB",
    "plan m.gguf --vram 16GiB --ram 64GiB --format json",
    "diff m.gguf n.gguf",
    "rules",
    "rules --format json",
    "explain general.name",
    "check-log s.log",
    "launch --translate llama-server\\ -m\\ m.gguf\\ -c\\ 4096",
    "compat m.gguf",
    "render m.gguf",
    "report m.gguf -o - --ram 4GiB",
    "diagnose m.gguf --no-run",
    "doctor --error out\\ of\\ memory",
    "fix m.gguf --set general.name=x --dry-run",
    "split m.gguf --max-tensors 4 --dry-run",
    "quantize m.gguf Q8_0 --dry-run",
    "completion bash",
    "scan m.gguf --jobs 1",
    "scan --stores",
    "scan m.gguf --emit preset --ctx 512 --ram 4GiB --vram none --build b11434",
    "--version",
    "--help",
    "dump missing.gguf",
    "dump s.log",
)


MEMORY = "diagnose m.gguf --no-run"
"""Says how much memory there is, which Windows does not tell Python."""


def test_what_reads_says_the_same(folder: Path):
    lines = [shlex.split(line) for line in READING]
    here = run("here", lines, folder)
    for system in ("windows", "macos"):
        for line, was, found in zip(READING, here, run(system, lines, folder), strict=True):
            assert found[0] == was[0] < 5, (system, line, found[2])
            assert found[1] == was[1] or (system == "windows" and line == MEMORY), (system, line)


WRITING = (
    "fix edited.gguf --set general.name=x",
    "undo edited.gguf",
    "lint m.gguf --no-config --fix",
    "plan m.gguf --vram 16GiB --ram 64GiB --plot p.html",
    "scan m.gguf --resume rows.jsonl",
)
SENTENCE = "gguftool does not write files on this system: "


@pytest.fixture
def edited(folder: Path) -> Path:
    """The folder with a model that can be undone."""
    model = llama(layers=1).write(folder / "edited.gguf")
    ((code, _, err),) = run("here", [["fix", model, "--set", "general.name=before"]], folder)
    assert code == 0, err
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*.*")) if p.is_file()}


def writers(folder: Path) -> list[list[object]]:
    lines: list[list[object]] = [list(shlex.split(line)) for line in WRITING]
    for name in NAMES:
        (place := folder / name).mkdir()
        lines.append(list(writer(name, place).argv))
    return lines


def test_windows_refuses_to_write_before_anything_happens(edited: Path):
    lines = writers(edited)
    before = contents(edited)
    for line, (code, _, err) in zip(lines, run("windows", lines, edited), strict=True):
        assert code == 4, (line, err)
        assert len([text for text in err.splitlines() if SENTENCE in text]) == 1, (line, err)
        assert len([text for text in err.splitlines() if text.startswith("hint:")]) == 1, (line, err)
    after = {name: data for name, data in contents(edited).items() if "matplotlib" not in name}
    assert after == before


def test_macos_writes(edited: Path):
    # matplotlib looks for macOS's own libraries.
    lines = [line for line in writers(edited) if "--plot" not in line]
    before = contents(edited)
    for line, (code, _, err) in zip(lines, run("macos", lines, edited), strict=True):
        assert code == 0, (line, err)
    after = contents(edited)
    assert {"rows.jsonl", "merge/out.gguf", "prepare/out.gguf"} <= set(after) - set(before)
    # Edited, and taken back.
    assert after["edited.gguf"] == before["edited.gguf"]
    assert not [name for name in after if "gguftool-part" in name or name.endswith("-journal")]


def test_a_whole_process_on_windows(folder: Path):
    """Real descriptors: a full disk, a reader that went, a missing stream; and a program that is started."""
    begin = f"{sys.executable} {lesser.__file__} windows"
    for line, code in {
        "lint m.gguf --no-config --format json > /dev/full": 5,
        "rules --format json | head -c 10 >/dev/null; exit ${PIPESTATUS[0]}": 141,
        "dump m.gguf >&-": 0,
        "--version": 0,
        "doctor": 0,
    }.items():
        env = {"PYTHONPATH": str(Path(lesser.__file__).parents[1]), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
        done = subprocess.run(["bash", "-c", f"{begin} {line}"], cwd=folder, env=env, capture_output=True, text=True)
        assert done.returncode in (code, 1 if line == "doctor" else code), (line, done.stderr)
        assert "Traceback" not in done.stderr
