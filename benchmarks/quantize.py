"""Speed of the built-in quantiser beside the real llama library, on the same file and cores.

``python benchmarks/quantize.py`` makes an F16 model of 543 MB out of gemma-3-270m and quantises it in turns: by the
library alone (in a child process, as little of gguftool as possible), by gguftool driving the library, and by the
built-in engine. Median seconds of whole processes; the files of all three must be the same, byte for byte.
``--check`` makes a missed goal the exit code 1: built-in at most 1.3 times the library, driver at most 5 % and half a
second on top.

Needs npm, for the library.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.building.node_library import fetch
from tests.real_models import GEMMA3, ensure

TYPES = {"Q8_0": 7, "Q4_K_M": 15, "Q6_K": 18, "Q4_0": 2}
CONSTANT = 0.5
"""Seconds that any job may cost on top: start, plan, fsync of the last pages, check."""
WAYS = ("library alone", "gguftool, library", "gguftool, built-in")


def command(way: str, library: Path, source: Path, output: Path, name: str) -> tuple[list[str], bytes]:
    """The process of one way, and what it reads."""
    if way == "library alone":
        job = {"library": str(library), "input": str(source), "output": str(output), "ftype": TYPES[name]}
        job_text = json.dumps({**job, "threads": os.cpu_count()}).encode()
        return [sys.executable, "-m", "gguftool.build.libworker"], job_text
    engine = "builtin" if way.endswith("built-in") else "library"
    argv = [sys.executable, "-m", "gguftool", "-q", "quantize", str(source), str(output), name, "--engine", engine]
    return [*argv, "--llama-cpp", str(library.parent), "--no-provenance", "--overwrite"], b""


def timed(way: str, library: Path, source: Path, output: Path, name: str) -> tuple[float, float]:
    """Seconds of one process from start to end, and processor seconds of it and its children."""
    argv, text = command(way, library, source, output, name)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(argv, input=text, capture_output=True, check=False)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{way}: {done.stderr.decode()[-500:]}")
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def digest(path: Path) -> str:
    """sha256 of a file."""
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def main() -> int:
    """Print the table; 1 when a goal is missed and ``--check`` is set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    from gguftool.build.tools import libllama
    from gguftool.report.text import table

    folder = fetch()
    if isinstance(folder, str):
        raise SystemExit(folder)
    tool = libllama(str(folder))
    if tool is None:
        raise SystemExit(f"{folder}: no library in it")
    library, missed, rows = Path(tool.path), False, []
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary) / "f16.gguf"
        argv = [sys.executable, "-m", "gguftool", "-q", "quantize", str(ensure(GEMMA3)), str(source), "F16"]
        subprocess.run([*argv, "--allow-requantize", "--engine", "builtin"], check=True, capture_output=True)
        for name in TYPES:
            seconds: dict[str, list[float]] = {way: [] for way in WAYS}
            busy: dict[str, list[float]] = {way: [] for way in WAYS}
            hashes = set()
            for _ in range(options.runs):
                for way in WAYS:
                    output = Path(temporary) / "out.gguf"
                    wall, processor = timed(way, library, source, output, name)
                    seconds[way].append(wall)
                    busy[way].append(processor)
                    hashes.add(digest(output))
                    output.unlink()
            alone, driven, own = (median(seconds[way]) for way in WAYS)
            cpu = median(busy[WAYS[2]]) / median(busy[WAYS[0]])
            same = len(hashes) == 1
            missed |= not same or own > 1.3 * alone or driven > 1.05 * alone + CONSTANT
            rows.append(
                [
                    name,
                    f"{alone:.2f}",
                    f"{driven:.2f}",
                    f"{driven / alone:.2f}",
                    f"{own:.2f}",
                    f"{own / alone:.2f}",
                    f"{cpu:.2f}",
                    same,
                ]
            )
    heads = ["type", "library alone s", "driven s", "ratio", "built-in s", "ratio", "processor", "same bytes"]
    print(f"gemma-3-270m F16, {os.cpu_count()} cores, median of {options.runs}")
    print(table(rows, heads, align="lrrrrrrl"))
    return int(missed and options.check)


if __name__ == "__main__":
    sys.exit(main())
