"""What the commands take of the processor and the memory, over files that are small on the disk and state much."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.build import llama
from tests.fuzz.costly import chance, every
from tests.fuzz.sparse import ON_DISK, packed, unpacked, write
from tests.fuzz.target import Target, Wrong
from tests.fuzz.worst import COMMANDS, MIB, SECONDS, asked, words

PROMISED = (("dump", "FILE"), ("lint", "FILE"), ("verify", "FILE"), ("plan", "FILE"))
NAMES = tuple(every())


def corpus() -> Sequence[bytes]:
    """The names of the files that have one: what they state is made when it is wanted."""
    return [name.encode() for name in NAMES]


def mutate(rng: Random, given: Sequence[bytes]) -> bytes:
    """A file of chance, or one that has a name."""
    made = chance(rng) if rng.random() < 0.7 else every()[rng.choice(NAMES)]()
    return packed(made)


def run(data: bytes, folder: Path, rng: Random) -> None:
    """One of the commands that a limit is promised for, and one of all."""
    name, pieces = unpacked(packed(every()[data.decode()]()) if data in corpus() else data)
    path, other = folder / (name or "m.gguf"), folder / "other.gguf"
    write(path, pieces)
    llama().write(other)
    if os.stat(path).st_blocks * 512 > ON_DISK + 4096:
        return
    for command in (rng.choice(PROMISED), rng.choice(COMMANDS)):
        cost = asked("worst", words(command, path, other), folder)
        if cost.over:
            raise Wrong(f"more than {SECONDS:g} s or {MIB} MiB: {cost}")


TARGET = Target(corpus, mutate, run)
