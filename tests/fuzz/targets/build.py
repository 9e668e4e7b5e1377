"""Files that are made of others: quantised, split, prepared; of a sound file with odd data, and of odd files."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

from tests.fuzz import gguf
from tests.fuzz.target import Target, cli

FORMS = [
    ("quantize", "--engine", "builtin", "M", "O", "Q8_0"),
    ("quantize", "--engine", "builtin", "--format", "json", "M", "O", "Q4_K_M"),
    ("quantize", "--engine", "builtin", "--allow-requantize", "M", "O", "F16"),
    ("split", "--max-tensors", "3", "-o", "O", "M"),
    ("split", "--max-size", "64K", "--format", "json", "-o", "O", "M"),
    ("prepare", "--yes", "--fail-on", "never", "-o", "O", "M"),
    ("prepare", "--yes", "--fail-on", "never", "--engine", "builtin", "--quantize", "Q8_0", "--format", "json", "-o",
     "O", "M"),
    ("push-check", "--write", "--repo", "a/b", "M"),
    ("verify", "--write-manifest", "O", "M"),
]  # fmt: skip


def mutate(rng: Random, given: list[bytes]) -> bytes:
    """Another file; in one of three only the data is odd."""
    if rng.random() < 0.67:
        return gguf.mutate(rng, given)
    fields, tensors, data = gguf.take(rng.choice([d for d in given if d[:4] == b"GGUF"][:7]))
    out = bytearray(data)
    for _ in range(rng.choice((1, 10, 500))):
        if len(out) > 4:
            at = rng.randrange(len(out) - 4) // 4 * 4
            out[at : at + 4] = rng.choice(
                (b"\0\0\xc0\x7f", b"\0\0\x80\x7f", b"\1\0\0\0", b"\xff\xff\x7f\x7f", b"\1\0\xa0\xff")
            )
    return gguf.put(fields, tensors, bytes(out))


def run(data: bytes, folder: Path, rng: Random) -> None:
    """One of them; the file itself stays as it was."""
    path = folder / "m.gguf"
    path.write_bytes(data)
    places = {"M": path, "O": folder / "o.gguf"}
    cli(*(places.get(w, w) for w in rng.choice(FORMS)))
    assert path.read_bytes() == data, "the source was written"
    left = [name for name in os.listdir(folder) if name.endswith(".tmp") or ".draft" in name]
    assert not left, f"left behind: {left}"


TARGET = Target(gguf.corpus, mutate, run)
