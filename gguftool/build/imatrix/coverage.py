"""What a matrix does not know of its own model, and what llama-quantize makes of that (b11434, measured).

An expert that saw no token gets importances of 1 (`quantize.cpp:load_imatrix`), so it is quantised as if there were no
matrix, also to the types that are refused without one. NaN and infinity are refused (`llama-quant.cpp`), importances
below zero stop the process in the kernels of IQ2 and IQ1 (`ggml-quants.c`: ``GGML_ASSERT(grid_index >= 0)``), and
columns of zeros are quantised without a word.
"""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.brief import short_repr
from gguftool.build.category import allowed
from gguftool.build.imatrix.matrix import Entry, Matrix
from gguftool.model import Model
from gguftool.model.imatrix import CHUNK, CHUNKS
from gguftool.predict.pairs.imatrix import lacking, unfit
from gguftool.predict.pairs.misfit import ABORTS, DOUBT, HARM, OUTCOMES, REFUSED, Misfit
from gguftool.records import dataclass

RARE = 100
"""Tokens under which a mean square is hardly known: of 100 numbers its standard error is 14 % and more."""
FEW = 20
"""Chunks of 512 tokens under which a matrix is a trial; people take 100 and more."""
_MORE_TEXT = "measure more text, of the kinds the model is for, and add it with `gguftool imatrix --merge`"
_AGAIN = "measure it again"


@dataclass(frozen=True, slots=True)
class Experts:
    """The experts of one tensor.

    Attributes:
        name: the weight.
        experts: how many it has.
        unseen: numbers of those that saw no token.
        rare: numbers of those that saw fewer than `RARE` tokens, but any.
        least, most: tokens that the least and the most used one saw.
    """

    name: str
    experts: int
    unseen: tuple[int, ...]
    rare: tuple[int, ...]
    least: int
    most: int

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Coverage:
    """What there is and is not.

    Attributes:
        tensors: entries.
        empty: those without a single token.
        experts: tensors of experts, with any that lack tokens or not.
        broken: entries with NaN or infinity.
        negative: entries with importances below zero.
        zero: entries with columns of zeros, and how many columns of all experts that saw a token.
        tokens: the most tokens that one tensor saw.
    """

    tensors: int
    empty: tuple[str, ...]
    experts: tuple[Experts, ...]
    broken: tuple[str, ...]
    negative: tuple[str, ...]
    zero: tuple[tuple[str, int], ...]
    tokens: int

    __repr__ = short_repr

    @property
    def unseen(self) -> int:
        """Experts that saw no token, over all tensors."""
        return sum(len(one.unseen) for one in self.experts)

    @property
    def rare(self) -> int:
        """Experts that saw few, over all tensors."""
        return sum(len(one.rare) for one in self.experts)

    @property
    def all_experts(self) -> int:
        """Experts over all tensors."""
        return sum(one.experts for one in self.experts)


def coverage(matrix: Matrix) -> Coverage:
    """Look at counts and values of every entry."""
    import numpy as np

    empty, broken, negative = [], [], []
    experts: list[Experts] = []
    zero: list[tuple[str, int]] = []
    tokens = 0
    for name, entry in matrix.entries.items():
        seen = entry.counts > 0
        tokens = max(tokens, int(entry.counts.max(initial=0)))
        if len(seen) > 1 and seen.any():
            experts.append(_experts(name, entry))
        if not seen.any():
            empty.append(name)
        values = entry.rows[seen] if seen.any() or not matrix.legacy else entry.rows
        if not np.isfinite(values).all():
            broken.append(name)
        elif (values < 0).any():
            negative.append(name)
        elif count := int((values == 0).sum()):
            zero.append((name, count))
    return Coverage(
        len(matrix.entries), tuple(empty), tuple(experts), tuple(broken), tuple(negative), tuple(zero), tokens
    )


def _experts(name: str, entry: Entry) -> Experts:
    import numpy as np

    counts = entry.counts
    return Experts(
        name, len(counts), tuple(map(int, np.flatnonzero(counts <= 0))),
        tuple(map(int, np.flatnonzero((counts > 0) & (counts < RARE)))), max(0, int(counts.min())), int(counts.max()),
    )  # fmt: skip


