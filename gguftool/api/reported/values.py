"""What the numbers of a tensor are like: range, spread, outliers; read piece by piece, in little memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gguftool.brief import short_repr
from gguftool.errors import FormatError, Unreadable
from gguftool.model import Model
from gguftool.model.arrays import floats
from gguftool.processors import processors
from gguftool.records import dataclass
from gguftool.verify.stream import Progress, ignored

if TYPE_CHECKING:
    from gguftool.model.arrays import Array
    from gguftool.model.part import Tensor

ELEMENTS = 1 << 20
"""Elements of a piece: 4 MiB as float32, whatever the type is."""
MOST_THREADS = 8
MOST_KEPT = 1 << 21
"""Large numbers of one tensor that are kept: 8 MiB; of one with more the data is read twice."""
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


def all_values(m: Model, progress: Progress = ignored) -> dict[tuple[int, str], Values]:
    """What is in every tensor that can be read, by number of the file and name.

    Args:
        m: a model whose data is at hand.
        progress: called with the bytes done since the last call, from several threads.

    Raises:
        Unreadable, ChangedMeanwhile: as `Source.read_at`.
    """
    from concurrent.futures import ThreadPoolExecutor

    import gguf  # noqa: F401  # before the threads: an import in several of them at once is slow

    every = list(m.all_tensors())
    stopped = False

    def tick(n: int) -> None:
        # Ctrl-C comes to the main thread: the others end at their next piece.
        if stopped:
            raise Unreadable(f"{m.name}: no longer read")
        progress(n)

    pool = ThreadPoolExecutor(min(MOST_THREADS, processors()))
    try:
        found = list(pool.map(lambda t: values(t, tick), every))
    finally:
        stopped = True
        pool.shutdown(cancel_futures=True)
    return {(t.part.no, t.name): x for t, x in zip(every, found, strict=True) if x is not None}


def values(t: Tensor, progress: Progress = ignored) -> Values | None:
    """What is in a tensor; None where its type has no way to numbers, or its data is not all there."""
    kind, nbytes = t.info.type, t.nbytes
    if kind is None or not nbytes or t.part.header.big_endian or t.offset + nbytes > t.part.size:
        return None
    try:
        return _values(t, progress)
    except FormatError:
        return None


def _values(t: Tensor, progress: Progress) -> Values:
    import numpy as np

    n = seen = zeros = nan = inf = furthest = 0
    least, most, total, squares, far = math.inf, -math.inf, 0.0, 0.0, -1.0
    large = _Large()
    for piece in _pieces(t, progress):
        finite, size = piece, np.abs(piece)
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
            large.take(size, math.sqrt(squares / n))
        seen += len(piece)
    if not n:
        return Values(math.nan, math.nan, math.nan, math.nan, 0, nan, inf, 0, 0)
    rms = math.sqrt(squares / n)
    limit = FAR * rms
    outliers = 0 if far <= limit else large.beyond(limit)
    if outliers is None:
        outliers = sum(int((np.abs(piece[np.isfinite(piece)]) > limit).sum()) for piece in _pieces(t, progress))
    return Values(least, most, total / n, rms, zeros, nan, inf, outliers, furthest)


class _Large:
    """The sizes of large numbers, kept until it is known which are outliers, so that nothing is read twice."""

    def __init__(self) -> None:
        self._floor = -1.0
        self._kept: list[Array] = []
        self._room = MOST_KEPT

    def take(self, sizes: Array, rms: float) -> None:
        """Keep what may be one; ``rms``: of what was seen so far."""
        if self._floor < 0:
            self._floor = FAR / 2 * rms
        if self._room >= 0:
            found = sizes[sizes > self._floor]
            self._room -= len(found)
            self._kept.append(found)
        if self._room < 0:
            self._kept.clear()

    def beyond(self, limit: float) -> int | None:
        """How many are larger; None: that was not kept."""
        if limit < self._floor or self._room < 0:
            return None
        return sum(int((one > limit).sum()) for one in self._kept)


def _pieces(t: Tensor, progress: Progress) -> Iterator[Array]:
    """The numbers of a tensor as float32, piece by piece."""
    kind, nbytes = t.info.type, t.nbytes or 0
    if kind is None:
        return
    step = max(1, ELEMENTS // kind.block_size) * kind.block_bytes
    for at in range(0, nbytes, step):
        n = min(step, nbytes - at)
        yield floats(t.info, t.part.source.read_at(t.offset + at, n))
        progress(n)
