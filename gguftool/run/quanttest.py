"""What quantisations of one model lose against their source: divergence, perplexity, first choice, by the real library.

The files must have the same vocabulary, and fit in memory together with the source; both is known before anything is
loaded. What is measured is `gguftool.run.divergence`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from gguftool.brief import short_repr
from gguftool.build.apart import Distance
from gguftool.build.distance import Job, distances
from gguftool.errors import FormatError, NoRoom, UsageError
from gguftool.hub import file_of, opened
from gguftool.memory.plan import memory
from gguftool.memory.settings import Settings
from gguftool.model import Model
from gguftool.model.compare import KeyChange, compare, first_difference
from gguftool.model.overview import overview
from gguftool.model.role import only_runnable
from gguftool.records import dataclass, replace
from gguftool.run.devices import host_memory
from gguftool.run.divergence import (
    GRADES,
    OWN_TEXT,
    SURE,
    WORST,
    Compared,
    Outcome,
    Reader,
    apart,
    divergence,
    grade,
    program_of,
    soundness,
)
from gguftool.run.known import BROKEN, Known, subject

TOKENS = 1024
"""Read when nothing is said: what the packaged text holds for most vocabularies, in whole chunks."""
CUTS = frozenset(
    "model pre tokens token_type scores merges add_bos_token add_eos_token add_space_prefix bos_token_id "
    "remove_extra_whitespaces precompiled_charsmap".split()
)
"""Keys below ``tokenizer.ggml.`` that decide which tokens a text becomes."""
GRIDS = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
"""Types that give the same weights again when they are made of their own weights."""
ON_GRID = 1e-6
"""Relative error below which weights lie on the grid of such a type: what rounding to F16 leaves is 4e-8, and of
weights that are on no grid even Q8_0 loses 3e-5 (measured on SmolLM2-135M)."""
LOOKED = 1 << 15
"""Weights of a tensor that are held against the grids."""
HEADROOM = 256 << 20
"""Bytes for Python, the library itself and one batch of logits of each model."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """One file.

    Attributes:
        path: the file (the first of a set).
        size: bytes of all its files.
        bits_per_weight: over all tensors.
        memory: bytes planned for it: weights, cache, compute buffers.
        outcome: what was measured; of the source itself, of which the divergence is 0.
        notes: what else is to be known of it.
    """

    path: str
    size: int
    bits_per_weight: float
    memory: int
    outcome: Outcome
    notes: tuple[str, ...] = ()

    __repr__ = short_repr

    @property
    def name(self) -> str:
        """The last part of its path."""
        return os.path.basename(self.path)

    @property
    def grade(self) -> str:
        """What the numbers mean, "" where it was refused."""
        o = self.outcome
        return "" if o.refused else grade(o.divergence, o.perplexity_ratio, o.ratio_error)


@dataclass(frozen=True, slots=True)
class QuantTest:
    """A measurement.

    Attributes:
        source: what the others are held against.
        results: one a quantisation, as given.
        tokens: tokens read by each, ``compared`` of them were compared, in chunks of ``chunk``.
        text: where the text is from.
        engine: what computed.
        reference: whether the source itself is sound, by what it makes of the packaged text.
        notes: what the figures do not say.
    """

    source: Weighed
    results: tuple[Weighed, ...]
    tokens: int
    compared: int
    chunk: int
    text: str
    engine: str
    reference: Known
    notes: tuple[str, ...] = ()

    __repr__ = short_repr

    @property
    def ordered(self) -> tuple[Weighed, ...]:
        """Those that were measured, the smallest first."""
        return tuple(sorted((t for t in self.results if not t.outcome.refused), key=lambda t: (t.size, t.path)))

    @property
    def basis(self) -> str:
        """What the words of the grades stand for."""
        said = [
            f"{name}: up to {most:g} nats and {100 * (more - 1):.2g} % of perplexity" for most, more, name in GRADES
        ]
        return "; ".join([*said, f"{WORST}: beyond"]) + f"; perplexity counts from {SURE:g} standard errors on"

    @property
    def comparisons(self) -> tuple[str, ...]:
        """What can and cannot be told of each file and the next larger one."""
        return tuple(_told(small, large) for small, large in pairwise(self.ordered))

    @property
    def verdict(self) -> str:
        """Which file to take, in one line; of a broken source nothing is said about the others."""
        if self.reference.verdict == BROKEN:
            return f"the source itself is broken, whatever its quantisation: {self.reference.why}"
        rows = self.ordered
        if not rows:
            return "none of the files could be measured"
        for _, _, word in GRADES[:2]:
            if found := next((t for t in rows if t.grade == word), None):
                return f"{found.name}: {word} at {found.size / self.source.size:.0%} of the size"
        best = min(rows, key=lambda t: t.outcome.divergence)
        return f"even {best.name}, the best of them, costs {best.grade}"


def _told(small: Weighed, large: Weighed) -> str:
    more, error = apart(large.outcome, small.outcome)
    head = f"{small.name} and {large.name}: "
    if abs(more) <= SURE * error:
        return f"{head}no difference that this text shows ({more:+.5f} ± {error:.5f} nats)"
    if small.size == large.size:
        better = small.name if more < 0 else large.name
        return f"{head}of one size, and {better} is better by {abs(more):.5f} ± {error:.5f} nats"
    if more < 0:
        return f"{small.name} is smaller than {large.name} and better, by {-more:.5f} ± {error:.5f} nats"
    return f"{head}the larger one is better by {more:.5f} ± {error:.5f} nats"


AnyModel = Model | str | os.PathLike[str]


def quant_test(
    source: AnyModel,
    files: Sequence[AnyModel],
    *,
    text: str | None = None,
    tokens: int = TOKENS,
    chunk: int = 512,
    threads: int | None = None,
    timeout: float = 3600.0,
    engine: str = "auto",
    llama_cpp: str | None = None,
    ram: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> QuantTest:
    """Measure what quantisations lose against their source.

    Args:
        source: the model they were made of, as unquantised as there is: a path, an address, or an open model.
        files: the quantisations.
        text: path of a text; None: the first pages of Alice's Adventures in Wonderland (1865).
        tokens: how many tokens to read; more make the errors smaller, with the root of their number.
        chunk: tokens of a chunk; the second half of each is compared.
        threads: threads to compute with; None: all cores.
        timeout: seconds for all files that are in memory together.
        engine: one of `gguftool.run.divergence.ENGINES`.
        llama_cpp: folder or program of llama.cpp to use.
        ram: bytes of memory that may be used; None: what is free.
        tell: called with a line about progress.

    Raises:
        UsageError: they have not the same vocabulary, do not run, or the text is too short.
        NoRoom: the source and one of the files do not fit in memory together.
        ToolFailed: there is neither library nor program, or it ended.
    """
    if not files:
        raise UsageError("there is nothing to compare the source with")
    with opened(file_of(source)) as m:
        first, about, notes = _looked(m, m, chunk), subject(m), tuple(_of_source(m))
        others = []
        for one in files:
            with opened(file_of(one)) as other:
                same_vocabulary(m, other)
                others.append(_looked(other, m, chunk))
    by_program = program_of(engine, llama_cpp) is not None
    groups = _groups(first, others, _room(ram), alone=by_program)
    base: Outcome | None = None
    outcomes: dict[str, Outcome] = {}
    found: Compared | None = None
    for group in groups:
        found = divergence(
            [Reader(t.path) for t in (first, *group)], text=text, tokens=tokens, chunk=chunk, threads=threads,
            timeout=timeout, engine=engine, llama_cpp=llama_cpp, tell=tell,
        )  # fmt: skip
        base = base or found.outcomes[0]
        outcomes |= {o.reader.path: o for o in found.outcomes[1:]}
    if found is None or base is None:
        raise UsageError("there is nothing to compare the source with")
    return QuantTest(
        replace(first, outcome=base), tuple(replace(t, outcome=outcomes[t.path]) for t in others), found.tokens,
        found.compared, chunk, text or OWN_TEXT, found.engine, soundness(found, about, text),
        (*notes, *_of_sizes(first, others)),
    )  # fmt: skip


def same_vocabulary(source: Model, other: Model) -> None:
    """Both must turn a text into the same tokens.

    Raises:
        UsageError: they do not; says where they differ.
    """
    changes = {c.key.removeprefix("tokenizer.ggml."): c for c in compare(source, other).keys}
    apart_ = [name for name in changes if name in CUTS and changes[name].key.startswith("tokenizer.ggml.")]
    if not apart_:
        return
    name = "tokens" if "tokens" in apart_ else apart_[0]
    raise UsageError(
        f"{other.name} has another vocabulary than {source.name}: {_where(changes[name])}",
        "only quantisations of one model can be held against each other",
    )


def _where(change: KeyChange) -> str:
    old, new = change.old, change.new
    if old is None or new is None:
        return f"only one of them has {change.key}"
    if old.count is not None and old.count != new.count:
        return f"{change.key} has {old.count:,} elements there, {new.count or 0:,} here"
    at = first_difference(old, new)
    return f"{change.key} differs" + (f" from element {at:,} on" if at is not None else "")


def _looked(m: Model, source: Model, chunk: int) -> Weighed:
    only_runnable(m)
    facts = overview(m)
    notes = []
    if m is not source:
        here = {t.name: t.shape for t in m.all_tensors()}
        there = {t.name: t.shape for t in source.all_tensors()}
        odd = [name for name, shape in there.items() if here.get(name, shape) != shape]
        if odd or m.architecture != source.architecture:
            what = f"{odd[0]} has another shape" if odd else f"it is a {m.architecture} model"
            notes.append(f"not a quantisation of the source: {what}")
    return Weighed(
        m.name, sum(p.size for p in m.parts), facts.bits_per_weight or 0.0, _planned(m, chunk),
        Outcome(Reader(m.name)), tuple(notes),
    )  # fmt: skip


def _planned(m: Model, chunk: int) -> int:
    plan = memory(m, settings=Settings(chunk, ubatch=32, batch=32, outputs=32, cache_ram=0, checkpoints=0))
    return sum(d.total for d in plan.devices)


def _of_source(m: Model) -> Iterator[str]:
    """What makes the source a poor judge."""
    matrices = [t for t in m.all_tensors() if len(t.shape) > 1]
    types = {t.type_name for t in matrices}
    coarse = sorted(types - {"F32", "F16", "BF16"})
    if coarse:
        yield (
            f"the source is itself quantised ({', '.join(coarse)}): what it has lost already is not counted, and a "
            "file on the same grid seems better than it is"
        )
        return
    grids: dict[str, int] = {}
    some = matrices[:: max(1, len(matrices) // 8)]
    answers = distances(Job(t, None, name, most=LOOKED) for t in some for name in GRIDS)
    for _ in some:
        if on := _grid([next(answers) for _ in GRIDS]):
            grids[on] = grids.get(on, 0) + 1
    if grids:
        most = max(grids, key=lambda name: grids[name])
        yield (
            f"the weights of the source lie on the grid of {', '.join(sorted(grids))}: it was made of a quantised "
            f"model, so {most} seems to lose nothing, and what was lost before is not counted"
        )


def _grid(answers: Sequence[Distance | FormatError]) -> str:
    """The first of `GRIDS` on which the weights of a tensor lie, "" for none."""
    for name, answer in zip(GRIDS, answers, strict=True):
        if isinstance(answer, FormatError):
            return ""
        if answer.relative is not None and 0 <= answer.relative < ON_GRID:
            return name
    return ""


def _of_sizes(source: Weighed, others: Sequence[Weighed]) -> Iterator[str]:
    larger = [t.name for t in others if t.bits_per_weight > source.bits_per_weight * 1.001]
    if larger:
        yield f"{', '.join(larger)} has more bits a weight than the source: is the source named first?"


def _room(ram: int | None) -> int | None:
    if ram is not None:
        return ram
    host = host_memory()
    return host.free if host else None


def _groups(source: Weighed, others: Sequence[Weighed], room: int | None, *, alone: bool) -> list[list[Weighed]]:
    """Files that are in memory together with the source, or one after the other (the program).

    Raises:
        NoRoom: one does not fit at all.
    """
    base = HEADROOM + (0 if alone else source.memory)
    for t in (source, *others) if alone else others:
        if room is not None and base + t.memory > room:
            what = f"{t.name}" if alone else f"{source.name} and {t.name} together"
            raise NoRoom(
                f"{what} take {_gib(base + t.memory)} in memory, and {_gib(room)} are free",
                "free some memory, measure where there is more, or name what may be used with --ram",
            )
    if alone:
        return [list(others)]
    groups: list[list[Weighed]] = [[]]
    used = base
    for t in others:
        if groups[-1] and room is not None and used + t.memory > room:
            groups.append([])
            used = base
        groups[-1].append(t)
        used += t.memory
    return groups


def _gib(n: int) -> str:
    return f"{n / (1 << 30):.1f} GiB"
