"""Two models a and b, cut alike, which is what two fine-tunes or two quantisations in one folder are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import GGUF
from tests.verify.sets import pieces, typed, write


def model(letter: str) -> GGUF:
    """Six layers; every tensor's data and one key say whose it is."""
    g = typed("f16", file_type=1)
    g.kv("general.description", f"model {letter}")
    for t in g._tensors:
        rows = 1
        for n in t["shape"][1:]:
            rows *= n
        size = t["shape"][0] * rows * (4 if t["type"] == "f32" else 2)
        t["data"] = (letter.encode() * size)[:size]
    return g


@pytest.fixture
def a(tmp_path: Path) -> list[Path]:
    return write(pieces(model("a"), [20]), tmp_path, "a")


@pytest.fixture
def b(tmp_path: Path) -> list[Path]:
    return write(pieces(model("b"), [20]), tmp_path, "b")
