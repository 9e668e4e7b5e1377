"""The entries of an importance matrix, as its readers pair its tensors.

Of a weight ``NAME``: ``NAME.in_sum2``, the sums of squares, one number for each column of each expert; ``NAME.counts``,
one number for each expert; in some files ``NAME.in_sum``, the plain sums
(`imatrix-loader.cpp:common_imatrix_load`, b11434).
"""

from __future__ import annotations

from gguftool.brief import short_repr
from gguftool.format.header import TensorInfo
from gguftool.model.adapter import c_names
from gguftool.model.model import Model
from gguftool.records import dataclass

SQUARES, COUNTS, SUMS = ".in_sum2", ".counts", ".in_sum"
DATASETS, CHUNKS, CHUNK = "imatrix.datasets", "imatrix.chunk_count", "imatrix.chunk_size"
NEXTN = "imatrix.n_layer_nextn"


@dataclass(frozen=True, slots=True)
class Entry:
    """What was measured for one weight.

    Attributes:
        name: the weight.
        squares, counts: the two tensors that every entry needs; None for one that is not there.
        sums: the third, None in most files.
    """

    name: str
    squares: TensorInfo | None
    counts: TensorInfo | None
    sums: TensorInfo | None

    __repr__ = short_repr

    @property
    def paired(self) -> bool:
        """Squares and counts are there, and as many sums as squares, if any."""
        if self.squares is None or self.counts is None:
            return False
        return self.sums is None or self.sums.elements == self.squares.elements

    @property
    def first(self) -> str:
        """Name of a tensor of it that is there."""
        halves = ((self.squares, SQUARES), (self.counts, COUNTS), (self.sums, SUMS))
        return next((self.name + end for info, end in halves if info is not None), self.name)


def entries(m: Model) -> tuple[Entry, ...]:
    """The entries of a file, in llama.cpp's order: by the bytes of the name; other tensors are passed over."""
    found: dict[str, dict[str, TensorInfo]] = {}
    for name, info in c_names(m):
        end = next((end for end in (SUMS, SQUARES, COUNTS) if name.endswith(end)), "")
        if end:
            found.setdefault(name.removesuffix(end), {})[end] = info
    ordered = sorted(found, key=lambda name: name.encode("utf-8", "surrogateescape"))
    return tuple(Entry(n, found[n].get(SQUARES), found[n].get(COUNTS), found[n].get(SUMS)) for n in ordered)