def flaws(matrix: Matrix, found: Coverage) -> Iterator[Misfit]:
    """What speaks against using it, the worst first; whatever model it is for."""
    if found.broken:
        yield Misfit(
            "", REFUSED, f"{_some(found.broken)} NaN or infinity", ("imatrix contains non-finite value",), _AGAIN,
            where=_where(found.broken[0]), data={"tensors": list(found.broken)},
        )  # fmt: skip
    if matrix.lacks:
        yield Misfit(
            "", REFUSED, f"it lacks {', '.join(matrix.lacks)}", ("missing imatrix metadata in file",), _AGAIN,
            where=f"field:{matrix.lacks[0]}", data={"keys": list(matrix.lacks)},
        )  # fmt: skip
    if found.negative:
        yield Misfit(
            "", ABORTS, f"{_some(found.negative)} importances below zero, which no sum of squares is", (), _AGAIN,
            where=_where(found.negative[0]), data={"tensors": list(found.negative)},
        )  # fmt: skip
    if found.empty:
        yield Misfit(
            "", HARM, f"{_some(found.empty)} no token: importances of 1, as if there were no matrix", (), _MORE_TEXT,
            where=_where(found.empty[0]), data={"tensors": list(found.empty)},
        )  # fmt: skip
    yield from _seldom(found)
    if found.zero and not found.broken:
        columns = sum(count for _, count in found.zero)
        yield Misfit(
            "", DOUBT, f"{columns:,} columns of {len(found.zero):,} tensors were always 0, as of {found.zero[0][0]}: "
            "their weights are rounded without regard", where=_where(found.zero[0][0]), data={"columns": columns},
        )  # fmt: skip
    size = matrix.chunk_size or 512
    if 0 < matrix.chunks * size < FEW * 512:
        yield Misfit(
            "", DOUBT, f"it was measured on {matrix.chunks:,} chunks of {size:,} tokens: a trial; {FEW} of 512 are few",
            hint=_MORE_TEXT, where=f"field:{CHUNKS if matrix.chunk_size else CHUNK}", data={"chunks": matrix.chunks},
        )  # fmt: skip


def judged(model: Model, matrix: Matrix, found: Coverage) -> tuple[Misfit, ...]:
    """What speaks against a matrix, by itself and beside a model, the worst first."""
    beside = list(unfit(model, matrix.sizes))
    if not any(misfit.stops or "layers" in misfit.data for misfit in beside):
        beside += _bare(model, matrix)
    return tuple(sorted((*flaws(matrix, found), *beside), key=lambda misfit: OUTCOMES.index(misfit.outcome)))


def _bare(model: Model, matrix: Matrix) -> Iterator[Misfit]:
    """Weights without an entry, where every layer has some."""
    names = (t.name for t in model.all_tensors() if allowed(t.name, t.shape, model.architecture))
    weights = lacking(names, ())
    bare = lacking(weights, matrix.entries)
    if bare:
        more = f", for example {bare[0]}" if len(bare) > 1 else f": {bare[0]}"
        yield Misfit(
            "", HARM, f"it has no entry for {len(bare):,} of {len(weights):,} weights{more}",
            (f"did not find weights for {bare[0]}",),
            "they are quantised without importances, and not at all to IQ1, IQ2 and IQ3_XXS; layers that predict "
            "further tokens are measured with --nextn", where=f"tensor:{bare[0]}", data={"tensors": bare},
        )  # fmt: skip


def _seldom(found: Coverage) -> Iterator[Misfit]:
    unseen = [one for one in found.experts if one.unseen]
    if unseen:
        worst = max(unseen, key=lambda one: len(one.unseen))
        yield Misfit(
            "", HARM, f"{found.unseen:,} of {found.all_experts:,} experts in {len(unseen):,} tensors saw no token, "
            f"{len(worst.unseen):,} of {worst.experts:,} in {worst.name}: importances of 1 there, so IQ1, IQ2 and "
            "IQ3_XXS are as bad for them as without a matrix, and nothing refuses it",
            hint=_MORE_TEXT, where=_where(worst.name, ".counts"),
            data={"experts": found.unseen, "of": found.all_experts, "tensors": len(unseen)},
        )  # fmt: skip
    if found.rare:
        yield Misfit(
            "", DOUBT, f"{found.rare:,} of {found.all_experts:,} experts saw fewer than {RARE} tokens: what is "
            "important to them is hardly known", hint=_MORE_TEXT, data={"experts": found.rare, "of": found.all_experts},
        )  # fmt: skip


def _some(names: tuple[str, ...]) -> str:
    return f"{names[0]} has" if len(names) == 1 else f"{len(names):,} entries have, {names[0]} the first,"


def _where(name: str, end: str = ".in_sum2") -> str:
    return f"tensor:{name}{end}"
