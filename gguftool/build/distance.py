"""How far the weights of a tensor are from others: of another file, or of a type that our own quantiser makes of them.

The one home of these figures: `gguftool diff --data`, `quant-test` and `mix` ask here. Data is read in slabs of rows by
the caller's thread and worked on by all cores (ggml's kernels and numpy release the GIL), so memory stays the same
however large a tensor is.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from gguftool.brief import short_repr
from gguftool.build.kernels import Kernels, find
from gguftool.build.objections import NO_WAY_WITHOUT
from gguftool.errors import FormatError
from gguftool.format.types import TENSOR_TYPE_BY_NAME
from gguftool.model.arrays import floats
from gguftool.model.part import Tensor
from gguftool.processors import processors
from gguftool.records import dataclass, fields

if TYPE_CHECKING:
    import numpy as np

    Floats = np.ndarray[Any, np.dtype[Any]]

SLAB = 1 << 20
"""Elements worked on at a time by one thread: 4 MiB as f32, each side."""


@dataclass(frozen=True, slots=True)
class Distance:
    """Sums over the weights W of a tensor and others in their place, Ŵ; what people read is made of them.

    Attributes:
        count: weights.
        squares: sum of (W-Ŵ)².
        own, other: sums of W² and of Ŵ².
        product: sum of W·Ŵ.
        absolute: sum of |W-Ŵ|.
        largest: the largest |W-Ŵ|.
        weighed, weighed_own: the first two with each column's importance; 0 where none is given.
    """

    count: int = 0
    squares: float = 0.0
    own: float = 0.0
    other: float = 0.0
    product: float = 0.0
    absolute: float = 0.0
    largest: float = 0.0
    weighed: float = 0.0
    weighed_own: float = 0.0

    __repr__ = short_repr

    def __add__(self, more: Distance) -> Distance:
        sums = {f.name: getattr(self, f.name) + getattr(more, f.name) for f in fields(self)}
        return Distance(**{**sums, "largest": max(self.largest, more.largest)})

    @property
    def relative(self) -> float | None:
        """‖W-Ŵ‖²/‖W‖²: 0 is the same, 1 as far off as nothing at all; None where W is all zero and Ŵ is not."""
        return _share(self.squares, self.own)

    @property
    def weighted(self) -> float | None:
        """The same with each column's importance, which is what its part of the result is off; None without any."""
        return _share(self.weighed, self.weighed_own) if self.weighed_own else None

    @property
    def cosine(self) -> float | None:
        """Cosine of the angle between both; None where one of them is all zero."""
        return self.product / math.sqrt(self.own * self.other) if self.own > 0 and self.other > 0 else None

    @property
    def mean(self) -> float:
        """Mean of |W-Ŵ|."""
        return self.absolute / self.count if self.count else 0.0


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None if part > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be measured.

    Attributes:
        tensor: W.
        other: Ŵ, a tensor of the same shape; None: W itself, there and back through ``through``.
        through: a tensor type that our own quantiser makes of W.
        importance: f32 importances as bytes, one for each column, or for each column of each expert.
        most: weights to look at, whole rows spread over the tensor; None: all.
    """

    tensor: Tensor
    other: Tensor | None = None
    through: str | None = None
    importance: bytes | None = None
    most: int | None = None


def distance(
    tensor: Tensor,
    other: Tensor | str,
    *,
    importance: bytes | None = None,
    most: int | None = None,
    kernels: Kernels | None = None,
) -> Distance:
    """How far a tensor is from another, or from what a type would make of it.

    Args:
        tensor: W.
        other: a tensor of the same shape, or a type by name, which our own quantiser makes.
        importance: see `Job`; also what the quantiser is told.
        most: weights to look at; None: all.
        kernels: from `gguftool.build.kernels.find`.

    Raises:
        FormatError: see `distances`.
    """
    job = (
        Job(tensor, None, other, importance, most)
        if isinstance(other, str)
        else Job(tensor, other, None, importance, most)
    )
    (found,) = distances([job], kernels)
    if isinstance(found, FormatError):
        raise found
    return found


def distances(
    jobs: Iterable[Job], kernels: Kernels | None = None, *, threads: int = 0, tell: Callable[[Job], None] | None = None
) -> Iterator[Distance | FormatError]:
    """The answers to many jobs, in their order; all cores, memory of a few slabs.

    A job whose data cannot be read, is no numbers, or holds NaN or infinity is answered with the error.

    Args:
        jobs: what to measure; asked for as the work goes on.
        kernels: from `gguftool.build.kernels.find`.
        threads: 0 for one per core.
        tell: called with each job when it is begun.
    """
    use = kernels or find()
    count = threads or processors()
    pool = ThreadPoolExecutor(count, "distance")
    total: Distance | FormatError = Distance()
    try:
        for piece in _delayed(_pieces(jobs, pool, use, tell), 2 * count):
            if piece is None:
                yield total
                total = Distance()
            else:
                total = _plus(total, piece)
    finally:
        pool.shutdown(cancel_futures=True)


_Piece = Future[Distance] | FormatError | None


def _delayed(pieces: Iterable[_Piece], behind: int) -> Iterator[_Piece]:
    """The same, as many later: so many are worked on while one is waited for."""
    waiting: deque[_Piece] = deque()
    for piece in pieces:
        waiting.append(piece)
        if len(waiting) > behind:
            yield waiting.popleft()
    yield from waiting


def _pieces(
    jobs: Iterable[Job], pool: ThreadPoolExecutor, kernels: Kernels, tell: Callable[[Job], None] | None
) -> Iterator[_Piece]:
    """The slabs of each job on their way, and None behind its last."""
    for job in jobs:
        if tell:
            tell(job)
        try:
            for slab in _slabs(job):
                yield pool.submit(_measure, kernels, job, *slab)
        except FormatError as error:
            yield error
        yield None


def _plus(total: Distance | FormatError, piece: Future[Distance] | FormatError) -> Distance | FormatError:
    """The sum as it goes on; the first error stays."""
    if isinstance(total, FormatError):
        return total
    if isinstance(piece, FormatError):
        return piece
    try:
        return total + piece.result()
    except FormatError as error:
        return error


_Slab = tuple[bytes, "bytes | None", int, int, "bytes | None"]
"""Data of both sides, rows, elements of a row, importances of a row."""


def _slabs(job: Job) -> Iterator[_Slab]:
    tensor, dims = job.tensor, job.tensor.shape or (1,)
    width = max(1, dims[0])
    rows = tensor.info.elements // width
    per_expert = dims[1] if len(dims) > 2 else rows
    if job.importance is not None and len(job.importance) % (4 * width):
        raise FormatError(f"{tensor.name}: the importance matrix has another width", key=tensor.name)
    sides = [_row_bytes(t, width) for t in (tensor, job.other) if t is not None]
    size = max(1, SLAB // width)
    chosen = _spread(rows, per_expert, size, max(1, job.most // width) if job.most else rows)
    for first, count in chosen:
        data = [read(t, first * n, count * n) for t, n in zip((tensor, job.other), sides, strict=False) if t]
        weights = _importances(job.importance, first // per_expert, width)
        yield data[0], data[1] if len(data) > 1 else None, count, width, weights


def _importances(all_of_them: bytes | None, expert: int, width: int) -> bytes | None:
    if all_of_them is None:
        return None
    at = expert * width * 4 if len(all_of_them) > width * 4 else 0
    return all_of_them[at : at + width * 4]


def _spread(rows: int, per_expert: int, size: int, wanted: int) -> Iterator[tuple[int, int]]:
    """First row and number of rows of each slab; no slab goes over the border of an expert."""
    if wanted < rows:
        pieces = min(8, wanted)
        each = wanted // pieces
        starts = dict.fromkeys((rows - each) * i // max(1, pieces - 1) for i in range(pieces))
        for start in starts:
            yield start, max(1, min(each, per_expert - start % per_expert))
        return
    for begin in range(0, rows, max(1, per_expert)):
        for first in range(begin, begin + per_expert, size):
            yield first, min(size, begin + per_expert - first)


def _row_bytes(t: Tensor, width: int) -> int:
    """Bytes of a row of ``width`` weights.

    Raises:
        FormatError: nobody knows, or the data is not for us.
    """
    kind = t.info.type
    if kind is None or t.nbytes is None:
        raise FormatError(f"{t.type_name} is unknown", key=t.name)
    if t.part.header.big_endian:
        raise FormatError("big-endian data is not dequantised", key=t.name)
    if width % kind.block_size:
        raise FormatError(f"rows of {width} weights are not whole blocks of {kind.name}", key=t.name)
    return width // kind.block_size * kind.block_bytes


def read(t: Tensor, at: int, size: int) -> bytes:
    """Bytes of a tensor's data.

    Raises:
        FormatError: they pass the end of the file.
    """
    data = t.part.source.read_at(t.offset + at, size)
    if len(data) < size:
        raise FormatError(f"{t.name}: data passes the end of {t.part.name}", offset=t.offset + at, kind="truncated")
    return data


def _measure(
    kernels: Kernels, job: Job, one: bytes, two: bytes | None, rows: int, width: int, weights: bytes | None
) -> Distance:
    x = numbers(kernels, job.tensor, one, rows, width)
    if two is not None and job.other is not None:
        y = numbers(kernels, job.other, two, rows, width)
    else:
        y = _remade(kernels, job.tensor.type_name, job.through or "", one, rows, width, weights)
    return sums(x, y, width, weights)


def numbers(kernels: Kernels, t: Tensor, data: bytes, rows: int, width: int) -> Floats:
    """Whole rows of a tensor as float32, flat.

    Raises:
        FormatError: it cannot be turned into numbers, or holds NaN or infinity.
    """
    if t.type_name in kernels.reads:
        return _read_back(kernels, t.type_name, data, rows, width)
    return _finite(floats(t.info, data))


def _read_back(kernels: Kernels, type_name: str, data: bytes, rows: int, width: int) -> Floats:
    """A copy, for the kernels' own memory is only valid until their next call."""
    import numpy as np

    return _finite(np.frombuffer(kernels.convert(data, type_name, "F32", rows, width, None), "<f4").copy())


