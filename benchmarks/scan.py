"""Throughput and memory of ``gguftool scan``: models a second of CPU, with lint and without, by one process and by two.

``python benchmarks/scan.py`` makes 2,000 and 20,000 small models and 200 with real vocabularies (headers only, the data
is a hole), scans each and prints a table. CPU is user and system time of the whole tree of processes; memory is the
largest sum of what belongs to its processes (PSS), sampled. ``--check`` makes a missed goal the exit code 1.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from gguftool.format.parse import parse
from gguftool.source import LocalFile
from tests.build import llama
from tests.real_models import GEMMA3, SMOLLM2, ensure

GOALS = {("small", True): 200, ("small", False): 800, ("big", True): 15}
"""Models per second of CPU, on two cores."""
FLAT = 1.25
"""Times the memory of 2,000 models that 20,000 may take."""


@dataclass(frozen=True, slots=True)
class Run:
    kind: str
    models: int
    lint: bool
    jobs: int
    cpu: float
    wall: float
    peak_mib: float

    @property
    def rate(self) -> float:
        return self.models / self.cpu


def headers(kind: str) -> list[tuple[bytes, int]]:
    """Headers to copy, each with the size of its whole file."""
    if kind == "small":
        made = [llama(layers=1 + i % 12).bytes() for i in range(12)]
        return [(data[: _end(data)], len(data)) for data in made]
    return [header(path) for path in (ensure(GEMMA3), ensure(SMOLLM2))]


def header(path: str | Path) -> tuple[bytes, int]:
    """The header of a file, and the size of all of it."""
    with closing(LocalFile(path)) as source:
        return source.read_at(0, parse(source).data_offset), source.size


def _end(data: bytes) -> int:
    from gguftool.source import Memory

    return parse(Memory(data)).data_offset


def make(folder: Path, kind: str, models: int) -> None:
    """Models in folders of a hundred."""
    kinds = headers(kind)
    for i in range(models):
        place = folder / f"{i // 100:04d}"
        place.mkdir(exist_ok=True, parents=True)
        head, size = kinds[i % len(kinds)]
        with open(place / f"m{i:05d}.gguf", "wb") as f:
            f.write(head)
            f.truncate(size)
            os.utime(f.fileno(), ns=(i, i))


def tree(pid: int) -> list[int]:
    out = [pid]
    for one in out:
        try:
            for task in os.listdir(f"/proc/{one}/task"):
                out += map(int, Path(f"/proc/{one}/task/{task}/children").read_text().split())
        except OSError:
            continue
    return out


def pss(pid: int) -> int:
    total = 0
    for one in tree(pid):
        try:
            text = Path(f"/proc/{one}/smaps_rollup").read_text()
        except OSError:
            continue
        total += next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)
    return total


def measure(folder: Path, kind: str, models: int, lint: bool, jobs: int, more: list[str]) -> Run:
    command = [sys.executable, "-m", "gguftool", "scan", "--no-config", "--fail-on", "never", "--format", "jsonl"]
    command += ["--jobs", str(jobs), *([] if lint else ["--no-lint"]), *more, str(folder)]
    begun = time.monotonic()
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command, stdout=out)
        peak = [0]

        def watch() -> None:
            while child.returncode is None:
                peak[0] = max(peak[0], pss(child.pid))
                time.sleep(0.1)

        thread = threading.Thread(target=watch)
        thread.start()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        thread.join()
        rows = out.seek(0) or sum(1 for _ in out)
    if child.returncode or rows != models:
        raise SystemExit(f"exit {child.returncode}, {rows} rows of {models}")
    return Run(kind, models, lint, jobs, usage.ru_utime + usage.ru_stime, time.monotonic() - begun, peak[0] / 1024)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="2,000 small and 40 big ones only")
    options.add_argument("--check", action="store_true", help="a missed goal is exit code 1")
    options.add_argument("--folder", type=Path, help="where to make the models; kept, and used again")
    given = options.parse_args()
    sizes = [("small", 2000), *([] if given.quick else [("small", 20000)]), ("big", 40 if given.quick else 200)]
    top = given.folder or Path(tempfile.mkdtemp(prefix="gguftool-scan-"))
    runs: list[Run] = []
    missed: list[str] = []
    print(f"{'models':>6}  {'kind':<5}  {'lint':<4}  jobs  {'CPU s':>7}  {'wall s':>7}  {'models/CPU s':>12}  peak MiB")
    try:
        for kind, models in sizes:
            folder = top / f"{kind}{models}"
            if not folder.exists():
                make(folder, kind, models)
            for lint in (False, True):
                for jobs in (1, 2):
                    run = measure(folder, kind, models, lint, jobs, [])
                    runs.append(run)
                    line = f"{models:>6}  {kind:<5}  {'yes' if lint else 'no':<4}  {jobs:>4}  {run.cpu:>7.1f}"
                    print(f"{line}  {run.wall:>7.1f}  {run.rate:>12,.0f}  {run.peak_mib:>8,.0f}", flush=True)
                    goal = GOALS.get((kind, lint), 0)
                    if run.rate < goal:
                        missed.append(f"{kind}, lint {lint}, jobs {jobs}: {run.rate:.0f} of {goal} models/s of CPU")
    finally:
        if given.folder is None:
            shutil.rmtree(top)
    for run in runs:
        more = [r for r in runs if (r.kind, r.lint, r.jobs) == (run.kind, run.lint, run.jobs) and r.models > run.models]
        missed += [f"memory grows: {r.peak_mib:.0f} MiB after {run.peak_mib:.0f}" for r in more
                   if r.peak_mib > FLAT * run.peak_mib]  # fmt: skip
    for text in missed:
        print("missed:", text)
    return 1 if missed and given.check else 0


if __name__ == "__main__":
    sys.exit(main())
