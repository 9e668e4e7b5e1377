"""Sets of shards of which one is odd: judged, joined, split anew, named anew."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

from tests.build import llama
from tests.fuzz import gguf
from tests.fuzz.target import Target, Wrong, cli
from tests.verify.sets import pieces

NAMES = [f"m-{i}-of-00003.gguf" for i in ("00001", "00002", "00003")]
FORMS = [
    ("verify",),
    ("verify", "--format", "json"),
    ("verify", "--data"),
    ("verify", "--repair-names", "--yes"),
    ("verify", "--write-manifest", "out.sums", "--format", "json"),
    ("lint", "--no-config", "--format", "json"),
    ("scan", "--jobs", "1"),
    ("scan", "--jobs", "1", "--format", "json", "--build", "b8179"),
    ("hash", "--tensors", "--format", "json"),
    ("dump", "--byte-map"),
    ("plan", "--vram", "none", "--ram", "8GiB"),
    ("merge", "--dry-run", "-o", "out.gguf"),
    ("merge", "-o", "out.gguf"),
    ("merge", "--allow-foreign", "-o", "out.gguf"),
    ("fix", "--set", "general.name=x"),
    ("fix", "--auto"),
]


@cache
def _sound() -> tuple[bytes, ...]:
    return tuple(shard.bytes() for shard in pieces(llama(layers=2), [5, 12]))


def corpus() -> Sequence[bytes]:
    """Number of the odd one, and its bytes; 3: another model of the same name."""
    other = pieces(llama(layers=1), [5])
    return [bytes([i]) + data for i, data in enumerate(_sound())] + [b"\1" + other[0].bytes(), b"\2" + other[1].bytes()]


def mutate(rng: Random, given: Sequence[bytes]) -> bytes:
    """Another odd one."""
    one = rng.choice(given)
    return one[:1] + gguf.mutate(rng, [one[1:]])


def run(data: bytes, folder: Path, rng: Random) -> None:
    """The set, named by its first file, by the odd one or by its folder."""
    odd = data[0] % 3 if data else 0
    paths = [folder / name for name in NAMES]
    for i, path in enumerate(paths):
        path.write_bytes(data[1:] if i == odd else _sound()[i])
    if rng.random() < 0.1:
        paths[(odd + 1) % 3].unlink()
    form = rng.choice(FORMS)
    named = rng.choice((folder, paths[odd])) if form[0] != "merge" else rng.choice(paths)
    cli(*(folder / w if w.startswith("out.") else w for w in form), named)
    if form[0] in ("verify", "lint", "scan") and len(form) < 3 and paths[odd].read_bytes() != data[1:]:
        raise Wrong("a reading command wrote")
    made = folder / "out.gguf"
    if made.exists():
        cli("split", "--max-tensors", "4", "-o", folder / "again", made)
        cli("verify", made, codes=(0, 1))


TARGET = Target(corpus, mutate, run)
