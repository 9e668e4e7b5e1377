"""Speed and memory of gguftool beside other tools, on a real model with a 262,144-token vocabulary.

``./dev bench`` prints medians of whole processes, run in turns so that a busy moment hits all of them, and the
ratios that count: a ratio within one run means something on another machine, a millisecond does not. gguf-py's
programs take ten seconds and more, so they run once. ``--check`` makes a missed goal the exit code 1.

gguf-inspect gets an environment of its own beside the model cache.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.real_models import GEMMA3, cache_dir, ensure

INSPECT = "gguf-inspect==0.1.0"
KEY, VALUE = "gemma3.context_length", "16384"


# Linux counts the memory of the process that starts a program as that program's, so a bare Python does the starting:
# nothing that is measured here is smaller.
LAUNCHER = """
import os, sys, time
null = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
start = time.perf_counter()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=null)
_, status, usage = os.wait4(pid, 0)
print(time.perf_counter() - start, usage.ru_maxrss, os.waitstatus_to_exitcode(status))
"""


@dataclass(slots=True)
class Case:
    """A command line to measure; ``%`` in it stands for the model, or a fresh copy of it when it edits."""

    name: str
    command: list[str]
    runs: int
    edits: bool = False
    seconds: list[float] = field(default_factory=list)
    peak_mib: float = 0.0
    failed: str = ""

    @property
    def time(self) -> float | None:
        """Median in seconds; None when it did not run."""
        return median(self.seconds) if self.seconds else None


@dataclass(frozen=True, slots=True)
class Goal:
    """``case`` takes at most ``most`` times as long as ``base``."""

    case: str
    base: str
    most: float | None = None


GOALS = (
    Goal("gguftool --version", "import click", 1.5),
    Goal("gguftool --help", "import click", 2.0),
    Goal("gguftool dump", "import click", 3.0),
    Goal("gguftool lint", "import click", 6.0),
    Goal("gguftool dump", "gguf-inspect", 1.0),
    Goal("gguftool dump", "gguf-dump"),
    Goal("gguftool lint", "gguf-dump"),
    Goal("gguftool fix --set", "gguf-set-metadata"),
)


def program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def inspect_program() -> str | None:
    """gguf-inspect from its own environment, made at the first call; None when it cannot be had."""
    folder = cache_dir().parent / "bench-venv"
    found = folder / "bin" / "gguf-inspect"
    if not found.exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True)
            pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", INSPECT]
            subprocess.run(pip, check=True, capture_output=True, timeout=300)
        except (subprocess.SubprocessError, OSError):
            return None
    return str(found)


def cases(runs: int, slow: bool) -> list[Case]:
    ours = program("gguftool")
    found = [
        Case("python -c pass", [sys.executable, "-c", "pass"], runs),
        Case("import click", [sys.executable, "-c", "import click"], runs),
        Case("gguftool --version", [ours, "--version"], runs),
        Case("gguftool --help", [ours, "--help"], runs),
        Case("gguftool dump", [ours, "dump", "%"], runs),
        Case("gguftool lint", [ours, "lint", "--exit-zero", "%"], runs),
        Case("gguftool fix --set", [ours, "fix", "--set", f"{KEY}={VALUE}", "--yes", "%"], runs, edits=True),
    ]
    if inspect := inspect_program():
        found.append(Case("gguf-inspect", [inspect, "%"], runs))
    if slow:
        found.append(Case("gguf-dump", [program("gguf-dump"), "%"], 1))
        setter = [program("gguf-set-metadata"), "--force", "%", KEY, VALUE]
        found.append(Case("gguf-set-metadata", setter, 1, edits=True))
    return found


def measure(case: Case, model: Path, folder: Path) -> None:
    target = model
    if case.edits:
        target = folder / model.name
        shutil.copyfile(model, target)
        # Write the copy out now, or the edit's own sync would pay for it.
        with open(target, "rb") as handle:
            os.fsync(handle.fileno())
    command = [str(target) if part == "%" else part for part in case.command]
    with tempfile.TemporaryFile() as errors:
        launch = [sys.executable, "-I", "-S", "-c", LAUNCHER, *command]
        done = subprocess.run(launch, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, check=True)
        seconds, peak, code = done.stdout.split()
        if int(code):
            errors.seek(0)
            last = errors.read().decode(errors="replace").strip().splitlines() or [""]
            case.failed = f"exit {int(code)}: {last[0]}"
            return
    case.seconds.append(float(seconds))
    # Bytes on macOS, KiB elsewhere.
    case.peak_mib = max(case.peak_mib, int(peak) / (1 << (20 if sys.platform == "darwin" else 10)))


def measure_all(found: list[Case], model: Path, progress: Callable[[str], object]) -> None:
    with tempfile.TemporaryDirectory(dir=cache_dir(), prefix=".bench-") as folder:
        for turn in range(max(case.runs for case in found)):
            for case in found:
                if turn < case.runs and not case.failed:
                    progress(f"{turn + 1}: {case.name}")
                    measure(case, model, Path(folder))


def show(found: list[Case]) -> bool:
    """Print both tables; False when a goal was missed or could not be measured."""
    print(f"{'':22}{'median':>10}{'peak memory':>14}{'runs':>6}")
    for case in found:
        if case.failed:
            print(f"{case.name:22}  {case.failed}")
        elif case.time is not None:
            print(f"{case.name:22}{case.time * 1000:>7.0f} ms{case.peak_mib:>10.0f} MiB{len(case.seconds):>6}")
    print()
    times = {case.name: case.time for case in found}
    good = True
    for goal in GOALS:
        ours, base = times.get(goal.case), times.get(goal.base)
        aim = "" if goal.most is None else f"goal at most {goal.most:g}"
        line = f"{goal.case:20} / {goal.base:20}"
        if ours is None or base is None:
            good = good and goal.most is None
            print(f"{line} {'not measured':>12}   {aim}")
            continue
        ratio = ours / base
        shown = f"{ratio:.2f}" if ratio >= 0.1 else f"1/{1 / ratio:.0f}"
        verdict = "" if goal.most is None else "  ok" if ratio <= goal.most else "  MISSED"
        good = good and "MISSED" not in verdict
        print(f"{line} {shown:>12}   {aim}{verdict}".rstrip())
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description="Speed and memory of gguftool beside other tools.")
    parser.add_argument("--runs", type=int, default=5, help="runs of each program (default 5)")
    parser.add_argument("--fast", action="store_true", help="leave out gguf-py's programs, which take 10 s and more")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a goal is missed")
    args = parser.parse_args()
    model = ensure(GEMMA3)
    print(f"{model.name}, {model.stat().st_size / 2**20:.0f} MiB, 262,144 tokens; Python {sys.version.split()[0]}\n")
    found = cases(args.runs, not args.fast)
    # Read once, so that all find the file in memory.
    with open(model, "rb") as handle:
        while handle.read(1 << 20):
            pass
    measure_all(found, model, lambda text: print(f"\r{text:40}", end="", file=sys.stderr, flush=True))
    print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
    good = show(found)
    return 0 if good or not args.check else 1


if __name__ == "__main__":
    sys.exit(main())
