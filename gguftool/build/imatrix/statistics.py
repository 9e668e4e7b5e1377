"""The figures that llama-imatrix shows of a matrix and writes into it (`imatrix.cpp`, b11434), and the ZD score.

`compute_vector_statistics` (one tensor), `compute_tensor_statistics` (against the same tensor of the layer before) and
`compute_layer_statistics`. As there, what has no value is NaN, and sums are of double precision.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gguftool.brief import short_repr
from gguftool.build.imatrix.matrix import Entry, Matrix
from gguftool.records import dataclass
from gguftool.regex import regex

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SCHEMA = (
    "sum_sq", "mean", "elements", "std_deviation", "skewness", "kurtosis", "gain", "h_norm", "l2_dist", "cossim",
    "pearson", "covariance",
)  # fmt: skip
"""What ``NAME.stats`` holds, in its order."""
_NUMBER = regex(r"\s*[+-]?[0-9]{1,9}", re.ASCII)
_LEAST_SHARE, _LEAST_DEVIATION, _LEAST_ENERGY = 1e-10, 1e-10, 1e-10
_NO = math.nan


@dataclass(frozen=True, slots=True)
class Step:
    """One tensor against the same tensor of an earlier layer: sums over the columns that both have numbers for.

    Attributes:
        columns: how many.
        dot, own, before: sums of products and of squares.
        apart: sum of squared differences.
        cov, var, var_before: the same about the means.
        energy, energy_columns: of the earlier tensor; 0 where it has none.
    """

    columns: int = 0
    dot: float = 0.0
    own: float = 0.0
    before: float = 0.0
    apart: float = 0.0
    cov: float = 0.0
    var: float = 0.0
    var_before: float = 0.0
    energy: float = 0.0
    energy_columns: int = 0


@dataclass(frozen=True, slots=True)
class TensorStatistics:
    """Figures of one tensor.

    Attributes:
        name: the weight.
        layer: its layer, None beside the layers.
        of_squares: the file has no plain sums: mean, deviation, skewness and kurtosis are of the mean squares.
        energy: sum of the mean squares of its columns.
        elements: columns that have numbers, of all experts.
        mean, deviation, skewness, kurtosis: of the columns' means.
        entropy: of the columns' shares of the energy, in bits.
        zd: share of the columns whose mean square is more than a deviation above the mean of all.
        strongest: the column with the largest mean square (of experts: of all of them, by its number in the row).
        strongest_share: its share of the energy.
        gain: root mean square against the layer before.
        step: the sums that the other figures against the layer before are made of.
    """

    name: str
    layer: int | None
    of_squares: bool
    energy: float
    elements: int
    mean: float
    deviation: float
    skewness: float
    kurtosis: float
    entropy: float
    zd: float
    strongest: int
    strongest_share: float
    gain: float = _NO
    step: Step | None = None

    __repr__ = short_repr

    @property
    def evenness(self) -> float:
        """Entropy against the most that so many columns can have, in per cent (``H Norm``)."""
        return 100 * self.entropy / math.log2(self.elements) if self.elements > 1 else _NO

    @property
    def distance(self) -> float:
        """Euclidean distance from the layer before."""
        return math.sqrt(self.step.apart) if self.step else _NO

    @property
    def cosine(self) -> float:
        """Cosine with the layer before."""
        return _ratio(self.step.dot, self.step.own, self.step.before) if self.step else _NO

    @property
    def pearson(self) -> float:
        """Correlation with the layer before."""
        return _ratio(self.step.cov, self.step.var, self.step.var_before) if self.step else _NO

    @property
    def covariance(self) -> float:
        """Covariance with the layer before."""
        return self.step.cov / self.step.columns if self.step and self.step.columns > 1 else _NO

    @property
    def row(self) -> tuple[float, ...]:
        """The figures in the order of `SCHEMA`."""
        return (self.energy, self.mean, float(self.elements), self.deviation, self.skewness, self.kurtosis, self.gain,
                self.evenness, self.distance, self.cosine, self.pearson, self.covariance)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LayerStatistics:
    """Figures of a layer: its tensors together, against those of the layer before."""

    layer: int
    energy: float
    gain: float = _NO
    distance: float = _NO
    cosine: float = _NO
    pearson: float = _NO
    covariance: float = _NO

    __repr__ = short_repr


def _ratio(product: float, a: float, b: float) -> float:
    if a > 0 and b > 0:
        return max(-1.0, min(1.0, product / (math.sqrt(a) * math.sqrt(b))))
    return _NO if a == 0 and b == 0 else 0.0


def layer_of(name: str) -> int | None:
    """The layer in a tensor's name, as llama-imatrix tells it: the number behind the first part ``blk``."""
    parts = name.split(".")
    for at, part in enumerate(parts[:-1]):
        if part == "blk":
            found = _NUMBER.match(parts[at + 1])
            return int(found[0]) if found else None
    return None


