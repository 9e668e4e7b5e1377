"""The faults, what each must come to, and the table of command and fault."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.faults.commands import Command
from tests.faults.harness import (
    READS,
    STEPS,
    Bench,
    Ended,
    contents,
    failing,
    fault_at,
    left,
    models,
    run,
    struck,
)

Hit = Callable[[], None]
EDITS = ("fix", "fix, rewritten", "lint --fix", "undo", "recover")
_BAD = re.compile(r"Traceback|Exception ignored|this is a bug|ESCAPED|never retrieved")
ALL_STEPS = (*STEPS, "open")


@dataclass(frozen=True, slots=True)
class Fault:
    """One column: ``do`` is called in the child, with the number of the step for those that come at a step."""

    name: str
    codes: frozenset[int]
    do: Callable[[int, Hit], None]
    steps: bool = False
    writers: bool = False
    json: bool = False


def _descriptor(fd: int, path: str) -> Callable[[int, Hit], None]:
    def do(at: int, hit: Hit) -> None:
        hit()
        os.dup2(os.open(path, os.O_WRONLY), fd)

    return do


def _closed(*fds: int) -> Callable[[int, Hit], None]:
    def do(at: int, hit: Hit) -> None:
        hit()
        for fd in fds:
            os.close(fd)

    return do


def _gone(at: int, hit: Hit) -> None:
    hit()
    reader, end = os.pipe()
    os.close(reader)
    os.dup2(end, 1)


def _home(at: int, hit: Hit) -> None:
    """Folders of the kernel: nobody makes anything there, root neither."""
    hit()
    os.environ.update(HOME="/sys/kernel", XDG_CACHE_HOME="/sys/kernel/cache", XDG_CONFIG_HOME="/sys/kernel/config")


def _step(names: tuple[str, ...], act: Callable[[], None]) -> Callable[[int, Hit], None]:
    return lambda at, hit: fault_at(names, at, act, hit)


def _codes(*codes: int) -> frozenset[int]:
    return frozenset(codes)


_END = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}
SAME = frozenset[int]()
"""As without the fault."""
FAULTS = (
    Fault("stdout full", _codes(5), _descriptor(1, "/dev/full"), json=True),
    Fault("stderr full", SAME, _descriptor(2, "/dev/full")),
    Fault("stdout closed", SAME, _closed(1), json=True),
    Fault("stderr closed", SAME, _closed(2)),
    Fault("all closed", SAME, _closed(0, 1, 2)),
    Fault("reader gone", _codes(141), _gone, json=True),
    Fault("home read-only", SAME, _home),
    Fault("EIO reading", _codes(3, 4), _step(READS, failing(errno.EIO)), steps=True, json=True),
    *(Fault(f"{n} reading", _codes(c), _step(READS, struck(getattr(signal, n))), steps=True) for n, c in _END.items()),
    Fault("ENOSPC", _codes(5), _step(ALL_STEPS, failing(errno.ENOSPC)), steps=True, writers=True, json=True),
    Fault("EIO", _codes(3, 4, 7), _step(ALL_STEPS, failing(errno.EIO)), steps=True, writers=True),
    Fault("EROFS", _codes(4, 7), _step(ALL_STEPS, failing(errno.EROFS)), steps=True, writers=True),
    *(Fault(n, _codes(c), _step(ALL_STEPS, struck(getattr(signal, n))), True, True) for n, c in _END.items()),
    Fault("SIGKILL", _codes(-9), _step(ALL_STEPS, struck(signal.SIGKILL)), steps=True, writers=True),
)


@dataclass(slots=True)
class Cell:
    """What was seen: how often each exit code, and what is wrong."""

    codes: dict[int, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


def cell(bench: Bench, fault: Fault, points: Iterator[int]) -> Cell | None:
    """One command under one fault, at each of the points; None when the fault has no place in it."""
    if fault.writers and not bench.command.writes:
        return None
    found = Cell()
    for at in points if fault.steps else (1,):
        folder = bench.fresh()
        ended = run(bench.command, folder, partial(fault.do, at))
        if not ended.came:
            shutil.rmtree(folder)
            break
        found.codes[ended.code] = found.codes.get(ended.code, 0) + 1
        wrong = [*_said(ended), *_code(bench, fault, ended), *_files(bench, fault, ended, folder)]
        found.wrong += [f"{bench.command.name} | {fault.name} {at}: {what}" for what in wrong]
        shutil.rmtree(folder)
    return found if found.codes else None


def _said(ended: Ended) -> Iterator[str]:
    if ended.code in (70, 98, 99) or _BAD.search(ended.err) or _BAD.search(ended.out):
        yield f"exit {ended.code}: {ended.err[-700:]}"


def _allowed(bench: Bench, fault: Fault) -> set[int]:
    """What this command may end with under this fault."""
    name, allowed = bench.command.name.removesuffix(", json"), set(fault.codes) or {bench.clean.code}
    if bench.command.writes or fault.steps or name == "edit":
        # Done all the same, where the fault came after the work or in what only helps; `edit` wants a terminal first.
        allowed.add(bench.clean.code)
    if name in EDITS and fault.steps:
        # The edit stands half done, its journal beside it: that comes before why.
        allowed.add(7)
    if name.startswith(("scan", "lint", "translate", "pull", "prepare")) and fault.name == "EIO reading":
        # A file that cannot be read is a finding among others.
        allowed.add(1)
    if name == "convert" and fault.name == "home read-only":
        # The converter lies there.
        allowed.add(6)
    if name == "scan --resume":
        # Its report is its work, until the rows are there.
        allowed |= {"stdout full": {5}, "reader gone": {141}}.get(fault.name, set())
    return allowed


def _code(bench: Bench, fault: Fault, ended: Ended) -> Iterator[str]:
    allowed = _allowed(bench, fault)
    if ended.code not in allowed:
        yield f"exit {ended.code}, not {sorted(allowed)}: {ended.err[-300:]}"


def _files(bench: Bench, fault: Fault, ended: Ended, folder: Path) -> Iterator[str]:
    """Nothing half is left; what is left says so, and the same command, or `recover`, works after it."""
    now = contents(folder)
    if not bench.command.writes:
        if now != bench.before:
            yield f"changed files: {sorted(set(now) ^ set(bench.before))}"
        return
    killed = ended.code == -signal.SIGKILL
    journals = [name for name in now if name.endswith("-journal")]
    if set(journals) - set(bench.before) and ended.code != 7 and not killed:
        yield f"exit {ended.code} with a journal left"
    if left(folder) and not killed:
        yield f"drafts left: {left(folder)}"
    for name, data in models(now).items():
        whole = data in (bench.before.get(name), bench.wanted.get(name))
        if not whole and not name.endswith(".jsonl") and (not journals or data[:4] == b"GGUF"):
            yield f"{name} is neither old nor new"
    if ended.code == bench.clean.code and models(now) != models(bench.wanted) and "rows" not in " ".join(now):
        yield "said to be done, and is not"
    yield from _again(bench, journals, folder)


def _again(bench: Bench, journals: list[str], folder: Path) -> Iterator[str]:
    for name in journals:
        path = name.removesuffix("-journal")
        ended = run(Command("recover", ("recover", path), bench.command.make, True), folder, lambda hit: None)
        if ended.code:
            yield f"recover says {ended.code}: {ended.err[-200:]}"
    done = models(contents(folder)) == models(bench.wanted)
    ended = run(bench.command, folder, lambda hit: None)
    if ended.code not in (0, bench.clean.code, *((1, 2, 4) if done else ())):
        yield f"the next run says {ended.code}: {ended.err[-300:]}"
    if left(folder):
        yield f"drafts left after the next run: {left(folder)}"
