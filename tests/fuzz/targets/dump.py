"""``dump`` in every form, ``hash``, ``diff``, ``compat`` and ``explain`` of a file."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.fuzz import gguf
from tests.fuzz.target import Target, cli
from tests.lint import samples

FORMS = [
    ("dump",),
    ("dump", "--format", "json", "--full"),
    ("dump", "--format", "markdown"),
    ("dump", "--byte-map"),
    ("dump", "--tokens", "0:50"),
    ("dump", "--export", "-"),
    ("hash", "--tensors", "--data-section"),
    ("hash", "--format", "json", "--tensors"),
    ("compat",),
    ("compat", "--format", "json", "--build", "b8179"),
    ("diff", "n.gguf"),
    ("diff", "--format", "json", "n.gguf"),
    ("diff", "--data", "n.gguf"),
    ("diff", "--data", "--format", "json", "n.gguf"),
    ("push-check", "--no-hash"),
    ("push-check", "--format", "json"),
    ("scan",),
    ("scan", "--format", "json"),
    ("scan", "--format", "markdown"),
]


def run(data: bytes, folder: Path, rng: Random) -> None:
    """Two of them."""
    path = folder / "m.gguf"
    path.write_bytes(data)
    for form in rng.sample(FORMS, 2):
        words = [str(folder / w) if w == "n.gguf" else w for w in form]
        (folder / "n.gguf").write_bytes(samples.ready().bytes())
        cli(*words, path)
    assert path.read_bytes() == data, "a reading command wrote"


TARGET = Target(gguf.corpus, gguf.mutate, run)
