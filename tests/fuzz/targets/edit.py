"""``fix`` of a file, and ``undo``, after which every byte is as before."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.fuzz import gguf
from tests.fuzz.target import Target, Wrong, cli

FORMS = [
    ("--set", "general.name=another name"),
    ("--set", "general.name=" + "n" * 20_000),
    ("--auto",),
    ("--yes", "--delete", "general.name"),
    ("--context-length", "4096", "--yes"),
    ("--repack",),
    ("--realign", "64"),
    ("--reserve", "64KiB"),
    ("--dedupe", "--yes"),
]


def run(data: bytes, folder: Path, rng: Random) -> None:
    """Edit and take back."""
    path = folder / "m.gguf"
    path.write_bytes(data)
    form = rng.choice(FORMS)
    if rng.random() < 0.3:
        cli("fix", "--dry-run", *form, path, *(("--format", "json") if rng.random() < 0.5 else ()))
        assert path.read_bytes() == data, "a dry run wrote"
    cli("fix", *form, path)
    left = sorted(p.name for p in folder.iterdir())
    if any("-undo-" in name for name in left):
        cli("undo", path, codes=(0,))
    if path.read_bytes() != data:
        raise Wrong(f"fix {form} and undo left another file")
    if "m.gguf-journal" in left:
        raise Wrong("a journal was left")


TARGET = Target(gguf.corpus, gguf.mutate, run)
