"""Where the bytes of a model are: every tensor, with its layer and what part of the model it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from gguftool.api.reported.values import Values
from gguftool.brief import short_repr
from gguftool.model import Model
from gguftool.model.bytemap import regions
from gguftool.model.kinds import block, kind
from gguftool.model.origin import stored_as
from gguftool.records import dataclass

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TensorRow:
    """One tensor.

    Attributes:
        name: as in the file.
        block: ``blk.7``, "" outside of any.
        kind: a word of `gguftool.model.kinds.KINDS`, or ``other``.
        type: as the program has it that the file was made for.
        shape: GGML order, fastest first.
        file: number of the file in the set, from 0.
        offset: of its data in that file, in bytes.
        bytes: of its data; None: the type is unknown.
        sha256: of its data; "": not asked, or the data is not there.
        values: what was found in it; None: not asked, or there is no way to read it.
    """

    name: str
    block: str
    kind: str
    type: str
    shape: tuple[int, ...]
    file: int
    offset: int
    bytes: int | None
    sha256: str = ""
    values: Values | None = None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Share:
    """What tensors of one name, kind or type hold together: how many, elements, bytes (of those of known size)."""

    name: str
    tensors: int
    elements: int
    bytes: int

    __repr__ = short_repr


Found = Mapping[tuple[int, str], T]
"""By number of the file and name of the tensor."""


def tensor_rows(
    m: Model, hashes: Found[str] | None = None, values: Found[Values] | None = None
) -> tuple[TensorRow, ...]:
    """Every tensor of a model, in file order.

    Args:
        m: the model; a broken one as far as it was read.
        hashes: sha256 of their data.
        values: what was found in their data.
    """
    out = []
    for t in m.all_tensors():
        type_name, nbytes = stored_as(m, t)
        at = (t.part.no, t.name)
        hashed, found = (hashes or {}).get(at, ""), (values or {}).get(at)
        place = t.part.no, t.offset, nbytes
        out.append(TensorRow(t.name, block(t.name), kind(t.name), type_name, t.shape, *place, hashed, found))
    return tuple(out)


def shares(rows: Iterable[TensorRow], field: str) -> tuple[Share, ...]:
    """The tensors by ``block``, ``kind`` or ``type``: blocks in the order of the file, the others by size."""
    sums: dict[str, list[int]] = {}
    for row in rows:
        one = sums.setdefault(getattr(row, field), [0, 0, 0])
        elements = 1
        for n in row.shape:
            elements *= n
        one[0] += 1
        one[1] += elements
        one[2] += row.bytes or 0
    found = [Share(name, *numbers) for name, numbers in sums.items()]
    return tuple(found if field == "block" else sorted(found, key=lambda s: (-s.bytes, s.name)))


def stretches(m: Model) -> tuple[Share, ...]:
    """What the bytes of all files are, tensors or not: bytes by kind of region (`gguftool.model.bytemap`)."""
    sums: dict[str, list[int]] = {}
    for part in m.parts:
        for region in regions(part):
            one = sums.setdefault(region.kind, [0, 0])
            one[0] += 1
            one[1] += region.size
    return tuple(Share(name, n, 0, size) for name, (n, size) in sums.items())
