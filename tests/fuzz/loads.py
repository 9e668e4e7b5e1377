"""Files that llama.cpp loads, of every architecture that it knows, with little wrong in them: they get past the first
look, so that what computes with their numbers is reached."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

from tests.build import GGUF
from tests.fuzz import gguf
from tests.lint.samples import all_samples
from tests.predict.mutations import KINDS, model
from tests.predict.recipes import BLOCKS, bases, built

LARGEST = 64 << 20


def corpus() -> Sequence[bytes]:
    """Headers of every architecture, and the file on which each rule fires."""
    fires = [s.fires.header() for s in all_samples() if isinstance(s.fires, GGUF)]
    heads = [header for name, (header, _) in bases().items()]
    return [*heads, *(data for data in fires if len(data) < 60_000), *gguf.corpus()]


@cache
def _names() -> tuple[str, ...]:
    return tuple(bases())


def mutate(rng: Random, given: Sequence[bytes]) -> bytes:
    """Another file: most of them one of the architectures with one or two changes that mean something."""
    how = rng.random()
    if how < 0.3:
        return gguf.mutate(rng, given)
    for _ in range(20):
        base = rng.choice(_names())
        ops = [rng.choice(KINDS)(rng, model(base)) for _ in range(rng.choice((1, 1, 2, 3)))]
        try:
            return built({"base": base, "ops": [op for op in ops if op]}).data
        except Exception:
            continue  # The second operation wants what the first took away
    return gguf.mutate(rng, given)


def place(path: Path, data: bytes, largest: int = LARGEST) -> Path:
    """The file on disk; what its tensors ask for behind its bytes is a hole, when that is not too large."""
    path.write_bytes(data)
    try:
        _, tensors, rest = gguf.take(data)
    except Exception:
        return path
    start = -(-(len(data) - len(rest)) // 32) * 32
    end = 0
    for _, shape, kind, offset in tensors:
        block, size = BLOCKS.get(kind, (1, 4))
        end = max(end, offset + -(-math.prod(shape) // block) * size)
    if len(data) < start + end <= largest:
        with path.open("r+b") as f:
            f.truncate(-(-(start + end) // 32) * 32)
    return path
