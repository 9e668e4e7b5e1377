"""Every command of gguftool as it is run under faults: its folder, its words, and what it leaves."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gguftool.cli.group import TABLE
from tests.build import llama
from tests.cross.test_streams import CALLS, matrix
from tests.files.writers import NAMES, writer
from tests.real_models import SMOLLM2, cache_dir, ensure

READY = "main: server is listening on http://127.0.0.1:8080 - starting the main loop\n"
REPOSITORY = "owner/tiny-GGUF"
HERE = {
    "dump": "m.gguf",
    "lint": "m.gguf --no-config --exit-zero",
    "diff": "m.gguf n.gguf",
    "launch": "m.gguf --print --force",
    "check-log": "s.log",
    "scan": "m.gguf n.gguf --jobs 1",
    # Without a terminal it says so; on one tests/screen drives it.
    "edit": "m.gguf",
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
    "scan --emit": "scan --emit preset m.gguf n.gguf --ctx 64 --ram 8GiB",
    "scan --stores": "scan --stores",
    "scan html": "scan m.gguf n.gguf --jobs 1 --format html",
    "lint github": "lint m.gguf --no-config --exit-zero --format github",
    "lint junit": "lint m.gguf --no-config --exit-zero --format junit",
    "mix": "mix m.gguf --target 9bpw --sensitivity usual",
}
WRITE = {
    "fix": "fix m.gguf --set general.name=there",
    "fix, rewritten": "fix m.gguf --set general.description=" + "x" * 9000,
    "lint --fix": "lint m.gguf --no-config --fix",
    "undo": "undo edited.gguf",
    "scan --resume": "scan m.gguf --jobs 1 --resume rows.jsonl",
    "lint --output-file": "lint m.gguf --no-config --exit-zero --output-file report",
    "scan --output-file": "scan m.gguf --jobs 1 --output-file report",
    "scan --metrics": "scan m.gguf --jobs 1 --metrics m.prom",
    "scan --watch": "scan --watch --for 0 --jobs 1 --metrics m.prom --resume rows.jsonl .",
    "report": "report m.gguf --output r.html --ram 8GiB",
    "mix --save": "mix m.gguf --target 9bpw --sensitivity usual --save types.txt",
    "imatrix --merge": "imatrix --merge i.gguf -o merged.gguf",
    "push-check --write": "push-check m.gguf --write --exit-zero",
}
TRY = "--check-only --ctx 512 --parallel 1 --threads 1 --port 0 --force --engine library"
MODEL = cache_dir() / SMOLLM2.filename
LONG = {
    "launch, running": f"launch m.gguf {TRY} --log log",
    "kv-test": f"kv-test {MODEL} --types q8_0 --tokens 64 --chunk 64 --engine library",
    "quant-test": f"quant-test {MODEL} {MODEL} --tokens 64 --chunk 64 --engine library",
}
"""A server or the library runs: some seconds a run."""
NO_JSON = (
    *("--version", "--help", "completion", "lint sarif", "lint jsonl", "scan jsonl", "lint github", "scan html"),
    *("lint junit", "scan --emit", "convert", "launch, running", "kv-test", "quant-test"),
)


@dataclass(frozen=True, slots=True)
class Command:
    """One row of the table."""

    name: str
    words: tuple[str, ...]
    make: Callable[[], None]
    """Fills the current folder."""
    writes: bool = False
    long: bool = False
    """Each run takes seconds: a few of the steps are enough."""

    @property
    def json(self) -> Command | None:
        """The same with its report as JSON."""
        if self.name in NO_JSON:
            return None
        words = self.words
        at = words.index("--translate") if "--translate" in words else len(words)
        return Command(
            f"{self.name}, json", (*words[:at], "--format", "json", *words[at:]), self.make, self.writes, self.long
        )


def _models() -> None:
    llama(layers=2).write(Path("m.gguf"))
    llama(layers=1).write(Path("n.gguf"))
    llama(layers=1).write(Path("edited.gguf"))
    Path("s.log").write_text(READY)
    matrix().write(Path("i.gguf"))
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
    elsewhere = {*changing, *NAMES, *(c.words[0] for c in _long() if c.name == c.words[0])}
    names = [entry.name for entry in TABLE if entry.name not in elsewhere]
    lines = {name: f"{name} {HERE.get(name, CALLS[name][0])}".strip() for name in names}
    lines["convert --check"] = lines.pop("convert", "convert --check .")
    lines["doctor"] = "doctor --error out\0of\0memory"
    return [Command(name, _split(line), _models) for name, line in {**lines, **MORE}.items()]


def _long() -> list[Command]:
    made = [Command(name, _split(line), _real, "--log" in line, True) for name, line in LONG.items()]
    made.append(
        Command(
            "convert", _split("convert hf -o out.gguf --outtype f16 --converter-arg=--no-lazy"), _folder, True, True
        )
    )
    line = f"pull hf://{REPOSITORY}:Q4_0 --local-dir got --no-mmproj --ctx 4096 --vram 2GiB --ram 8GiB"
    return [*made, Command("pull", _split(line), _hub, True, True)]


def _real() -> None:
    ensure(SMOLLM2)
    _models()


def _folder() -> None:
    """What a converter reads; the real one, which numpy in torch's place is enough for."""
    from tests.building import hf
    from tests.building.conftest import without_torch

    os.environ["XDG_CACHE_HOME"] = str(without_torch().parents[1])
    hf.folder(Path("hf"), "llama")


def _hub() -> None:
    """A hub on this machine, for as long as this process lives."""
    from tests.hub.quantised import files
    from tests.hub.server import Site, serve

    site = Site(repos={REPOSITORY: {name: data for name, data in files().items() if "Q4_0" in name}})
    running = serve(site)
    os.environ.update(HF_ENDPOINT=running.__enter__().url, HF_HUB_DISABLE_PROGRESS_BARS="1")
    atexit.register(running.__exit__, None, None, None)


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
    """Those that read, those that write, those that take long."""
    sys.stdout.flush()
    return [*_reading(), *_writing(), *_long()]