def tensor_statistics(matrix: Matrix) -> tuple[TensorStatistics, ...]:
    """Figures of every tensor that has any data, by layer and name; those beside the layers last."""
    alone = {name: one for name, entry in matrix.entries.items() if (one := _alone(name, entry)) is not None}
    start = _nextn_start(alone, matrix.nextn)
    found = (_against(one, alone, matrix.entries, start) for one in alone.values())
    return tuple(sorted(found, key=lambda one: (math.inf if one.layer is None else one.layer, one.name)))


def _alone(name: str, entry: Entry) -> TensorStatistics | None:
    """A tensor by itself; None without a number."""
    import numpy as np

    seen = entry.counts > 0
    if not entry.elements or not seen.any():
        return None
    with np.errstate(all="ignore"):
        scale = 1.0 / entry.counts[seen].astype(np.float32).astype(np.float64)[:, None]
        squares = entry.rows[seen].astype(np.float64) * scale
        means = squares if entry.sums is None else entry.sums.reshape(entry.rows.shape)[seen].astype(np.float64) * scale
    good = np.isfinite(squares) & np.isfinite(means)
    v, e = means[good], squares[good]
    if not v.size:
        return None
    mean = float(v.mean())
    apart = v - mean
    with np.errstate(all="ignore"):
        m2, m3, m4 = (float((apart**k).mean()) for k in (2, 3, 4))
        deviation = float(np.sqrt(np.float32(m2)))
        positive = np.maximum(e, 0.0)
        total = float(positive.sum())
        shares = positive / total if total > 0 else np.zeros_like(positive)
        counted = shares[shares > _LEAST_SHARE]
        spread = float(e.std())
        zd = float((e > e.mean() + spread).mean()) if spread > 0 else 0.0
    uneven = deviation > _LEAST_DEVIATION and 0 < m2 < math.inf
    top = int(np.argmax(np.where(good, squares, -np.inf)))
    return TensorStatistics(
        name, layer_of(name), entry.sums is None, float(e.sum()), int(v.size), mean, deviation,
        m3 / (m2 * math.sqrt(m2)) if uneven else 0.0, m4 / (m2 * m2) - 3.0 if uneven and m2 * m2 > 0 else 0.0,
        float(-(counted * np.log2(counted)).sum()), zd, top % entry.rows.shape[1],
        float(shares.max()) if shares.size else 0.0,
    )  # fmt: skip


def _nextn_start(found: Mapping[str, TensorStatistics], nextn: int) -> int:
    """The first layer that predicts further tokens; beyond every layer where there is none."""
    layers = [one.layer for one in found.values() if one.layer is not None]
    if nextn > 0 and layers:
        return max(0, max(layers) + 1 - nextn)
    own = [one.layer for one in found.values() if one.layer is not None and ".nextn." in one.name]
    return min(own, default=1 << 31)


