"""``verify``: quick, with hashes, with the data; alone and beside a sound file."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.fuzz import gguf
from tests.fuzz.target import Target, Wrong, cli
from tests.lint import samples

FORMS = [(), ("--format", "json"), ("--data",), ("--data", "--format", "json"), ("--hash",)]


def run(data: bytes, folder: Path, rng: Random) -> None:
    """Beside a sound file, which must be told of."""
    bad, good = folder / "bad.gguf", folder / "good.gguf"
    bad.write_bytes(data)
    good.write_bytes(samples.ready().bytes())
    said = cli("verify", *rng.choice(FORMS), *rng.choice(((bad, good), (good, bad))))
    if "good.gguf" not in said:
        raise Wrong("the sound file is not told of")
    assert bad.read_bytes() == data, "a reading command wrote"


TARGET = Target(gguf.corpus, gguf.mutate, run)
