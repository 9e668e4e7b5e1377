"""Bytes to a header, strict and as far as it goes, and every value of it."""

from __future__ import annotations

from pathlib import Path
from random import Random

from gguftool.errors import GgufToolError
from gguftool.format.parse import parse
from gguftool.source import Memory
from tests.fuzz import gguf
from tests.fuzz.target import Target, ours


def run(data: bytes, folder: Path, rng: Random) -> None:
    """Parse."""
    for strict in (True, False):
        with ours():
            header = parse(Memory(data, "m.gguf"), strict=strict)
            for field in header.fields[:200]:
                try:
                    _ = field.value
                except GgufToolError:
                    pass


TARGET = Target(gguf.corpus, gguf.mutate, run)
