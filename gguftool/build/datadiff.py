"""The tensor data of two models side by side: byte for byte, and how far the weights are apart where they differ.

Where the new file has a coarser type, the error is held against the one that our own quantiser makes of the same rows:
a tensor that was quantised twice, or is broken, is much worse than its type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gguftool.build.apart import Distance
from gguftool.build.distance import Job, distances, read
from gguftool.build.kernels import Kernels, find
from gguftool.errors import FormatError
from gguftool.model.compare import DataChange, Difference
from gguftool.model.model import Model
from gguftool.model.part import Tensor
from gguftool.records import replace

CHUNK = 16 << 20
"""Bytes of tensor data held at a time, each side, to see whether they are the same."""
SAMPLE = 1 << 18
"""Weights of a tensor that go through our own quantiser."""
ABORTING = ("IQ1_", "IQ2_", "IQ3_")
"""Types whose kernels end the process where weights are odd (`ggml-quants.c`, b11434): not tried here."""


def with_data(found: Difference, a: Model, b: Model, tell: Callable[[str], None] | None = None) -> Difference:
    """The same with what differs in the data of the tensors that both have in one shape.

    Args:
        found: from `gguftool.model.compare.compare`.
        a: the old model.
        b: the new one.
        tell: called with the name of each tensor that is begun.
    """
    both = [(t, b.tensors[t.name]) for t in a.tensors.values() if t.name in b.tensors]
    both = [(x, y) for x, y in both if x.shape == y.shape]
    return replace(found, data=tuple(data_changes(both, tell=tell)), compared=len(both))


def data_changes(
    pairs: list[tuple[Tensor, Tensor]], kernels: Kernels | None = None, tell: Callable[[str], None] | None = None
) -> Iterator[DataChange]:
    """One for each pair whose data differs, in order."""
    use = kernels or find()
    begun: list[tuple[Tensor, Tensor, bool] | DataChange] = []

    def jobs() -> Iterator[Job]:
        for x, y in pairs:
            if tell:
                tell(x.name)
            try:
                if _same(x, y):
                    continue
            except FormatError as error:
                begun.append(DataChange(x.name, None, None, None, str(error), x.type_name, y.type_name))
                continue
            ours = _comes_from(x, y, use)
            begun.append((x, y, ours))
            yield Job(x, y)
            if ours:
                yield Job(x, y, most=SAMPLE)
                yield Job(x, None, y.type_name, most=SAMPLE)

    answers = distances(jobs(), use)
    done = 0
    for first in answers:
        while isinstance(head := begun[done], DataChange):
            yield head
            done += 1
        x, y, ours = head
        done += 1
        beside = (next(answers), next(answers)) if ours else ()
        yield _change(x, y, first, *beside)
    yield from (x for x in begun[done:] if isinstance(x, DataChange))


def _change(x: Tensor, y: Tensor, all_of_it: Distance | FormatError, *beside: Distance | FormatError) -> DataChange:
    head = DataChange(x.name, old_type=x.type_name, new_type=y.type_name)
    if isinstance(all_of_it, FormatError):
        return replace(head, why=str(all_of_it) or "cannot be dequantised")
    found, expected = (d.relative if isinstance(d, Distance) else None for d in beside or (None, None))
    return replace(
        head, mean=all_of_it.mean, largest=all_of_it.largest, cosine=all_of_it.cosine, relative=all_of_it.relative,
        norm=all_of_it.own, expected=expected, found=found,
    )  # fmt: skip


def _comes_from(x: Tensor, y: Tensor, kernels: Kernels) -> bool:
    """Whether the new type may have been made of the old weights, by a kernel that we have."""
    old, new = x.info.type, y.info.type
    if old is None or new is None or new.name.startswith(ABORTING) or new.block_size == 1:
        return False
    finer = old.block_bytes * new.block_size > new.block_bytes * old.block_size
    return finer and new.name in kernels.writes and not (x.shape or (1,))[0] % new.block_size


def _same(a: Tensor, b: Tensor) -> bool:
    """Whether the data is the same, byte for byte.

    Raises:
        FormatError: nobody can tell, or what is there ends early.
    """
    if a.info.type_id != b.info.type_id or a.nbytes is None:
        return False
    for at in range(0, a.nbytes, CHUNK):
        size = min(CHUNK, a.nbytes - at)
        if read(a, at, size) != read(b, at, size):
            if a.part.header.big_endian != b.part.header.big_endian:
                raise FormatError("byte orders differ")
            return False
    return True
