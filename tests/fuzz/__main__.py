"""``./dev fuzz [MINUTES] [TARGET …]``: see `tests.fuzz`."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.fuzz import quick
from tests.fuzz.target import HERE, made, names, target

FOUND = HERE.parents[1] / ".fuzz"
MEMORY = 3 << 30
TURN = 5.0
"""Seconds that a target has before the next one has its turn; one whose executions take long has up to three times."""


def run(name: str, number: int, folder: Path) -> str:
    """One execution; what is wrong, "" for nothing."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    data, rng = made(name, number)
    try:
        target(name).run(data, folder, rng)
    except (Exception, RecursionError, MemoryError):
        return traceback.format_exc()
    return ""


def _short(said: str) -> str:
    """What tells one finding from another: where it was raised, and as what."""
    lines = [line.strip() for line in said.strip().splitlines()]
    where = [line for line in lines if line.startswith("File ") and "gguftool/" in line]
    place = where[-1].split("gguftool/")[-1] if where else ""
    kinds = [line for line in lines if line.split(":")[0].endswith(("Error", "Wrong", "Exception", "error"))]
    inner = next((line for line in kinds if not line.startswith("tests.fuzz")), kinds[0] if kinds else lines[-1])
    return f"{place} {inner[:110]}"


def _keep(name: str, number: int, said: str, data: bytes) -> Path:
    place = FOUND / name
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{number}.bin").write_bytes(data)
    (place / f"{number}.txt").write_text(f"./dev fuzz --once {name} {number}\n\n{said}", errors="backslashreplace")
    return place / f"{number}.bin"


def main() -> int:
    """Take the targets in turn until the time is over; exit code 1 with a finding."""
    parser = argparse.ArgumentParser(prog="./dev fuzz", description=__doc__)
    parser.add_argument("minutes", nargs="?", type=float, default=10.0)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(names()))
    parser.add_argument("--once", nargs=2, metavar=("TARGET", "NUMBER"), help="one execution again")
    parser.add_argument("--from", dest="first", type=int, help="begin with this number, not behind the last run")
    args = parser.parse_args()
    os.environ.update(COLUMNS="100", GGUFTOOL_DEBUG="1", HF_HUB_OFFLINE="1")
    soft = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, soft))
    quick.begin()
    with tempfile.TemporaryDirectory(prefix="gguftool-fuzz-") as scratch:
        os.environ["HOME"] = os.environ["XDG_CACHE_HOME"] = scratch
        folder = Path(scratch) / "x"
        with contextlib.chdir(scratch):
            if args.once:
                said = run(args.once[0], int(args.once[1]), folder)
                sys.stdout.write(said or "nothing wrong\n")
                return 1 if said else 0
            return _turns(args.targets or names(), args.minutes * 60, args.first, folder)


def _turns(chosen: list[str], seconds: float, first: int | None, folder: Path) -> int:
    state = FOUND / "next.json"
    FOUND.mkdir(exist_ok=True)
    upcoming = dict.fromkeys(chosen, first) if first is not None else _read(state)
    done, found = dict.fromkeys(chosen, 0), {name: {} for name in chosen}
    spent = dict.fromkeys(chosen, 0.0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name in chosen:
            begun = time.monotonic()
            slow = spent[name] / done[name] if done[name] else 0.0
            turn = min(end, begun + TURN * min(3.0, 1.0 + 50 * slow))
            while time.monotonic() < turn:
                number = upcoming.get(name) or 0
                upcoming[name] = number + 1
                said = run(name, number, folder)
                done[name] += 1
                if said:
                    short = _short(said)
                    if short not in found[name]:
                        kept = _keep(name, number, said, made(name, number)[0])
                        sys.stdout.write(f"{name} {number}: {short}\n  {kept}\n")
                        sys.stdout.flush()
                    found[name][short] = found[name].get(short, 0) + 1
            spent[name] += time.monotonic() - begun
            # Others may run beside this one, with other targets.
            state.write_text(json.dumps(_read(state) | {n: upcoming[n] for n in chosen if n in upcoming}))
    for name in chosen:
        hits = sum(found[name].values())
        sys.stdout.write(f"{name:<12} {done[name]:>9,} executions, {hits} findings of {len(found[name])} kinds\n")
    sys.stdout.write(f"{'in all':<12} {sum(done.values()):>9,} executions\n")
    return 1 if any(found.values()) else 0


def _read(state: Path) -> dict[str, int]:
    try:
        found = json.loads(state.read_text())
    except (OSError, ValueError):
        return {}
    return {str(k): int(v) for k, v in found.items()}


if __name__ == "__main__":
    sys.exit(main())
