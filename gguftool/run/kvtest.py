"""Measure what each KV cache type costs in quality and speed, for one model, against f16.

Every type reads the same tokens in the same batches; what the model would say next is compared position by position
with what it says over an f16 cache: Kullback-Leibler divergence, perplexity, and how often the first choice is the
same (`gguftool.run.divergence`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from gguftool.brief import short_repr
from gguftool.facts.cachetypes import CACHE_TYPES, DEFAULT, FAST_PAIRS, shown
from gguftool.hub import file_of, opened
from gguftool.model import Model
from gguftool.model.role import only_runnable
from gguftool.records import dataclass, fields
from gguftool.run.divergence import GRADES, OWN_TEXT, UNREAD, Outcome, Reader, divergence, grade, soundness
from gguftool.run.known import BROKEN, Known, Subject, subject

TYPES = (
    ("f16", "f16"), ("bf16", "bf16"), ("q8_0", "q8_0"), ("q8_0", "q4_0"), ("q5_1", "q5_1"), ("q5_0", "q5_0"),
    ("q4_1", "q4_1"), ("q4_0", "q4_0"), ("iq4_nl", "iq4_nl"),
)  # fmt: skip
"""Pairs of types that are tried when none are named; the first is what the others are held against."""


@dataclass(frozen=True, slots=True)
class TypeResult:
    """One pair of types.

    Attributes:
        type_k, type_v: the types.
        refused: why llama.cpp does not take them, "" when it does; then the rest is 0.
        cache_bytes: bytes llama.cpp allocated for cache and state in the test.
        perplexity: of the text, second halves of the chunks.
        divergence, divergence_error: mean Kullback-Leibler divergence from f16 in nats, and its standard error.
        divergence_high: the 99th percentile.
        same_first: share of positions where the most likely token is the same.
        prompt_speed, write_speed: tokens per second, reading and writing.
        perplexity_ratio: perplexity divided by that of f16.
        ratio_error: standard error of its logarithm.
    """

    type_k: str
    type_v: str
    refused: str = ""
    cache_bytes: int = 0
    perplexity: float = 0.0
    divergence: float = 0.0
    divergence_error: float = 0.0
    divergence_high: float = 0.0
    same_first: float = 0.0
    prompt_speed: float = 0.0
    write_speed: float = 0.0
    perplexity_ratio: float = 1.0
    ratio_error: float = 0.0

    __repr__ = short_repr

    @property
    def name(self) -> str:
        """``q8_0`` or ``q8_0/q4_0``."""
        return shown(self.type_k, self.type_v)

    @property
    def bytes_per_element(self) -> float:
        """Mean of K and V, as far as the types go."""
        return (CACHE_TYPES[self.type_k].bytes_per_element + CACHE_TYPES[self.type_v].bytes_per_element) / 2

    @property
    def grade(self) -> str:
        """What the numbers mean; of the perplexity only what is surely above the noise of a short text."""
        return grade(self.divergence, self.perplexity_ratio, self.ratio_error)


@dataclass(frozen=True, slots=True)
class KvTest:
    """A measurement.

    Attributes:
        results: one a pair of types, the reference first.
        tokens: tokens read by each, ``compared`` of them were compared.
        chunk: tokens of a chunk, which is how much context they saw.
        text: where the text is from.
        engine: what computed.
        reference: whether the model itself is sound, by what it makes of the packaged text over an f16 cache.
    """

    results: tuple[TypeResult, ...]
    tokens: int
    compared: int
    chunk: int
    text: str
    engine: str
    reference: Known = UNREAD

    __repr__ = short_repr

    @property
    def verdict(self) -> str:
        """One line; of a broken model nothing is said about the cache."""
        if self.reference.verdict == BROKEN:
            return f"the model itself is broken, whatever its cache: {self.reference.why}"
        return verdict(self.results)


def _first_file(model: Model | str | os.PathLike[str]) -> tuple[str, Subject]:
    """The file to load, and what is known of it; only of what can run."""
    with opened(model if isinstance(model, Model) and model.paths else file_of(model)) as m:
        only_runnable(m)
        return m.name, subject(m)


def kv_test(
    model: Model | str | os.PathLike[str],
    types: Sequence[tuple[str, str]] = TYPES,
    *,
    text: str | None = None,
    tokens: int = 512,
    chunk: int = 512,
    threads: int | None = None,
    timeout: float = 3600.0,
    engine: str = "auto",
    llama_cpp: str | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> KvTest:
    """Measure.

    Args:
        model: a path, an address, or an open model.
        types: pairs of cache types; f16 is put before them when it is missing.
        text: path of a text; None: the first pages of Alice's Adventures in Wonderland (1865), which every model knows.
        tokens: how many tokens to read.
        chunk: tokens of a chunk; long contexts suffer more from coarse types than short ones.
        threads: threads to compute with; None: all cores.
        timeout: seconds for all of it (for each type with the program).
        engine: ``library``, ``llama-perplexity``, or ``auto``: the program of a llama.cpp that somebody named, else
            the library where it is installed.
        llama_cpp: folder or program of llama.cpp to use; None: as `gguftool.programs.find` does.
        tell: called with a line about progress.

    Raises:
        UsageError: it is no model that runs, the text is too short, or the sizes make no sense.
        ToolFailed: there is neither library nor program, it does not load the model, or it ended.
    """
    file, about = _first_file(model)
    pairs = list(dict.fromkeys([(DEFAULT, DEFAULT), *types]))
    found = divergence(
        [Reader(file, *pair) for pair in pairs], text=text, tokens=tokens, chunk=chunk, threads=threads,
        timeout=timeout, engine=engine, llama_cpp=llama_cpp, write=True, tell=tell,
    )  # fmt: skip
    results = tuple(_result(one) for one in found.outcomes)
    return KvTest(
        results, found.tokens, found.compared, chunk, text or OWN_TEXT, found.engine,
        soundness(found, about, text),
    )  # fmt: skip


def _result(one: Outcome) -> TypeResult:
    same = {f.name: getattr(one, f.name) for f in fields(TypeResult) if not f.name.startswith("type_")}
    return TypeResult(one.reader.type_k, one.reader.type_v, **same)


def verdict(results: Sequence[TypeResult]) -> str:
    """Which type to take, in one line."""
    base = results[0]
    smaller = [r for r in results[1:] if r.bytes_per_element < base.bytes_per_element]
    if not smaller:
        return "nothing smaller than f16 was measured: name types, --cache-type q8_0,q4_0"
    usable = [r for r in smaller if not r.refused]
    if not usable:
        return "nothing smaller than f16 works for this model: --cache-type f16"
    for _, _, word in GRADES[:2]:
        good = [r for r in usable if r.grade == word]
        if good:
            return _take(good, usable, base, word)
    best = min(usable, key=lambda r: r.divergence)
    return f"--cache-type f16: even {best.name}, the best of the smaller ones, costs {best.grade}"


def _take(good: Sequence[TypeResult], usable: Sequence[TypeResult], base: TypeResult, grade: str) -> str:
    """The smallest of the good ones, one that is fast on a GPU before one that is not."""

    def smallest(rows: Sequence[TypeResult]) -> TypeResult:
        return min(rows, key=lambda r: (r.bytes_per_element, r.divergence))

    best = smallest([r for r in good if (r.type_k, r.type_v) in FAST_PAIRS] or good)
    said = f"--cache-type {best.name}: {grade} at {best.bytes_per_element / base.bytes_per_element:.0%} of the memory"
    tiny = smallest(good)
    if tiny.bytes_per_element < best.bytes_per_element:
        said += f"; {tiny.name} is as good and smaller, but slow on a CUDA build as it comes"
    rest = [r for r in usable if r.bytes_per_element < tiny.bytes_per_element]
    return said + (f"; anything smaller costs {min(rest, key=lambda r: r.divergence).grade}" if rest else "")
