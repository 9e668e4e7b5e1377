"""A scan of the whole Hub, on this machine: ``gguftool scan --resume`` against the stand-in of the tests.

``benchmarks/fleet_hub.py [--files 100000] [HEADER …]``. The stand-in (tests/hub/server.py, in a process of its own)
serves an owner's repositories of 20 files each, all with the headers given here in turn (few distinct ones, repeated;
of the data there is only its length), redirects to a storage host as the Hub does, and refuses with 429 and
``RateLimit`` whoever asks for more than ``--quota`` files in a ``--window``. One in ``--stall`` answers of the storage
stands still for a second, one in ten thousand breaks off. The scan is ended by Ctrl-C every ``--leg`` seconds and
taken up again by the file of its rows, until all is done. What is printed: the rate of every leg, requests, bytes,
429s, and whether every file has its row.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.remote import Begun  # noqa: E402
from tests.hub.server import Request, Site, serve  # noqa: E402

OWNER = "everybody"
EACH = 20
"""Files of a repository."""


class Counted(list[Request]):
    """What a server was asked, as a number."""

    def __init__(self) -> None:
        self.n = 0

    def append(self, row: Request) -> None:
        self.n += 1


class Quota:
    """The Hub's way to count: so many files in a window that begins anew every so many seconds."""

    def __init__(self, most: int, window: float) -> None:
        self.most, self.window = most, window
        self.begun, self.used, self.refused = time.monotonic(), 0, 0
        self.lock = threading.Lock()

    def __call__(self, path: str) -> float | tuple[int, dict[str, str]]:
        if "/resolve/" not in path or not self.most:
            return 0.0
        with self.lock:
            now = time.monotonic()
            if now >= self.begun + self.window:
                self.begun, self.used = now, 0
            left = max(1, round(self.begun + self.window - now))
            if self.used < self.most:
                self.used += 1
                return 0.0
            self.refused += 1
        return 429, {"RateLimit": f'"resolvers";r=0;t={left}', "RateLimit-Policy": f'"fixed window";q={self.most}'}


def hub(given: argparse.Namespace, pipe: Connection) -> None:
    """The stand-in; answers with numbers whenever it is asked."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    bodies = [Begun.of(path) for path in given.headers]
    turn = itertools.count()

    def stall(path: str) -> float:
        n = next(turn)
        if given.stall and n % 10_000 == 9_999:
            storage.cut = 1000
        return 1.0 if given.stall and n % given.stall == given.stall - 1 else 0.0

    quota = Quota(given.quota, given.window)
    storage = Site(log=Counted(), meddle=stall, trip=given.trip)
    with serve(storage), serve(Site(log=Counted(), meddle=quota, redirect=storage.url, trip=given.trip)) as site:
        which = itertools.cycle(bodies)
        for at in range(0, given.files, EACH):
            names = range(at, min(at + EACH, given.files))
            files: dict[str, bytes] = {f"model-{no:07}.Q4_K_M.gguf": next(which) for no in names}
            site.repos[f"{OWNER}/repo-{at // EACH:06}"] = files
        storage.files = {f"/blob/{name}": data for repo in site.repos.values() for name, data in repo.items()}
        pipe.send(site.url)
        while pipe.recv():
            numbers = {"hub": site.log.n, "storage": storage.log.n, "bytes": storage.body, "429": quota.refused}
            pipe.send(numbers | {"connections": site.connections + storage.connections})


def leg(url: str, rows: Path, given: argparse.Namespace) -> tuple[bool, float]:
    """One run of the scan; whether it came to its end, and its seconds."""
    command = [sys.executable, "-m", "gguftool", "scan", "--format", "jsonl", "--jobs", str(given.jobs)]
    command += ["--resume", str(rows), *([] if given.lint else ["--no-lint"]), f"hf://{OWNER}"]
    environment = {**os.environ, "HF_ENDPOINT": url, "PYTHONPATH": str(ROOT), "HF_HOME": str(rows.parent / "hf")}
    began = time.monotonic()
    with open(rows.parent / "out.jsonl", "wb") as out:
        scan = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, env=environment)
        try:
            _, said = scan.communicate(timeout=given.leg)
        except subprocess.TimeoutExpired:
            scan.send_signal(signal.SIGINT)
            scan.communicate(timeout=120)
            return False, time.monotonic() - began
    if scan.returncode not in (0, 1):
        sys.exit(f"scan ended with {scan.returncode}: {said.decode()[-2000:]}")
    return True, time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("headers", nargs="+", type=Path)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quota", type=int, default=0, help="files in a window; 0 for as many as there are")
    parser.add_argument("--window", type=float, default=60.0, help="seconds (the Hub's: 300)")
    parser.add_argument("--stall", type=int, default=2000, help="one in so many answers stands still; 0 for none")
    parser.add_argument("--trip", type=float, default=0.0, help="seconds of a round trip")
    parser.add_argument("--leg", type=float, default=300.0, help="seconds until Ctrl-C")
    parser.add_argument("--legs", type=int, default=1000, help="stop after so many")
    parser.add_argument("--folder", type=Path, help="keeps the rows; go on there later")
    parser.add_argument("--no-lint", dest="lint", action="store_false")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        folder.mkdir(exist_ok=True)
        return run(given, folder / "rows.jsonl")


def run(given: argparse.Namespace, rows: Path) -> int:
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=hub, args=(given, there), daemon=True)
    server.start()
    try:
        url = here.recv()
        done, before = count(rows), {}
        print(f"{'seconds':>8} {'rows':>8} {'rows/s':>7} {'hub':>8} {'storage':>8} {'MB':>9} {'429':>6}")
        for _ in range(given.legs):
            ended, seconds = leg(url, rows, given)
            here.send(True)
            now = here.recv()
            new = {key: value - before.get(key, 0) for key, value in now.items()}
            found = count(rows)
            numbers = f"{new['hub']:8,} {new['storage']:8,} {new['bytes'] / 1e6:9,.1f} {new['429']:6,}"
            print(f"{seconds:8.1f} {found:8,} {(found - done) / seconds:7.1f} {numbers}", flush=True)
            done, before = found, now
            if ended:
                return judged(rows, given)
        here.send(False)
    finally:
        server.terminate()
        server.join()
    return 0


def count(rows: Path) -> int:
    return rows.read_bytes().count(b"\n") if rows.exists() else 0


def judged(rows: Path, given: argparse.Namespace) -> int:
    """Whether every file has its row; what the children took, and the size of the rows."""
    seen: dict[str, int] = {}
    failed = 0
    for line in rows.open():
        row = json.loads(line)
        seen[row["path"]] = seen.get(row["path"], 0) + 1
        failed += row["error"] is not None
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    twice = sum(n > 1 for n in seen.values())
    print(f"files with a row: {len(seen):,} of {given.files:,}; twice: {twice}; failed: {failed}")
    print(f"bytes of a row: {rows.stat().st_size / max(1, len(seen)):,.0f}")
    print(f"CPU of the scan: {used.ru_utime + used.ru_stime:,.0f} s; largest process: {used.ru_maxrss >> 10} MiB")
    return 0 if len(seen) == given.files else 1


if __name__ == "__main__":
    sys.exit(main())
