"""What `gguftool scan` has in its memory at most, as it comes by more and more files.

Usage: ``python benchmarks/scan_memory.py [--files N] [--formats WORD,WORD] [--real FILE ...] [--scan OPTION ...]``
(5,000 files, all formats). The files are small models with different names, their data holes; with ``--real`` they are
the headers of those files, which have vocabularies as people use them, in turn. One process looks at them
(``--jobs 1``); formats that stream are asked for their memory at every mark on the way, the others at the end.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

FORMATS = "jsonl", "text", "markdown", "json", "html", "cyclonedx", "spdx"
STREAMS = ("jsonl", "text", "markdown")
MARKS = 20, 200, 1000, 2000, 5000, 10_000, 20_000


def tiny(folder: Path, n: int) -> None:
    """Small models that differ in their names, a thousand in a folder."""
    from tests.build import llama

    g = llama().kv("general.basename", "model 00000")
    whole = g.bytes()
    head = g.header()
    for i in range(n):
        place = folder / f"{i // 1000:03}"
        place.mkdir(exist_ok=True)
        with open(place / f"model-{i:05}.gguf", "wb") as f:
            f.write(head.replace(b"model 00000", b"model %05d" % i))
            f.truncate(len(whole))


def real(folder: Path, n: int, files: list[str]) -> None:
    """Headers of models in turn, their data holes."""
    from benchmarks.scan import header

    heads = [header(file) for file in files]
    for i in range(n):
        head, size = heads[i % len(heads)]
        with open(folder / f"model-{i:05}.gguf", "wb") as f:
            f.write(head)
            f.truncate(size)


def peak(pid: int) -> int:
    """MiB that a process had at most."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) >> 10
    return 0


def measure(folder: Path, form: str, n: int, options: list[str]) -> dict[int, int]:
    """MiB by the number of files that were done."""
    words = [sys.executable, "-m", "gguftool", "scan", "--jobs", "1", "--format", form, *options, str(folder)]
    if form in ("cyclonedx", "spdx"):
        words.append("--no-hash")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, bufsize=1 << 16)
    if process.stdout is None:
        raise OSError("no stream")
    out: dict[int, int] = {}
    rows = last = 0
    watch = threading.Event()

    def look() -> None:
        nonlocal last
        while not watch.wait(0.02):
            try:
                last = max(last, peak(process.pid))
            except OSError:
                return

    thread = threading.Thread(target=look)
    thread.start()
    for line in process.stdout:
        rows += b"model-" in line
        if form in STREAMS and rows in MARKS and rows not in out:
            out[rows] = max(last, peak(process.pid))
    process.wait()
    watch.set()
    thread.join()
    return out | {n: last}


def main() -> int:
    """Print a table: a format a row, a number of files a column."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--files", type=int, default=5000)
    words.add_argument("--formats", default=",".join(FORMATS))
    words.add_argument("--real", nargs="*", default=[])
    words.add_argument("--scan", nargs="*", default=[], help="further options of scan, as --scan=--no-lint")
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        models = Path(folder) / "models"
        models.mkdir()
        if given.real:
            real(models, given.files, given.real)
        else:
            tiny(models, given.files)
        marks = [n for n in MARKS if n < given.files] + [given.files]
        print("| format |", *(f"{n:,} |" for n in marks))
        print("|---|" + "---|" * len(marks), flush=True)
        for form in given.formats.split(","):
            found = measure(models, form, given.files, given.scan)
            print(f"| {form} |", *(f"{found[n]} MiB |" if n in found else "|" for n in marks), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
