"""Verify, split and merge as one call of the library each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gguftool.hub import is_remote, opened
from gguftool.verify.deep import expectations, with_data, with_hashes
from gguftool.verify.modelcheck import check
from gguftool.verify.resplit import Written, open_set, plan_merge, plan_split, write_all
from gguftool.verify.result import Verification
from gguftool.verify.stream import Progress

if TYPE_CHECKING:
    from gguftool.model import Model


def verify(
    model: Model | str | os.PathLike[str],
    *,
    hash: bool = False,
    sha256: str | None = None,
    against: Sequence[str | os.PathLike[str]] = (),
    data: bool = False,
    progress: Progress | None = None,
) -> Verification:
    """Check one model: a file, or the whole set that a shard belongs to.

    Args:
        model: a path, an address, or a model opened with ``strict=False``.
        hash: hash the files and compare with what lies around them.
        sha256: the hash the file must have.
        against: SHA256SUMS files, manifests, LFS pointers to compare with.
        data: look for NaN, infinities and broken scales.
        progress: called with the bytes done, from several threads.

    Returns:
        The reports; ``ok`` says whether all is well.

    Raises:
        MissingFile, Unreadable: the file cannot be opened.
        UsageError: one hash for several files.
    """
    if is_remote(model):
        with opened(model) as m:
            return verify(m, hash=hash, sha256=sha256, against=against, data=data, progress=progress)
    result = check(model)
    sources = {} if isinstance(model, (str, os.PathLike)) else {part.name: part.source for part in model.parts}
    if hash or sha256 is not None or against:
        expected = expectations(result.files, sha256, [os.fspath(name) for name in against])
        [result], _ = with_hashes([result], expected, sources=sources, strict=bool(against), progress=progress)
    if data:
        [result] = with_data([result], sources=sources, progress=progress)
    return result


def split(
    model: str | os.PathLike[str],
    prefix: str,
    *,
    max_size: int | None = None,
    max_tensors: int | None = None,
    metadata_first: bool = False,
    progress: Progress | None = None,
) -> list[Written]:
    """Split a model into files ``prefix-00001-of-0000N.gguf``; see `gguftool.verify.resplit.plan_split`."""
    from gguftool.model import open_model

    with open_model(model) as opened:
        plans = plan_split(opened, prefix, max_size=max_size, max_tensors=max_tensors, metadata_first=metadata_first)
        return write_all(plans, progress)


def merge(
    *shards: str | os.PathLike[str],
    output: str | os.PathLike[str],
    allow_foreign: bool = False,
    progress: Progress | None = None,
) -> Written:
    """Join the shards of a set into one new file; one shard is enough. See `gguftool.verify.resplit.open_set`."""
    with open_set([os.fspath(s) for s in shards], allow_foreign=allow_foreign) as opened:
        return write_all([plan_merge(opened, os.fspath(output))], progress)[0]
