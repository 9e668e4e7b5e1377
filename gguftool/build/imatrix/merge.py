"""Matrices of one model put together: sums and counts are added, as ``llama-imatrix --in-file A --in-file B`` does."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gguftool.build.imatrix.matrix import CHUNK_SIZE, Entry, Matrix
from gguftool.errors import Refused, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def merge(matrices: Sequence[Matrix], chunk_size: int = 0) -> tuple[Matrix, tuple[str, ...]]:
    """Add matrices up; one alone comes back with the counts in tokens.

    Source: `imatrix.cpp:load_imatrix` (b11434), which adds in f32, in the order of the files.

    Args:
        matrices: in order; the first chunk size that is told counts.
        chunk_size: tokens of a chunk for files that do not tell, 0 for llama-imatrix's default.

    Returns:
        The sum, and what the user should know about it.

    Raises:
        UsageError: there is none.
        Refused: a tensor has another shape in one of them, or two of them have no tensor in common.
    """
    if not matrices:
        raise UsageError("no importance matrix to merge")
    found: dict[str, Entry] = {}
    size = nextn = 0
    notes: list[str] = []
    for m in matrices:
        if found and not found.keys() & m.entries.keys():
            raise Refused(
                f"{m.path} and {matrices[0].path} have no tensor in common: they are of different models",
                "merge matrices of one model",
            )
        if m.nextn and nextn and m.nextn != nextn:
            notes.append(f"{m.path} has {m.nextn} layers for further tokens, those before it {nextn}: {nextn} is kept")
        nextn = nextn or m.nextn
        if size and m.chunk_size and m.chunk_size != size:
            notes.append(
                f"{m.path} was measured in chunks of {m.chunk_size} tokens, the first in {size}: {size} is kept"
            )
        size = size or (0 if m.legacy else m.chunk_size)
        tokens = size or chunk_size or CHUNK_SIZE
        for name, entry in m.entries.items():
            found[name] = _added(found.get(name), _in_tokens(entry, tokens) if m.legacy else entry, name, m)
    size = size or chunk_size or CHUNK_SIZE
    missing = [name for name in found if any(name not in m.entries for m in matrices)]
    if missing:
        notes.append(f"{len(missing)} of {len(found)} tensors are not in all of them, for example {missing[0]}")
    real = [os.path.realpath(m.path) for m in matrices]
    if len(set(real)) < len(real):
        notes.append("a file is named twice and counts twice")
    datasets = tuple(text for m in matrices for text in m.datasets)
    return Matrix(found, datasets, chunks_of(found.values(), size), size, nextn), tuple(notes)


def chunks_of(entries: Iterable[Entry], size: int) -> int:
    """Chunks that the largest count comes to, rounded (`imatrix.cpp:rows_to_chunks`)."""
    most = max((int(e.counts.max()) for e in entries if len(e.counts)), default=0)
    return max(0, (most + size // 2) // size)


def _in_tokens(entry: Entry, tokens: int) -> Entry:
    """An entry of the older form, which counts chunks."""
    import numpy as np

    with np.errstate(all="ignore"):
        return Entry(entry.squares * np.float32(tokens), entry.counts * tokens)


def _added(old: Entry | None, new: Entry, name: str, of: Matrix) -> Entry:
    import numpy as np

    if old is None:
        return new
    if old.elements != new.elements:
        raise Refused(
            f"{of.path}: {name} has {new.elements:,} values, {old.elements:,} in those before it",
            "merge matrices of one model",
        )
    counts = _counts(old.counts, new.counts)
    if counts is None:
        raise Refused(
            f"{of.path}: {name} has {len(new.counts):,} experts, {len(old.counts):,} in those before it",
            "merge matrices of one model",
        )
    sums = None
    shape = (len(counts), -1)
    with np.errstate(all="ignore"):
        if old.sums is not None and new.sums is not None:
            sums = (old.sums.ravel() + new.sums.ravel()).reshape(shape)
        return Entry((old.squares.ravel() + new.squares.ravel()).reshape(shape), counts, sums)


def _counts(old: NDArray[np.int64], new: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The sum of the counts; one count of an older file stands for all experts."""
    if len(old) == len(new) or 1 in (len(old), len(new)):
        return old + new
    return None
