"""``lint`` with the load prediction, of the newest build and of others, in every format and with its fixes shown."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.fuzz import gguf
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
    path = folder / "m.gguf"
    path.write_bytes(data)
    cli("lint", "--no-config", *rng.choice(FORMS), path)
    assert path.read_bytes() == data, "a reading command wrote"


TARGET = Target(gguf.corpus, gguf.mutate, run)
