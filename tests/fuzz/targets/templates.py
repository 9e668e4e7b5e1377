"""Chat templates: lint of them, and what they render to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.chat.test_fuzz import BITS
from tests.fuzz import texts
from tests.fuzz.target import Target, cli
from tests.lint.samples_tokenizer import CHATML, END, bpe


def corpus() -> Sequence[bytes]:
    """Templates."""
    return [CHATML.encode(), END.encode(), b"{{ messages|tojson }}", b"{% macro a(b) %}{{ b }}{% endmacro %}{{ a(1) }}"]


def mutate(rng: Random, given: Sequence[bytes]) -> bytes:
    """Another one, out of pieces of the language or of one that is there."""
    if rng.random() < 0.5:
        bits = rng.choices(BITS, k=rng.randrange(30))
        return " ".join(bits).encode("utf-8", "surrogatepass")
    return texts.mutate(rng, given)


def run(data: bytes, folder: Path, rng: Random) -> None:
    """Judge and render."""
    path = folder / "m.gguf"
    path.write_bytes(bpe(template=data.decode("utf-8", "surrogateescape")).bytes())
    if rng.random() < 0.5:
        cli("lint", "--no-config", "--select", "template,tokenizer", "--format", "json", path)
    else:
        cli("render", path, *rng.choice(((), ("--format", "json"), ("--messages", "hello"))))


TARGET = Target(corpus, mutate, run)
