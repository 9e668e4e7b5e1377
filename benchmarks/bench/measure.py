"""What a program takes: processor seconds of it and its children, seconds by the clock, peak memory.

Processor time is the measure; on a machine that others use, the clock says nothing. Programs are run in turns, so that
a busy moment hits all of them, and ratios are taken within a turn.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

# Linux counts the memory of the process that starts a program as that program's, so a bare Python does the starting:
# nothing that is measured here is smaller.
LAUNCHER = """
import os, signal, sys, time
def busy():
    try:
        with open("/proc/stat") as stat:
            words = [int(word) for word in stat.readline().split()[1:9]]
    except OSError:
        return 0.0
    return (sum(words) - words[3] - words[4]) / os.sysconf("SC_CLK_TCK")
null = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
before, start = busy(), time.perf_counter()
pid = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ, file_actions=null)
signal.signal(signal.SIGALRM, lambda *_: os.kill(pid, signal.SIGKILL))
signal.alarm(int(sys.argv[1]))
_, status, usage = os.wait4(pid, 0)
seconds = time.perf_counter() - start
cpu = usage.ru_utime + usage.ru_stime
print(cpu, seconds, usage.ru_maxrss, os.waitstatus_to_exitcode(status), max(0.0, busy() - before - cpu))
"""
LONGEST = 600
"""Seconds by the clock after which a program is ended."""
OTHERS = 0.15
"""Of one processor, what others may use while the clock is judged."""
OURS = "{gguftool}"
"""Stands for the program in a command line: the one of this tree, or the one to compare with."""


class Failed(Exception):
    """A program ended with an exit code that its case does not allow."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run.

    Attributes:
        cpu: seconds of processor time, user and system, children included.
        wall: seconds by the clock.
        mebibytes: peak memory.
        others: seconds of processor time that anything else took meanwhile, other machines on this one included.
    """

    cpu: float
    wall: float
    mebibytes: float
    others: float = 0.0


@dataclass(frozen=True, slots=True)
class Case:
    """A command line to measure.

    ``{model}``, ``{copy}`` and whatever else `Bench` names stand for paths in it.

    Attributes:
        name: the row of the table.
        group: the word that chooses it on the command line.
        command: what is run; begins with `OURS` when it is a row of this project.
        beside: the row that another program's is shown below.
        before: commands that are run first, in each turn, and not measured.
        fresh: the case edits, and gets a copy of the model of its own (``{copy}``), written out before.
        exits: exit codes that mean the work was done.
        once: so slow that one turn must do.
        needs: what must be read and computed whoever does it (`floor.Need`); empty when it is another's row.
        stdin: the path of what it reads.
    """

    name: str
    group: str
    command: tuple[str, ...]
    beside: str = ""
    before: tuple[tuple[str, ...], ...] = ()
    fresh: bool = False
    exits: tuple[int, ...] = (0,)
    once: bool = False
    needs: tuple[str, ...] = ()
    stdin: str = ""

    @property
    def ours(self) -> bool:
        return self.command[0] == OURS


@dataclass(slots=True)
class Found:
    """What was measured of a case with one program, by turn; or why it was not."""

    runs: dict[int, Run] = field(default_factory=dict)
    failed: str = ""

    @property
    def cpu(self) -> float | None:
        """Median in seconds; None when it did not run."""
        return median(run.cpu for run in self.runs.values()) if self.runs and not self.failed else None

    @property
    def wall(self) -> float | None:
        """Median in seconds by the clock; None when it did not run."""
        return median(run.wall for run in self.runs.values()) if self.runs and not self.failed else None

    @property
    def mebibytes(self) -> float | None:
        """The highest."""
        return max(run.mebibytes for run in self.runs.values()) if self.runs and not self.failed else None


def run(
    command: Sequence[str], exits: Sequence[int] = (0,), *, stdin: str = "", env: Mapping[str, str] | None = None
) -> Run:
    """One run of a program.

    Raises:
        Failed: it ended with another exit code; the text is its line about the error, or its last.
    """
    launch = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(LONGEST), *command]
    with tempfile.TemporaryFile() as errors, open(stdin or os.devnull, "rb") as given:
        done = subprocess.run(launch, stdin=given, stdout=subprocess.PIPE, stderr=errors, env=env, check=False)
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip().splitlines() or [""]
    if done.returncode:
        raise Failed(said[-1])
    cpu, wall, peak, code, others = done.stdout.split()
    if int(code) not in exits:
        told = next((line for line in said if line.startswith("error")), said[-1])
        raise Failed(f"exit {int(code)}: {told[:120]}")
    # Bytes on macOS, KiB elsewhere.
    return Run(float(cpu), float(wall), int(peak) / (1 << (20 if sys.platform == "darwin" else 10)), float(others))


def copy(source: str | Path, target: str | Path) -> None:
    """A copy, written out: the sync of an edit would pay for it."""
    shutil.copyfile(source, target)
    with open(target, "rb") as handle:
        os.fsync(handle.fileno())


@dataclass(slots=True)
class Bench:
    """Cases, the programs that run ours, and what was found.

    Attributes:
        programs: name of a column and path of a gguftool, that of this tree first.
        paths: what stands for what in command lines.
        folder: where copies and outputs go.
    """

    programs: dict[str, str]
    paths: dict[str, str]
    folder: Path
    found: dict[tuple[str, str], Found] = field(default_factory=dict)

    def of(self, case: str, program: str | None = None) -> Found:
        """What was found of a case; that of another program is the same in all columns."""
        first = next(iter(self.programs))
        return self.found.get((case, program or first)) or self.found.get((case, first)) or Found(failed="left out")

    def measure(self, cases: Sequence[Case], turns: int, progress: Callable[[str], object]) -> None:
        """All cases in turns."""
        for turn in range(turns):
            for case in cases:
                for name, program in self.programs.items():
                    found = self.found.setdefault((case.name, name), Found())
                    if (turn and case.once) or found.failed:
                        continue
                    progress(f"{turn + 1} of {turns}: {case.name}")
                    try:
                        found.runs[turn] = self._once(case, program)
                    except Failed as e:
                        found.failed = str(e)
                    if not case.ours:
                        break

    def _once(self, case: Case, program: str) -> Run:
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="turn-") as name:
            paths = {**self.paths, "gguftool": program, "out": name, "copy": f"{name}/model.gguf"}
            if case.fresh:
                copy(paths["model"], paths["copy"])
            for command in case.before:
                run([part.format_map(paths) for part in command], env=environment(self.folder))
            command = [part.format_map(paths) for part in case.command]
            stdin = case.stdin.format_map(paths)
            return run(command, case.exits, stdin=stdin, env=environment(self.folder))

    def ratio(
        self, case: str, base: str, program: str | None = None, less: tuple[str, str] | None = None, what: str = "cpu"
    ) -> float | None:
        """Median of the ratios within a turn; None when one was not measured.

        Args:
            case: the row.
            base: what it is divided by.
            program: the column; the first when left out.
            less: cases whose time is taken off, that of the case and that of the base: both doing nothing.
            what: ``cpu``, or ``wall`` for the clock.
        """
        parts = [self.of(name, program) for name in (case, base, *(less or ()))]
        if any(part.cpu is None for part in parts):
            return None

        def seconds(part: Found, turn: int) -> float:
            runs = [part.runs[turn]] if turn in part.runs else part.runs.values()
            return median(getattr(run, what) for run in runs)

        ratios = []
        for turn in parts[0].runs:
            a, b, *taken = (seconds(part, turn) for part in parts)
            if taken:
                a, b = a - taken[0], b - taken[1]
            ratios.append(a / b if b > 0 else float("inf"))
        return median(ratios)

    def busy(self, case: str, base: str) -> bool:
        """Whether the machine was not at rest: then the clock says nothing.

        Args:
            case: of any number of threads.
            base: of one thread, which must have had a processor for itself.
        """
        runs = self.of(base).runs.values()
        if not runs or median(run.wall / max(run.cpu, 1e-6) for run in runs) > 1.2:
            return True
        every = [*runs, *self.of(case).runs.values()]
        return median(run.others / max(run.wall, 1e-6) for run in every) > OTHERS


def environment(folder: Path) -> dict[str, str]:
    """What programs are given: no network, nobody's settings, caches of their own.

    Two variables that keep old builds of OpenBLAS from a kernel of their own slow the start of numpy; nothing here
    computes with it.
    """
    env = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "PYTHONPATH")}
    for name in ("CACHE", "CONFIG", "DATA", "STATE"):
        env[f"XDG_{name}_HOME"] = str(folder / "home" / name.lower())
    return {**env, "GGUFTOOL_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "GGML_NO_BACKTRACE": "1", "NO_COLOR": "1"}
