"""An importance matrix: what it was measured on, and which tensors and layers it knows.

Source: `imatrix.cpp:save_imatrix` and `imatrix-loader.cpp:common_imatrix_load` (b11434): ``NAME.in_sum2`` and
``NAME.counts``, the latter one number for each matrix, so one for each expert.
"""

from __future__ import annotations

import struct

from gguftool.errors import GgufToolError
from gguftool.format.header import MANY
from gguftool.format.types import STR
from gguftool.model.about.fact import Facts, facts_of
from gguftool.model.about.strange import number
from gguftool.model.model import Model
from gguftool.model.part import Tensor
from gguftool.regex import regex
from gguftool.source import Memory

_BLOCK = regex(r"blk\.(\d{1,18})\.")
_PATH = 1 << 12
"""Bytes of the name of a data set that are shown; no path is longer on Linux."""
_MOST = 4 << 20
"""Bytes of counts that are read; a matrix over 500 tensors of 512 experts has 1 MiB of them."""


def about(m: Model) -> Facts:
    """Data sets, chunks, coverage, and what was never reached. Reads the counts of a file that lies here."""
    datasets = m.fields.get("imatrix.datasets")
    named = datasets.head(MANY, most=_PATH) if datasets and datasets.element_type == STR else None
    measured = [name.removesuffix(".in_sum2") for name in m.tensors if name.endswith(".in_sum2")]
    without = [name for name in measured if f"{name}.counts" not in m.tensors]
    zero, experts = _never(m)
    blocks = sorted({int(found[1]) for name in measured if (found := _BLOCK.match(name))})
    return facts_of(
        ("data sets", tuple(map(str, named)) if named is not None else None),
        ("chunks", number(m, "imatrix.chunk_count")),
        ("tokens a chunk", number(m, "imatrix.chunk_size")),
        ("tensors measured", len(measured)),
        ("layers", spans(blocks)),
        ("beside the layers", tuple(name for name in measured if not _BLOCK.match(name))),
        ("without counts", tuple(without)),
        ("never reached", zero),
        ("experts never reached", experts or None),
    )


def _never(m: Model) -> tuple[tuple[str, ...], int]:
    """Tensors without a single token, and experts without one in the others."""
    zero: list[str] = []
    experts = left = 0
    for name, tensor in m.tensors.items():
        if not name.endswith(".counts") or not _here(tensor):
            continue
        left += tensor.nbytes or 0
        if left > _MOST:
            break
        try:
            counts = struct.unpack(f"{tensor.part.header.layout.order}{tensor.info.elements}f", tensor.read())
        except (GgufToolError, struct.error):
            continue
        idle = sum(n == 0 for n in counts)
        if idle == len(counts):
            zero.append(name.removesuffix(".counts"))
        else:
            experts += idle
    return tuple(zero), experts


def _here(tensor: Tensor) -> bool:
    """On this machine: one request for each tensor is too many for a server."""
    return tensor.part.path is not None or isinstance(tensor.part.source, Memory)


def spans(numbers: list[int]) -> str:
    """Rising numbers as people read them: ``0–11, 14``."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in runs)
