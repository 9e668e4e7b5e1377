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
    ("--auto", "--format", "json"),
    ("--set", "general.tags:[str]=a,b", "--set", "x.y:f32=1e30"),
    ("--set", "tokenizer.ggml.tokens[0]=x"),
    ("--yes", "--special", "eos=1"),
    ("--yes", "--rope-scaling", "yarn", "--rope-scale-factor", "4"),
    ("--yes", "--cache-type", "q8_0", "--rope-freq-base", "1e6"),
    ("--rename", "general.name=general.other"),
    ("--yes", "--rename", "llama.*=qwen2.*"),
    ("--strip-padding",),
    ("--output", "O", "--set", "general.name=x"),
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
    form = tuple(str(folder / "o.gguf") if w == "O" else w for w in rng.choice(FORMS))
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
