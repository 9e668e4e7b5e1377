"""``lint`` with the load prediction, of the newest build and of others, in every format and with its fixes shown."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.fuzz import loads
from tests.fuzz.target import Target, cli

FORMS = [
    ("--format", "json"),
    ("--format", "jsonl"),
    ("--format", "sarif"),
    ("--format", "github"),
    ("-v",),
    ("--dry-run", "--fix-unsafe"),
    ("--data", "--format", "json"),
    ("--ctx", "32768", "--cache-type", "q8_0"),
    ("--build", "b8179"),
    ("--build", "b4000", "--format", "json"),
    ("--build", "b10000"),
]


def run(data: bytes, folder: Path, rng: Random) -> None:
    """One of them."""
    form = rng.choice(FORMS)
    path = loads.place(folder / "m.gguf", data, (1 << 20) if "--data" in form else (1 << 40))
    was = path.stat()
    cli("lint", "--no-config", *form, path)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (was.st_size, was.st_mtime_ns), "a reading command wrote"


TARGET = Target(loads.corpus, loads.mutate, run)
