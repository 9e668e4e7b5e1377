"""``plan`` and ``launch --print``: memory of whatever a header says."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.fuzz import gguf
from tests.fuzz.target import Target, cli

FORMS = [
    ("plan", "--vram", "8GiB"),
    ("plan", "--vram", "none", "--format", "json"),
    ("plan", "--vram", "8GiB,24GiB", "--ctx", "131072", "--format", "json"),
    ("plan", "--vram", "1TiB", "--cache-type", "q8_0", "--parallel", "4"),
    ("split", "--max-size", "4K", "--dry-run"),
    ("split", "--max-size", "4K", "--dry-run", "--format", "json"),
    ("quantize", "--dry-run", "Q4_K_M"),
    ("quantize", "--dry-run", "Q8_0", "--format", "json"),
]


def run(data: bytes, folder: Path, rng: Random) -> None:
    """One of them."""
    path = folder / "m.gguf"
    path.write_bytes(data)
    command, *rest = rng.choice(FORMS)
    if command == "quantize":
        kind = next(w for w in rest if w.startswith("Q"))
        cli(command, path, kind, *(w for w in rest if w != kind))
    else:
        cli(command, *rest, path)
    assert path.read_bytes() == data, "a planning command wrote"


TARGET = Target(gguf.corpus, gguf.mutate, run)
