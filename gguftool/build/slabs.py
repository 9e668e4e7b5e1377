"""What the built-in quantiser does with a tensor: rows are read, checked, converted and written, a slab at a time.

What was written is read back at once and judged as it stands in the file: while it is in the processor's cache that
costs next to nothing, and nobody has to read the whole result again before it gets its name. It runs in the child of
`gguftool.build.rowworker`; nothing here knows plans or models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gguftool.build.kernels import Kernels
from gguftool.errors import ChangedMeanwhile, FormatError
from gguftool.files.disk import write_at
from gguftool.format.types import TENSOR_TYPE_BY_NAME
from gguftool.records import dataclass
from gguftool.source import LocalFile
from gguftool.verify.pages import Run, equal_pages

SLAB = 1 << 20
"""Elements converted at a time by one thread: 4 MiB as f32."""


@dataclass(frozen=True, slots=True)
class Task:
    """One tensor to convert, or to copy where both types are one.

    Attributes:
        name: what messages call it.
        source, at: number of the file it is read from, and the offset of its data there, in bytes.
        dims: elements, fastest running first.
        old, new: tensor types.
        output, to: number of the file it is written to, and the offset there, in bytes.
        weights: its importances, as (start, bytes) of all of them; None where there are none.
    """

    name: str
    source: int
    at: int
    dims: tuple[int, ...]
    old: str
    new: str
    output: int
    to: int
    weights: tuple[int, int] | None = None

    def row(self) -> list[Any]:
        """The task as JSON."""
        return [getattr(self, name) for name in self.__slots__]

    @classmethod
    def of(cls, row: Sequence[Any]) -> Task:
        """The task that `row` was made of."""
        name, source, at, dims, old, new, output, to, weights = row
        return cls(name, source, at, tuple(dims), old, new, output, to, tuple(weights) if weights else None)


@dataclass(frozen=True, slots=True)
class Slab:
    """Rows ``row .. row + rows`` of a task; ``expert`` picks the slice of its importances."""

    task: Task
    number: int
    row: int
    rows: int
    expert: int

    @property
    def place(self) -> str:
        """The tensor and the rows, for messages."""
        last = self.row + self.rows - 1
        return f"{self.task.name}, " + (f"rows {self.row} to {last}" if last > self.row else f"row {self.row}")


def slabs(tasks: Sequence[Task]) -> Iterator[Slab]:
    """All tasks in pieces, in order; none goes over the border of an expert, whose importances are its own."""
    for number, task in enumerate(tasks):
        width, per_expert, *more = (*task.dims, 1, 1)[: max(2, len(task.dims))]
        experts = 1
        for n in more:
            experts *= n
        size = max(1, SLAB // max(1, width))
        for expert in range(experts if width else 0):
            for first in range(0, per_expert, size):
                yield Slab(task, number, expert * per_expert + first, min(size, per_expert - first), expert)


class Room:
    """Memory of one thread for the bytes of files, kept from slab to slab: new pages for each cost more than a read."""

    def __init__(self) -> None:
        self._buffer = memoryview(bytearray())

    def of(self, n: int) -> memoryview:
        """``n`` bytes; what was in them is gone."""
        if n > len(self._buffer):
            self._buffer = memoryview(bytearray(n))
        return self._buffer[:n]


def work(
    slab: Slab,
    sources: Sequence[LocalFile],
    outputs: Sequence[LocalFile],
    kernels: Kernels,
    importances: Mapping[int, memoryview],
    room: Room,
) -> tuple[int, list[Run]]:
    """Do one slab.

    Args:
        slab: which.
        sources: files by number.
        outputs: files by number, open for reading and writing.
        kernels: what converts.
        importances: f32 values by number of the task, as bytes.
        room: of this thread.

    Returns:
        Bytes of the source that are done, and runs of equal pages in the result (`gguftool.verify.pages`).

    Raises:
        FormatError: the data ends early, is not finite, or what came of it is not.
        OSError: it cannot be written.
        Unreadable, ChangedMeanwhile: it cannot be read, or not read back.
    """
    task, width = slab.task, (slab.task.dims or (1,))[0]
    old, new = TENSOR_TYPE_BY_NAME[task.old], TENSOR_TYPE_BY_NAME[task.new]
    row_bytes = width // old.block_size * old.block_bytes
    source, size = sources[task.source], slab.rows * row_bytes
    data = room.of(size)
    if source.read_into(data, task.at + slab.row * row_bytes) != size:
        raise FormatError(f"{source.name}: the data of {task.name} ends early", key=task.name, kind="truncated")
    # llama-quantize looks at all that it reads, what it only copies as well (`llama_model_loader::load_data_range`).
    if not kernels.valid(task.old, data):
        raise FormatError(
            f"{slab.place}: the source data ({task.old}) holds NaN or infinity", key=task.name, kind="invalid-data"
        )
    made: bytes | memoryview = data
    if task.old != task.new:
        found = importances.get(slab.number)
        weights = bytes(found[slab.expert * width * 4 : (slab.expert + 1) * width * 4]) if found is not None else None
        made = kernels.convert(data, task.old, task.new, slab.rows, width, weights)
    output, to = outputs[task.output], task.to + slab.row * (width // new.block_size * new.block_bytes)
    write_at(output.descriptor, to, made)
    written = room.of(len(made))
    if output.read_into(written, to) != len(written):
        raise ChangedMeanwhile(f"{output.name}: became shorter while it was written")
    if not kernels.valid(task.new, written):
        raise FormatError(
            f"{slab.place}: quantising to {task.new} gave invalid values", key=task.name, kind="invalid-result"
        )
    return size, equal_pages(written, to)