def _against(
    one: TensorStatistics, all_of: Mapping[str, TensorStatistics], entries: Mapping[str, Entry], start: int
) -> TensorStatistics:
    """The tensor with what it is against the nearest earlier layer that has the same one."""
    from gguftool.records import replace

    layer = one.layer
    if layer is None or layer <= 0 or layer == start:
        return one
    mark = f"blk.{layer}"
    at = one.name.find(mark)
    first = start if layer > start else 0
    names = (f"{one.name[:at]}blk.{n}{one.name[at + len(mark) :]}" for n in range(layer - 1, first - 1, -1))
    before = next((all_of[name] for name in names if name in all_of), None) if at >= 0 else None
    if before is None:
        return one
    plain = not one.of_squares and not before.of_squares
    step = _step(_averages(entries[one.name], plain), _averages(entries[before.name], plain))
    if step is None:
        return one
    if before.energy <= _LEAST_ENERGY:
        return replace(one, step=step, gain=1.0 if one.energy <= _LEAST_ENERGY else _NO)
    # A sum below zero is of a broken file.
    gain = math.sqrt(max(0.0, one.energy) / one.elements) / math.sqrt(before.energy / before.elements)
    return replace(
        one, gain=gain, step=replace(step, energy=before.energy, energy_columns=before.elements)
    )  # fmt: skip


def _averages(entry: Entry, plain: bool) -> NDArray[np.float64]:
    """Means of the columns of all experts, NaN where nothing was seen, in the precision of llama-imatrix."""
    import numpy as np

    source = entry.sums if plain and entry.sums is not None else entry.squares
    rows = source.reshape(len(entry.counts), -1)
    with np.errstate(all="ignore"):
        scale = np.float32(1) / entry.counts.astype(np.float32)
        scale[entry.counts <= 0] = np.nan
        return (rows * scale[:, None]).ravel().astype(np.float64)


def _step(own: NDArray[np.float64], before: NDArray[np.float64]) -> Step | None:
    import numpy as np

    if own.shape != before.shape:
        return None
    both = np.isfinite(own) & np.isfinite(before)
    c, p = own[both], before[both]
    if not c.size:
        return None
    dc, dp = c - c.mean(), p - p.mean()
    products = (c, p), (c, c), (p, p), (c - p, c - p), (dc, dp), (dc, dc), (dp, dp)
    dot, own_, before_, apart, cov, var, var_before = (float(a @ b) for a, b in products)
    return Step(int(c.size), dot, own_, before_, apart, cov, var, var_before)


def layer_statistics(found: Sequence[TensorStatistics]) -> tuple[LayerStatistics, ...]:
    """Figures of every layer, in order."""
    by_layer: dict[int, list[TensorStatistics]] = {}
    for one in found:
        if one.layer is not None:
            by_layer.setdefault(one.layer, []).append(one)
    return tuple(_layer(layer, by_layer[layer]) for layer in sorted(by_layer))


def _layer(layer: int, tensors: Sequence[TensorStatistics]) -> LayerStatistics:
    energy = sum(one.energy for one in tensors)
    pairs = [(one, one.step) for one in tensors if one.step and (one.step.own or one.step.before or one.step.apart)]
    if layer <= 0 or not pairs:
        return LayerStatistics(layer, energy)

    def total(field: str) -> float:
        return float(sum(getattr(step, field) for _, step in pairs))

    matched = [(one, step) for one, step in pairs if step.energy_columns > 0]
    gain, before = _NO, sum(step.energy for _, step in matched)
    if matched and before > 0:
        mine = sum(one.energy for one, _ in matched) / sum(one.elements for one, _ in matched)
        gain = math.sqrt(max(0.0, mine) / (before / sum(step.energy_columns for _, step in matched)))
    columns = total("columns")
    return LayerStatistics(
        layer, energy, gain, math.sqrt(total("apart")), _ratio(total("dot"), total("own"), total("before")),
        _ratio(total("cov"), total("var"), total("var_before")), total("cov") / columns if columns else _NO,
    )  # fmt: skip
