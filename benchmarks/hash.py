"""Speed of hashes and of the data check, beside openssl, sha256sum and gguf-py's hasher, on a real model.

``python benchmarks/hash.py [MODEL] [--check]``: best of several whole processes each, run in turns. Goals: one file
within 1.1 times ``openssl dgst -sha256``, the file and every tensor in one pass within 2 times. ``--check`` makes a
missed goal the exit code 1. ``null`` is the same program doing nothing, so that starting Python can be subtracted.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.real_models import GEMMA3, ensure

ROUNDS = 7
PROGRAM = [sys.executable, "-m", "gguftool"]
INSIDE = """
import sys, time
from gguftool.verify.hashes import ALL, FILE, Want, hash_file
from gguftool.source import LocalFile
want = {"file": FILE, "tensors": Want(tensors=True), "all": ALL}[sys.argv[2]]
hash_file(sys.argv[1], want)
start = time.perf_counter()
hash_file(sys.argv[1], want)
print(time.perf_counter() - start)
"""


def whole(command: list[str]) -> float:
    """Seconds of a whole process."""
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def inside(path: str, what: str) -> float:
    """Seconds of the second call in a process: what the library takes once it is loaded."""
    done = subprocess.run([sys.executable, "-c", INSIDE, path, what], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="gemma-3-270m out of the cache when left out")
    parser.add_argument("--check", action="store_true", help="exit code 1 when a goal is missed")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    args = parser.parse_args()
    path = args.model or str(ensure(GEMMA3))
    size = Path(path).stat().st_size
    cases = {
        "openssl dgst -sha256": lambda: whole(["openssl", "dgst", "-sha256", path]),
        "sha256sum": lambda: whole(["sha256sum", path]),
        "gguftool (starts, does nothing)": lambda: whole([*PROGRAM, "hash", "--help"]),
        "gguftool hash": lambda: whole([*PROGRAM, "hash", path]),
        "gguftool hash --tensors": lambda: whole([*PROGRAM, "hash", "--tensors", path]),
        "gguftool hash --tensors --algorithm xxh64": lambda: whole(
            [*PROGRAM, "hash", "--tensors", "--algorithm", "xxh64", path]
        ),
        "gguftool verify": lambda: whole([*PROGRAM, "verify", path]),
        "gguftool verify --data": lambda: whole([*PROGRAM, "verify", "--data", path]),
        "library: file": lambda: inside(path, "file"),
        "library: file and tensors": lambda: inside(path, "tensors"),
        "library: file, header, data, tensors": lambda: inside(path, "all"),
    }
    if shutil.which("openssl") is None:
        del cases["openssl dgst -sha256"]
    best: dict[str, float] = {}
    for _ in range(args.rounds):
        for name, measure in cases.items():
            best[name] = min(best.get(name, 1e9), measure())
    best["gguf-py gguf_hash"] = whole([sys.executable, "-m", "gguf.scripts.gguf_hash", path])
    print(f"{path}: {size:,} bytes; best of {args.rounds}")
    base = best.get("openssl dgst -sha256", best["library: file"])
    for name, seconds in best.items():
        print(f"{name:44} {seconds:8.3f} s  {size / seconds / 1e6:9,.0f} MB/s  {seconds / base:6.2f} x openssl")
    goals = [("library: file", 1.1), ("library: file and tensors", 2.0)]
    missed = [f"{name}: {best[name] / base:.2f} > {limit}" for name, limit in goals if best[name] / base > limit]
    print("goals: " + ("; ".join(missed) if missed else "met"))
    return 1 if args.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
