"""Importance matrices, as GGUF and in the old form, and the files beside a model."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from random import Random

from gguftool.build.imatrix import read
from tests.build import GGUF
from tests.fuzz import gguf
from tests.fuzz.target import Target, cli, ours


def corpus() -> Sequence[bytes]:
    """One of each form."""
    new = GGUF("").kv("general.type", "imatrix").kv("imatrix.datasets", ["a.txt"]).kv("imatrix.chunk_count", 2)
    new = new.kv("imatrix.chunk_size", 512)
    for name in ("blk.0.attn_q.weight", "blk.0.ffn_up.weight"):
        new = new.tensor(f"{name}.in_sum2", (64,), "f32").tensor(f"{name}.counts", (1,), "f32")
    old = struct.pack("<i", 2)
    for name in (b"blk.0.attn_q.weight", b"blk.0.ffn_up.weight"):
        old += struct.pack("<i", len(name)) + name + struct.pack("<ii", 2, 64) + struct.pack("<64f", *[1.0] * 64)
    return [new.bytes(), old + struct.pack("<ii", 2, 5) + b"a.txt"]


def mutate(rng: Random, given: Sequence[bytes]) -> bytes:
    """Another one."""
    data = rng.choice(given)
    if data[:4] == b"GGUF":
        return gguf.mutate(rng, [data])
    return gguf.anywhere(rng, data)


def run(data: bytes, folder: Path, rng: Random) -> None:
    """By the reader, by lint, shown, checked against itself, and merged."""
    path = folder / rng.choice(("imatrix.gguf", "imatrix.dat"))
    path.write_bytes(data)
    with ours():
        read(str(path))
    form = ("--format", "json") if rng.random() < 0.5 else ()
    cli("imatrix", "--show", path, *form, *((path,) if rng.random() < 0.2 else ()))
    if rng.random() < 0.3:
        cli("imatrix", "--merge", path, "-o", folder / rng.choice(("out.gguf", "out.dat")), "--overwrite", *form)
    cli("lint", "--no-config", path, *(("--format", "json") if rng.random() < 0.5 else ()))


TARGET = Target(corpus, mutate, run)
