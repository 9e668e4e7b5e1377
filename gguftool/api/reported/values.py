"""What the numbers of a tensor are like: range, spread, outliers; read piece by piece, in little memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gguftool.brief import short_repr
from gguftool.errors import FormatError
from gguftool.model import Model
from gguftool.model.arrays import floats

if TYPE_CHECKING:
    from gguftool.model.arrays import Array
    from gguftool.model.part import Tensor

ELEMENTS = 1 << 20
"""Elements of a piece: 4 MiB as float32, whatever the type is."""
FAR = 6.0
"""An outlier is further from zero than this many times the root mean square of its tensor."""


@dataclass(frozen=True, slots=True)
class Values:
    """The numbers of one tensor.

    Attributes:
        least, most: the smallest and the largest finite one.
        mean, rms: mean and root mean square of the finite ones.
        zeros: how many are 0.
        nan, inf: how many are none, and infinite.
        outliers: how many are further from zero than `FAR` times the root mean square.
        furthest: index of the one furthest from zero, counted along the shape, fastest first.
    """

    least: float
    most: float
    mean: float
    rms: float
    zeros: int
    nan: int
    inf: int
    outliers: int
    furthest: int

    __repr__ = short_repr


def all_values(m: Model, tick: Callable[[int], None] = lambda n: None) -> dict[tuple[int, str], Values]:
    """What is in every tensor that can be read, by number of the file and name.

    Args:
        m: a model whose data is at hand.
        tick: called with the bytes of each tensor that is done.

    Raises:
        Unreadable, ChangedMeanwhile: as `Source.read_at`.
    """
    out = {}
    for t in m.all_tensors():
        found = values(t)
        if found is not None:
            out[t.part.no, t.name] = found
        tick(t.nbytes or 0)
    return out


def values(t: Tensor) -> Values | None:
    """What is in a tensor; None where its type has no way to numbers, or its data is not all there."""
    kind, nbytes = t.info.type, t.nbytes
    if kind is None or not nbytes or t.part.header.big_endian or t.offset + nbytes > t.part.size:
        return None
    try:
        return _values(t)
    except FormatError:
        return None


def _values(t: Tensor) -> Values:
    import numpy as np

    n = seen = zeros = nan = inf = furthest = 0
    least, most, total, squares, far = math.inf, -math.inf, 0.0, 0.0, -1.0
    for piece in _pieces(t):
        finite = piece
        size = np.abs(piece)
        good = np.isfinite(piece)
        if not good.all():
            nan += int(np.isnan(piece).sum())
            inf += int(np.isinf(piece).sum())
            finite, size = piece[good], np.where(good, size, -1.0)
        if len(finite):
            least, most = min(least, float(finite.min())), max(most, float(finite.max()))
            total += float(finite.sum(dtype=np.float64))
            squares += float(np.square(finite, dtype=np.float64).sum())
            zeros += int((finite == 0).sum())
            n += len(finite)
            at = int(size.argmax())
            if float(size[at]) > far:
                far, furthest = float(size[at]), seen + at
        seen += len(piece)
    if not n:
        return Values(math.nan, math.nan, math.nan, math.nan, 0, nan, inf, 0, 0)
    rms = math.sqrt(squares / n)
    return Values(least, most, total / n, rms, zeros, nan, inf, _outliers(t, FAR * rms, far), furthest)


def _outliers(t: Tensor, limit: float, far: float) -> int:
    """The data is read a second time only where there is one at all."""
    import numpy as np

    if far <= limit:
        return 0
    with np.errstate(invalid="ignore"):
        return sum(int(((np.abs(piece) > limit) & np.isfinite(piece)).sum()) for piece in _pieces(t))


def _pieces(t: Tensor) -> Iterator[Array]:
    """The numbers of a tensor as float32, piece by piece."""
    kind, nbytes = t.info.type, t.nbytes or 0
    if kind is None:
        return
    step = max(1, ELEMENTS // kind.block_size) * kind.block_bytes
    for at in range(0, nbytes, step):
        yield floats(t.info, t.part.source.read_at(t.offset + at, min(step, nbytes - at)))
