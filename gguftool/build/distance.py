"""How far the weights of a tensor are from others: of another file, or of a type that our own quantiser makes of them.

The one home of these figures: `gguftool diff --data`, `quant-test` and `mix` ask here. Data is read in slabs of rows by
the caller's thread and worked on by all cores (`pieces.py`: ggml's kernels in a child), so memory stays the same
however large a tensor is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from gguftool.build.apart import Distance, Piece
from gguftool.build.kernels import Kernels, find
from gguftool.build.pieces import Answer, Worker, worker
from gguftool.errors import FormatError
from gguftool.model.part import Tensor
from gguftool.processors import processors
from gguftool.records import dataclass

SLAB = 1 << 20
"""Elements worked on at a time by one thread: 4 MiB as f32, each side."""


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
    count = threads or processors()
    total: Distance | FormatError = Distance()
    with worker(kernels or find(), count) as by:
        for piece in _delayed(_pieces(jobs, by, tell), 2 * count):
            if piece is None:
                yield total
                total = Distance()
            else:
                total = _plus(total, piece)


_Begun = Answer | FormatError | None


def _delayed(pieces: Iterable[_Begun], behind: int) -> Iterator[_Begun]:
    """The same, as many later: so many are worked on while one is waited for."""
    waiting: deque[_Begun] = deque()
    for piece in pieces:
        waiting.append(piece)
        if len(waiting) > behind:
            yield waiting.popleft()
    yield from waiting


def _pieces(jobs: Iterable[Job], by: Worker, tell: Callable[[Job], None] | None) -> Iterator[_Begun]:
    """The slabs of each job on their way, and None behind its last."""
    for job in jobs:
        if tell:
            tell(job)
        batch: list[Piece] = []
        held = 0
        failed: FormatError | None = None
        try:
            for piece in _slabs(job):
                size = piece.rows * piece.width
                if batch and held + size > SLAB:
                    yield by.begin(batch)
                    batch, held = [], 0
                batch.append(piece)
                held += size
        except FormatError as error:
            failed = error
        if batch:
            yield by.begin(batch)
        if failed is not None:
            yield failed
        yield None


def _plus(total: Distance | FormatError, piece: Answer | FormatError) -> Distance | FormatError:
    """The sum as it goes on; the first error stays."""
    if isinstance(total, FormatError):
        return total
    if isinstance(piece, FormatError):
        return piece
    try:
        for more in piece():
            total += more
        return total
    except FormatError as error:
        return error


def _slabs(job: Job) -> Iterator[Piece]:
    other = job.other.info if job.other else None
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
        second = data[1] if len(data) > 1 else None
        yield Piece(tensor.info, data[0], other, second, job.through, count, width, weights)


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
