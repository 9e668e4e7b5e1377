"""Every command of gguftool as it is run under faults: its folder, its words, and what it leaves."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gguftool.cli.group import TABLE
from tests.build import llama
from tests.cross.test_streams import CALLS
from tests.files.writers import NAMES, writer

READY = "main: server is listening on http://127.0.0.1:8080 - starting the main loop\n"
HERE = {
    "dump": "m.gguf",
    "lint": "m.gguf --no-config --exit-zero",
    "diff": "m.gguf n.gguf",
    "launch": "m.gguf --print --force",
    "check-log": "s.log",
    "scan": "m.gguf n.gguf --jobs 1",
    "kv-test": "--help",
}
"""Where another line than that of the streams' test is wanted: one that works, not its help."""
MORE = {
    "--version": "--version",
    "--help": "--help",
    "translate": "launch --translate llama-server\0-m\0m.gguf",
    "verify --data": "verify --data m.gguf",
    "lint sarif": "lint m.gguf --no-config --exit-zero --format sarif",
    "lint jsonl": "lint m.gguf --no-config --exit-zero --format jsonl",
    "scan jsonl": "scan m.gguf n.gguf --jobs 1 --format jsonl",
    "lint github": "lint m.gguf --no-config --exit-zero --format github",
}
WRITE = {
    "fix": "fix m.gguf --set general.name=there",
    "fix, rewritten": "fix m.gguf --set general.description=" + "x" * 9000,
    "lint --fix": "lint m.gguf --no-config --fix",
    "undo": "undo edited.gguf",
    "scan --resume": "scan m.gguf --jobs 1 --resume rows.jsonl",
}
NO_JSON = ("--version", "--help", "completion", "kv-test", "lint sarif", "lint jsonl", "scan jsonl", "lint github")


@dataclass(frozen=True, slots=True)
class Command:
    """One row of the table."""

    name: str
    words: tuple[str, ...]
    make: Callable[[], None]
    """Fills the current folder."""
    writes: bool = False

    @property
    def json(self) -> Command | None:
        """The same with its report as JSON."""
        if self.name in NO_JSON:
            return None
        words = self.words
        at = words.index("--translate") if "--translate" in words else len(words)
        return Command(f"{self.name}, json", (*words[:at], "--format", "json", *words[at:]), self.make, self.writes)


def _models() -> None:
    llama(layers=2).write(Path("m.gguf"))
    llama(layers=1).write(Path("n.gguf"))
    llama(layers=1).write(Path("edited.gguf"))
    Path("s.log").write_text(READY)
    from gguftool import edit

    with edit("edited.gguf") as e:
        e["general.name"] = "before"


def _interrupted() -> None:
    """An edit that was killed when the file could not be loaded."""
    from tests.faults.harness import STEPS, fault_at, run, struck

    _models()
    fix = Command("fix", _split(WRITE["fix"]), _models, True)
    run(fix, Path(), lambda hit: fault_at((*STEPS, "open"), 8, struck(signal.SIGKILL), hit))


def _split(line: str) -> tuple[str, ...]:
    return tuple(word.replace("\0", " ") for word in line.split(" "))


def _reading() -> list[Command]:
    changing = {name for name, (_, made) in CALLS.items() if made is not None}
    names = [entry.name for entry in TABLE if entry.name not in changing and entry.name not in NAMES]
    lines = {name: f"{name} {HERE.get(name, CALLS[name][0])}".strip() for name in names}
    lines["doctor"] = "doctor --error out\0of\0memory"
    return [Command(name, _split(line), _models) for name, line in {**lines, **MORE}.items()]


def _writing() -> list[Command]:
    made = [Command(name, _split(line), _models, True) for name, line in WRITE.items()]
    made.append(Command("recover", ("recover", "m.gguf"), _interrupted, True))
    for name in NAMES:
        made.append(Command(name, _words_of(name), lambda name=name: _make(name), True))  # type: ignore[misc]
    return made


def _make(name: str) -> None:
    writer(name, Path())


def _words_of(name: str) -> tuple[str, ...]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        before = os.getcwd()
        os.chdir(folder)
        try:
            return tuple(map(str, writer(name, Path()).argv))
        finally:
            os.chdir(before)


def all_commands() -> list[Command]:
    """Those that read, then those that write."""
    sys.stdout.flush()
    return [*_reading(), *_writing()]
