"""Write an importance matrix in either form, as llama-imatrix writes it (`imatrix.cpp:save_imatrix`, b11434)."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gguftool.build.imatrix.matrix import CHUNK_SIZE, Entry, Matrix
from gguftool.build.imatrix.statistics import SCHEMA, tensor_statistics
from gguftool.errors import Refused
from gguftool.files.attributes import ANYBODY, Readers
from gguftool.files.disk import check_room
from gguftool.files.draft import Draft
from gguftool.format.header import TensorInfo, align
from gguftool.format.render import make_tensor_info, padding, render_parts
from gguftool.format.types import DEFAULT_ALIGNMENT, Layout
from gguftool.format.values import make_field
from gguftool.model.imatrix import CHUNK, CHUNKS, COUNTS, DATASETS, NEXTN, SQUARES, SUMS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMS = ("gguf", "dat")
SCHEMA_KEY, STATS = "imatrix.stats_schema", ".stats"
_F32 = 0


def save(
    path: str, matrix: Matrix, form: str = "gguf", *, overwrite: bool = False, readers: Readers = ANYBODY
) -> tuple[str, ...]:
    """Write a matrix; the file has its name only when it is whole.

    Args:
        path: of the new file.
        matrix: counts in tokens, as `gguftool.build.imatrix.merge` gives it.
        form: one of `FORMS`.
        overwrite: replace an existing file.
        readers: who may read it.

    Returns:
        What the form cannot hold.

    Raises:
        Refused: the name is taken, or there is nothing to write.
        NoRoom, MissingFile: it cannot be written.
    """
    notes: tuple[str, ...] = ()
    parts: list[bytes] = list(_dat(matrix) if form == "dat" else _gguf(matrix))
    if form == "dat":
        notes = _lost(matrix)
    with Draft(path, overwrite=overwrite, can_overwrite=True, readers=readers) as draft:
        check_room(os.path.dirname(path), sum(map(len, parts)))
        for part in parts:
            draft.write(part)
        draft.publish()
    return notes


def _ordered(matrix: Matrix) -> list[tuple[str, Entry]]:
    return sorted(matrix.entries.items(), key=lambda item: item[0].encode("utf-8", "surrogateescape"))


def _gguf(matrix: Matrix) -> Iterator[bytes]:
    """Header and data of the GGUF form."""
    import numpy as np

    layout = Layout()
    fields = [
        make_field("general.type", "str", "imatrix"),
        make_field(DATASETS, "[str]", list(matrix.datasets)),
        make_field(CHUNKS, "u32", min(matrix.chunks, 2**31 - 1)),
        make_field(CHUNK, "u32", matrix.chunk_size or CHUNK_SIZE),
        *([make_field(NEXTN, "u32", matrix.nextn)] if matrix.nextn else []),
        make_field(SCHEMA_KEY, "[str]", list(SCHEMA)),
    ]
    figures = {one.name: one.row for one in tensor_statistics(matrix)}
    infos: list[TensorInfo] = []
    data: list[NDArray[np.float32]] = []
    at = 0
    for name, entry in _ordered(matrix):
        tensors = [(SQUARES, entry.rows), (COUNTS, entry.counts.reshape(-1, 1)), (SUMS, entry.sums)]
        with np.errstate(all="ignore"):
            tensors.append((STATS, np.array(figures.get(name, [0.0] * len(SCHEMA)))))
            for end, values in tensors:
                if values is None:
                    continue
                raw = np.ascontiguousarray(values, "<f4")
                # ggml has no last dimension of 1.
                shape = [n for i, n in enumerate(reversed(raw.shape)) if n != 1 or not i]
                infos.append(make_tensor_info(name + end, shape, _F32, at, layout))
                data.append(raw)
                at += align(raw.nbytes, DEFAULT_ALIGNMENT)
    head = render_parts(layout, fields, infos)
    yield head
    yield padding(len(head), DEFAULT_ALIGNMENT)
    for raw in data:
        yield raw.tobytes()
        yield padding(raw.nbytes, DEFAULT_ALIGNMENT)


def _dat(matrix: Matrix) -> Iterator[bytes]:
    """The older form: mean squares times chunks, 1 for what was never seen."""
    import numpy as np

    size = matrix.chunk_size or CHUNK_SIZE
    kept = [(name, entry) for name, entry in _ordered(matrix) if (entry.counts != 0).any() and entry.elements]
    if not kept:
        raise Refused("no tensor of the matrix has data, and the older form holds no others")
    yield struct.pack("<i", len(kept))
    for name, entry in kept:
        raw = name.encode("utf-8", "surrogateescape")
        calls = max(0, min(-(-int(entry.counts.max()) // size), 2**31 - 1))
        with np.errstate(all="ignore"):
            counts = entry.counts.astype(np.float32)[:, None]
            means = np.where(counts == 0, np.float32(1), entry.rows / np.where(counts == 0, np.float32(1), counts))
            values = (means * np.float32(calls)).astype("<f4")
        yield struct.pack("<i", len(raw)) + raw + struct.pack("<ii", calls, values.size) + values.tobytes()
    last = matrix.datasets[-1].encode("utf-8", "surrogateescape") if matrix.datasets else b""
    yield struct.pack("<ii", min(matrix.chunks, 2**31 - 1), len(last)) + last


def _lost(matrix: Matrix) -> tuple[str, ...]:
    """What the older form leaves out."""
    notes = []
    unseen = sum(int((entry.counts == 0).sum()) for entry in matrix.entries.values() if (entry.counts != 0).any())
    empty = sum(not (entry.counts != 0).any() for entry in matrix.entries.values())
    if any(entry.sums is not None for entry in matrix.entries.values()):
        notes.append("the older form has no plain sums: they are left out")
    if unseen:
        notes.append(
            f"the older form does not tell that {unseen:,} experts saw no token: their importances are 1 there"
        )
    if empty:
        notes.append(f"{empty:,} tensors without data are left out, as llama-imatrix does")
    if len(matrix.datasets) > 1:
        notes.append(f"the older form names one text: {matrix.datasets[-1]}")
    return tuple(notes)
