"""One command under one fault, in a child of its own that is forked when all is imported: a cell takes milliseconds."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gguftool.files.leftovers import MARK
from tests.faults.commands import Command

STEPS = ("pwrite", "fsync", "link", "rename", "replace", "unlink", "ftruncate", "fchmod", "mkdir", "copy_file_range")
"""Calls of the system that change a disk; and `open` where it makes a file."""
READS = ("pread", "preadv")
SECONDS = 60


@dataclass(frozen=True, slots=True)
class Ended:
    """How the child ended: exit code (negative: the signal), what it said, and whether the fault came."""

    code: int
    out: str
    err: str
    came: bool


def fault_at(names: tuple[str, ...], at: int, act: Callable[[], None], hit: Callable[[], None]) -> None:
    """In the child: before the call number ``at`` of these, ``act`` is called, which raises or sends a signal."""
    count = 0

    def wrap(name: str) -> None:
        real = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            flags = args[1] if name == "open" and len(args) > 1 else 0
            if name != "open" or flags & (os.O_CREAT | (os.O_TMPFILE & ~os.O_DIRECTORY)):
                count += 1
                if count == at:
                    hit()
                    act()
            return real(*args, **kwargs)

        setattr(os, name, call)

    for name in names:
        wrap(name)


def failing(number: int) -> Callable[[], None]:
    """The call fails with this error."""

    def act() -> None:
        raise OSError(number, os.strerror(number))

    return act


def struck(number: int) -> Callable[[], None]:
    """A signal comes before the call."""
    return lambda: os.kill(os.getpid(), number)


def run(command: Command, folder: Path, fault: Callable[[Callable[[], None]], None]) -> Ended:
    """Run a command in a folder.

    Args:
        command: what is run.
        folder: where; it holds what the command reads.
        fault: called in the child before anything else; it gets the function that says the fault came.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as told:
        pid = os.fork()
        if not pid:
            _child(command, folder, fault, (out.fileno(), err.fileno(), told.fileno()))
        status = _wait(pid)
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        texts = []
        for file in (out, err, told):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    return Ended(code, texts[0], texts[1], bool(texts[2]))


def _wait(pid: int) -> int:
    import time

    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return signal.SIGKILL


def _child(command: Command, folder: Path, fault: Callable[[Callable[[], None]], None], fds: tuple[int, ...]) -> None:
    code = 99
    try:
        os.chdir(folder)
        null = os.open(os.devnull, os.O_RDONLY)
        for fd, onto in ((null, 0), (fds[0], 1), (fds[1], 2)):
            os.dup2(fd, onto)
        # Those of a fresh process, not a test runner's.
        sys.stdin, sys.stdout, sys.stderr = (open(fd, "rw"[fd > 0], closefd=False) for fd in (0, 1, 2))  # noqa: SIM115
        # A process started from a background shell ignores Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for name in ("SIGTERM", "SIGHUP"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.environ.update(COLUMNS="100", GGUFTOOL_DEBUG="1")
        sys.argv = ["gguftool", *command.words]
        from gguftool.cli.main import main

        fault(lambda: _tell(fds[2]))
        code = main()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except BaseException:
        import traceback

        with contextlib.suppress(OSError):
            os.write(fds[1], b"ESCAPED " + traceback.format_exc().encode())
        code = 98
    finally:
        os._exit(code)


def _tell(fd: int) -> None:
    os.write(fd, b"x")


@contextlib.contextmanager
def _inside(folder: Path) -> Any:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


class Bench:
    """Folders for the runs of one command: each run gets a fresh copy."""

    def __init__(self, command: Command, under: Path) -> None:
        self.command = command
        self.template = under / "template"
        self.template.mkdir(parents=True)
        self.under, self.n = under, 0
        with _inside(self.template):
            command.make()
        self.before = contents(self.template)
        self._warm()
        self.wanted, self.clean = self._clean()

    def _warm(self) -> None:
        """Once in this process, so that its children find all modules loaded."""
        from gguftool.cli.main import main

        folder = self.fresh()
        null = io.StringIO()
        with _inside(folder), contextlib.redirect_stdout(null), contextlib.redirect_stderr(null):
            main(self.command.words)
        shutil.rmtree(folder)

    def _clean(self) -> tuple[dict[str, bytes], Ended]:
        folder = self.fresh()
        ended = run(self.command, folder, lambda hit: None)
        found = contents(folder)
        shutil.rmtree(folder)
        return found, ended

    def fresh(self) -> Path:
        """A copy of what the command starts from."""
        self.n += 1
        folder = self.under / str(self.n)
        shutil.copytree(self.template, folder, copy_function=shutil.copy2)
        return folder


def contents(folder: Path) -> dict[str, bytes]:
    """The models of a folder by name, and what stands beside them."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def models(found: dict[str, bytes]) -> dict[str, bytes]:
    """Only what must be whole under its name."""
    hidden = ("prepare/", MARK)
    named = {n: d for n, d in found.items() if n.endswith((".gguf", ".jsonl"))}
    return {n: d for n, d in named.items() if not any(part in n for part in hidden)}


def left(folder: Path) -> list[str]:
    """Drafts that lie there."""
    return [str(p) for p in folder.rglob(f"*{MARK}*")]
