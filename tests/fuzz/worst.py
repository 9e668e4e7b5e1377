"""What each command takes of the processor and the memory for files of at most 64 KB on the disk.

    python -m tests.fuzz.worst [--only PATTERN] [--commands WORD,WORD] [--chance N] [--folder FOLDER]

The files are those of `tests.fuzz.costly`. Each command runs in a child of its own; the processor time and the largest
memory that the kernel counted for it are held against the limits. ``--chance``: so many files made of chance, too.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random

from tests.build import llama
from tests.fuzz.costly import chance, every
from tests.fuzz.sparse import ON_DISK, File

SECONDS = 5.0
"""Of the processor, a command."""
MIB = 300
STOP = 20
"""Seconds of the processor after which a command is ended."""

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("dump", "FILE"),
    ("dump", "--full", "FILE"),
    ("dump", "--format", "json", "FILE"),
    ("dump", "--format", "json", "--full", "FILE"),
    ("dump", "--format", "markdown", "FILE"),
    ("dump", "--overview", "FILE"),
    ("dump", "--layout", "FILE"),
    ("dump", "--tokens", "0:", "FILE"),
    ("dump", "--raw", "general.description", "FILE"),
    ("dump", "--raw", "tokenizer.ggml.tokens", "FILE"),
    ("dump", "--export", "-", "FILE"),
    ("lint", "FILE"),
    ("lint", "--format", "json", "FILE"),
    ("lint", "--format", "sarif", "FILE"),
    ("lint", "--data", "FILE"),
    ("verify", "FILE"),
    ("verify", "--data", "FILE"),
    ("plan", "FILE"),
    ("compat", "FILE"),
    ("report", "-o", "-", "FILE"),
    ("hash", "--data-section", "FILE"),
    ("diff", "FILE", "OTHER"),
    ("scan", "FILE"),
    ("fix", "--dry-run", "--set", "general.name=x", "FILE"),
)


@dataclass(frozen=True)
class Cost:
    """What one command took.

    Attributes:
        name: of the file.
        command: its words, without the file.
        code: its exit code; less than 0 for the number of a signal.
        seconds: of the processor.
        mib: the largest memory.
    """

    name: str
    command: str
    code: int
    seconds: float
    mib: int

    @property
    def over(self) -> bool:
        """More than is allowed, or ended by something else than the program."""
        if self.command.startswith("hash"):
            return self.mib > MIB  # every byte counts, also one that was never written: its time goes with the length
        return self.seconds > SECONDS or self.mib > MIB or not 0 <= self.code < 8

    def __str__(self) -> str:
        return f"{self.name:32} {self.command:52.52} {self.code:3} {self.seconds:6.1f} s {self.mib:5} MiB"


def run(name: str, args: list[str]) -> Cost:
    """One command in a child; its last word is a file, or follows from one."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            import resource

            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, 1)
            os.dup2(sink, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (STOP, STOP))
            from gguftool.cli.main import main

            sys.argv[1:] = args
            code = main()
            sys.stdout.flush()
        finally:
            os._exit(code)
    _, status, used = os.wait4(child, 0)
    seconds = used.ru_utime + used.ru_stime
    return Cost(name, " ".join(args[:-1]), os.waitstatus_to_exitcode(status), seconds, used.ru_maxrss >> 10)


def serve() -> None:
    """Run what the other side asks for, a command a line: a small process to fork from, however large that one is."""
    import_module("gguftool.cli.boundary")
    for line in sys.stdin:
        asked = json.loads(line)
        os.chdir(asked["folder"])
        cost = run(asked["name"], asked["args"])
        sys.stdout.write(json.dumps([cost.code, cost.seconds, cost.mib]) + "\n")
        sys.stdout.flush()


@cache
def _server() -> subprocess.Popen[str]:
    here = Path(__file__).parents[2]
    code = "from tests.fuzz.worst import serve; serve()"
    return subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=here
    )


def asked(name: str, args: list[str], folder: Path) -> Cost:
    """As `run`, in a process that is small whatever this one has in its memory; it ends with this one."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps({"name": name, "args": args, "folder": str(folder)}) + "\n")
    server.stdin.flush()
    return Cost(name, " ".join(args[:-1]), *json.loads(server.stdout.readline()))


def words(command: tuple[str, ...], path: Path, other: Path) -> list[str]:
    """A command for one file."""
    return [{"FILE": str(path), "OTHER": str(other)}.get(word, word) for word in command]


def files(only: str = "*", more: int = 0, seed: int = 0) -> Iterator[tuple[str, File]]:
    """The files by their names; those with a name, and ``more`` of chance."""
    for name, make in every().items():
        if fnmatch.fnmatch(name, only):
            yield name, make()
    for number in range(seed, seed + more):
        yield f"chance-{number}", chance(Random(f"worst {number}"))


def measure(folder: Path, made: Iterator[tuple[str, File]], commands: tuple[tuple[str, ...], ...]) -> Iterator[Cost]:
    """Every command on every file, which are written one after the other and removed behind."""
    other = folder / "other.gguf"
    llama().write(other)
    for name, file in made:
        path = folder / (file.name or f"{name}.gguf")
        file.write(path)
        taken = path.stat().st_blocks * 512
        if taken <= ON_DISK + 4096:
            for command in commands:
                yield asked(name, words(command, path, other), folder)
        elif not name.startswith("chance"):
            raise SystemExit(f"{name} takes {taken:,} bytes on the disk")
        path.unlink()


def main() -> int:
    """Print the table; 1 when something costs more than it may."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="*", help="files whose name matches")
    options.add_argument("--commands", default="", help="commands that begin with one of these words")
    options.add_argument("--chance", type=int, default=0, help="files of chance")
    options.add_argument("--from", dest="first", type=int, default=0, help="number of the first of them")
    options.add_argument("--folder", default=None, help="where the files are made (it must know holes)")
    given = options.parse_args()
    wanted = tuple(filter(None, given.commands.split(",")))
    commands = tuple(c for c in COMMANDS if not wanted or " ".join(c).startswith(wanted))
    over, count = 0, 0
    slow: dict[str, Cost] = {}
    large: dict[str, Cost] = {}
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        os.environ["HOME"] = os.environ["XDG_CACHE_HOME"] = folder
        os.chdir(folder)
        for cost in measure(Path(folder), files(given.only, given.chance, given.first), commands):
            count += 1
            over += cost.over
            key = cost.command
            slow[key] = max(slow.get(key, cost), cost, key=lambda c: c.seconds)
            large[key] = max(large.get(key, cost), cost, key=lambda c: c.mib)
            if cost.over:
                print("OVER ", cost, flush=True)
    print("| command | CPU | slowest file | memory | largest file |\n|---|---|---|---|---|")
    for key, cost in slow.items():
        most = large[key]
        print(f"| `{key}` | {cost.seconds:.1f} s | {cost.name} | {most.mib} MiB | {most.name} |")
    print(f"{count:,} runs, {over:,} over {SECONDS:g} s or {MIB} MiB")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
