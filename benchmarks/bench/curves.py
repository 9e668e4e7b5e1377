"""Nothing is quadratic: the processor time of commands on ever larger made files, and the exponent it grows with.

Files have a vocabulary, tensors, keys or shards as many as the point says and little else; the data is a hole.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench.measure import Failed, environment, run
from tests.build import GGUF, llama

MOST = 1.2
"""Exponent above which a curve counts as steeper than linear; 1 and the noise of short runs."""
SHORT = 0.1
"""What a point must cost above the start, in parts of it, to be part of the fit: less is noise."""


def fit(counts: Sequence[int], seconds: Sequence[float]) -> float | None:
    """Exponent of the growth: a straight line by least squares through the logarithms of the upper half.

    What the cheapest of the small points costs is taken off first, as the start: other programs make a run dearer, none
    makes it cheaper. None when too little is left to tell, that is, when the time does not grow.
    """
    points = sorted(zip(counts, seconds, strict=True))
    if len(points) < 2:
        return None
    half = len(points) // 2
    start = min(s for _, s in points[:half])
    upper = [(math.log(n), math.log(s - start)) for n, s in points[half:] if s - start >= SHORT * start]
    if len(upper) < 2:
        return None
    x, y = (sum(values) / len(upper) for values in zip(*upper, strict=True))
    return sum((a - x) * (b - y) for a, b in upper) / sum((a - x) ** 2 for a, _ in upper)


def tokens(folder: Path, n: int) -> Path:
    """A vocabulary of SentencePiece's kind."""
    return llama(tokens=n).write_sparse(folder / "model.gguf")


def merges(folder: Path, n: int) -> Path:
    """One of the kind of GPT-2, with as many merges as tokens."""
    letters = [chr(0x100 + i) for i in range(256)]
    pairs = [(a, b) for a in letters[: min(256, 1 + n // 256)] for b in letters][:n]
    longer = [(a + b, c) for a, b in pairs[: 1 + n // 256] for c in letters][: max(0, n - len(pairs))]
    pairs += longer
    vocabulary = list(dict.fromkeys(letters + [a + b for a, b in pairs]))
    g = llama().replace("tokenizer.ggml.model", "gpt2").kv("tokenizer.ggml.pre", "gpt-2")
    g.drop("tokenizer.ggml.scores", "tokenizer.ggml.unknown_token_id")
    g.replace("tokenizer.ggml.tokens", vocabulary).kv("tokenizer.ggml.merges", [f"{a} {b}" for a, b in pairs])
    g.replace("tokenizer.ggml.token_type", [1] * len(vocabulary), "[i32]")
    g.retensor("token_embd.weight", shape=(64, len(vocabulary)))
    return g.write_sparse(folder / "model.gguf")


def tensors(folder: Path, n: int) -> Path:
    """Layers as far as llama.cpp counts them, then tensors of other names."""
    layers = min(500, n // 9)
    g = llama(layers=max(1, layers))
    for i in range(n - 9 * layers - 2):
        g.tensor(f"extra.{i}.weight")
    return g.write_sparse(folder / "model.gguf")


def keys(folder: Path, n: int) -> Path:
    """Keys of nobody, numbers and texts in turn."""
    g = llama()
    for i in range(n):
        g.kv(f"made.up.{i}", i if i % 2 else f"text {i}")
    return g.write_sparse(folder / "model.gguf")


def shards(folder: Path, n: int) -> Path:
    """A set: all metadata in the first file, the layers over all of them."""
    whole = llama(layers=max(1, min(500, n)))
    names = [t["name"] for t in whole._tensors]
    for no in range(n):
        mine = set(names[no * len(names) // n : (no + 1) * len(names) // n])
        g = whole.copy() if no == 0 else GGUF("llama")
        g._tensors = [t for t in whole._tensors if t["name"] in mine]
        g.shard(no, n, len(names)).write_sparse(folder / f"model-{no + 1:05}-of-{n:05}.gguf")
    return folder / f"model-00001-of-{n:05}.gguf"


# The data is a hole, which an edit refuses for a download that was not finished.
DRY = ("fix", "--force", "--dry-run", "--set", "general.name=other", "{file}")
COMMANDS = {
    "dump": ("dump", "{file}"),
    "lint": ("lint", "--exit-zero", "{file}"),
    "verify": ("verify", "{file}"),
    "plan": ("plan", "{file}"),
    "fix --dry-run": DRY,
}


@dataclass(frozen=True, slots=True)
class Curve:
    """What grows, how a file is made, at which counts, and what is run on it."""

    what: str
    make: Callable[[Path, int], Path]
    counts: tuple[int, ...]
    commands: Mapping[str, tuple[str, ...]]


CURVES = (
    Curve("tokens", tokens, (1000, 10_000, 50_000, 100_000, 250_000, 500_000, 1_000_000), COMMANDS),
    Curve("tokens and merges", merges, (1000, 10_000, 25_000, 65_000, 130_000, 260_000, 500_000), COMMANDS),
    Curve("tensors", tensors, (100, 1000, 5000, 10_000, 20_000, 35_000, 50_000), COMMANDS),
    Curve("keys", keys, (10, 100, 1000, 5000, 10_000, 20_000, 40_000), COMMANDS),
    Curve("shards", shards, (2, 8, 32, 64, 128, 256, 512),
          {**COMMANDS, "merge --dry-run": ("merge", "--dry-run", "{file}", "-o", "{out}/whole.gguf")}),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Line:
    """One command on the files of one curve: seconds by count, or why there are none."""

    what: str
    command: str
    seconds: Mapping[int, float]
    failed: str = ""

    @property
    def exponent(self) -> float | None:
        return fit(list(self.seconds), list(self.seconds.values()))

    @property
    def good(self) -> bool:
        """False when it grows faster than its file, or could not be measured."""
        return not self.failed and (self.exponent or 0.0) <= MOST


def measure(program: str, folder: Path, progress: Callable[[str], object], runs: int = 3) -> list[Line]:
    """All curves; the least of some runs at each point."""
    lines = []
    for curve in CURVES:
        seconds: dict[str, dict[int, float]] = {name: {} for name in curve.commands}
        failed: dict[str, str] = {}
        for count in curve.counts:
            with tempfile.TemporaryDirectory(dir=folder, prefix="curve-") as name:
                path = curve.make(Path(name), count)
                for command, words in curve.commands.items():
                    if command in failed:
                        continue
                    progress(f"{curve.what} {count:,}: {command}")
                    given = [program, *(w.format(file=path, out=name) for w in words)]
                    try:
                        # Findings are none of its business.
                        took = [run(given, (0, 1), env=environment(folder)).cpu for _ in range(runs)]
                        seconds[command][count] = min(took)
                    except Failed as e:
                        failed[command] = f"at {count:,}: {e}"
        lines += [Line(curve.what, name, found, failed.get(name, "")) for name, found in seconds.items()]
    return lines