def _finite(x: Floats) -> Floats:
    import numpy as np

    if not np.isfinite(x).all():
        raise FormatError("holds NaN or infinity", kind="invalid-data")
    return x


def _remade(
    kernels: Kernels, source: str, new: str, data: bytes, rows: int, width: int, weights: bytes | None
) -> Floats:
    kind = TENSOR_TYPE_BY_NAME[new]
    if width % kind.block_size:
        raise FormatError(f"rows of {width} weights are not whole blocks of {new}")
    if weights is None and new in NO_WAY_WITHOUT:
        raise FormatError(f"{new} is not made without an importance matrix")
    made = bytes(kernels.convert(data, source, new, rows, width, weights))
    return _read_back(kernels, new, made, rows, width)


def sums(x: Floats, y: Floats, width: int, weights: bytes | None = None) -> Distance:
    """The sums of two arrays of float32 of one size, rows of ``width``; added up in double precision."""
    import numpy as np

    def dot(one: Floats, two: Floats) -> float:
        # Not by BLAS, whose own threads wait for one another where all cores have work.
        return float(np.einsum("i,i->", one, two))

    def weigh(one: Floats) -> float:
        by = np.frombuffer(weights or b"", "<f4").astype(np.float64)
        return float(np.einsum("ij,ij,j->", *2 * (one.reshape(-1, width),), by)) if weights else 0.0

    a, b = x.astype(np.float64), y.astype(np.float64)
    own, other, product, weighed_own = dot(a, a), dot(b, b), dot(a, b), weigh(a)
    a -= b
    squares, weighed = dot(a, a), weigh(a)
    np.abs(a, out=a)
    return Distance(
        len(a), squares, own, other, product, float(a.sum()), float(a.max(initial=0.0)), weighed, weighed_own
    )
