"""Verify, split and merge as one call of the library each."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gguftool.errors import Unreadable, UsageError
from gguftool.hub import file_of, is_remote, named, opened
from gguftool.model.headers import Headers
from gguftool.verify import bytesplit, names
from gguftool.verify.deep import MANIFEST, expectations, with_data, with_hashes
from gguftool.verify.manifest import write
from gguftool.verify.modelcheck import check
from gguftool.verify.names import Renaming
from gguftool.verify.repair import Repaired, repair_all
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
        against: SHA256SUMS files, manifests, LFS pointers, ``hf://owner/repo`` to compare with.
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
    parts = () if isinstance(model, (str, os.PathLike)) else model.parts
    sources, known = {part.name: part.source for part in parts}, Headers(parts)
    result = check(file_of(model) if isinstance(model, (str, os.PathLike)) else model, (), known)
    if hash or sha256 is not None or against:
        expected = expectations(result.files, sha256, [os.fspath(name) for name in against])
        [result], _ = with_hashes(
            [result], expected, sources=sources, strict=bool(against), progress=progress, known=known
        )
    if data:
        [result] = with_data([result], sources=sources, progress=progress, known=known)
    return result


def repair(
    model: Model | str | os.PathLike[str],
    donor: Model | str | os.PathLike[str],
    *,
    sha256: str | None = None,
    against: Sequence[str | os.PathLike[str]] = (),
    progress: Progress | None = None,
) -> list[Repaired]:
    """Mend the files of a model with bytes of another copy; only those that are wrong are read from it.

    A copy beside each file is patched, proven by its hashes, and put in its place in one step.

    Args:
        model: a path, or an open model; of a shard set every file is mended.
        donor: the other copy, by path, address or open model.
        sha256: the hash the file must have.
        against: SHA256SUMS files, manifests, ``hf://owner/repo``: what the files must be.
        progress: called with the bytes done, from several threads.

    Returns:
        What was done; empty when nothing was wrong. Without any hash to compare with only the size tells.

    Raises:
        Refused: the file may not be replaced, or what came out is not what it should be.
        UsageError: nothing says which bytes are wrong, and the other copy is far away.
        FormatError, ToolFailed, NoRoom: as for `gguftool.verify.repair.repair`.
    """
    results = [check(file_of(model))]
    expected = expectations(results[0].files, sha256, [os.fspath(name) for name in against])
    results, _ = with_hashes(results, expected, strict=bool(against), progress=progress)
    with opened(donor) as other:
        return repair_all(results, expected, other, progress)


def write_manifest(
    model: Model | str | os.PathLike[str], output: str | os.PathLike[str], *, progress: Progress | None = None
) -> None:
    """Hash a model and all its tensors into a manifest, which `verify` and `repair` compare with.

    Args:
        model: a path, or an open model; of a shard set every file is in it.
        output: the manifest; an older one under that name is replaced.
        progress: called with the bytes done, from several threads.

    Raises:
        Refused: something else has that name.
        Unreadable: a file could not be read whole.
    """
    checked, found = with_hashes([check(file_of(model))], {}, want=MANIFEST, progress=progress)
    unread = [report.path for result in checked for report in result.files if report.path not in found]
    if unread:
        raise Unreadable(f"{unread[0]}: could not be read whole; no manifest was written")
    write(os.fspath(output), found.values())


def rename_shards(
    model: Model | str | os.PathLike[str],
    *,
    prefix: str | None = None,
    folder: str | None = None,
    dry_run: bool = False,
) -> Renaming:
    """Give the shards of a set the names that llama.cpp looks for, by what is in them.

    Args:
        model: any shard, or the set as an open model.
        prefix: what the names start with; taken from the names there are when None.
        folder: make links there instead of renaming.
        dry_run: only say what would be done.

    Raises:
        UsageError: it is no shard, or the shards lie in several folders.
        Refused: a name is taken by a file that is not of this set.
    """
    found = check(file_of(model)).set
    if found is None:
        raise UsageError(f"{named(model)}: is not a shard")
    renaming = names.plan(found, prefix=prefix, folder=folder)
    if renaming.pairs and not dry_run:
        names.apply(renaming)
    return renaming


def join(piece: str | os.PathLike[str], output: str | os.PathLike[str], *, progress: Progress | None = None) -> int:
    """Put the raw pieces of a file (``.part1of2``, ``-split-aa``) together; see `gguftool.verify.bytesplit.join`.

    Args:
        piece: any of the pieces.
        output: the whole file.
        progress: called with the bytes done since the last call.

    Returns:
        Its length in bytes.

    Raises:
        UsageError: it is no such piece.
        FormatError: a piece is missing, or the sizes do not fit the header.
        Refused, NoRoom: the output exists, or has no room.
    """
    return bytesplit.join(bytesplit.of_piece(os.fspath(piece)), os.fspath(output), progress)


def split(
    model: Model | str | os.PathLike[str],
    prefix: str,
    *,
    max_size: int | None = None,
    max_tensors: int | None = None,
    metadata_first: bool = False,
    progress: Progress | None = None,
) -> list[Written]:
    """Split a model into files ``prefix-00001-of-0000N.gguf`` without loss; every one is read back.

    Args:
        model: a path, an address whose file is here, or an open model.
        prefix: of the files' names.
        max_size: most bytes of a file, its header included; a larger tensor gets a file of its own.
        max_tensors: most tensors in a file; this or ``max_size``.
        metadata_first: no tensors in the first file.
        progress: called with the bytes done so far in this step.

    Raises:
        UsageError: no limit or two, or nothing to split.
        FormatError: the model is not whole.
        Refused: a name is taken.
        NoRoom: not enough space.
        ChangedMeanwhile, Unreadable: a read failed, or what was written reads back differently.
    """
    from gguftool.model import open_model

    with open_model(file_of(model)) as source:
        plans = plan_split(source, prefix, max_size=max_size, max_tensors=max_tensors, metadata_first=metadata_first)
        return write_all(plans, progress)


def merge(
    *shards: Model | str | os.PathLike[str],
    output: str | os.PathLike[str],
    allow_foreign: bool = False,
    progress: Progress | None = None,
) -> Written:
    """Join the shards of a set into one new file without loss; it is read back.

    Args:
        shards: one of them, the others are looked for in its folder; several; or the folder of a set.
        output: the file to write.
        allow_foreign: take a set whose shards do not fit each other.
        progress: called with the bytes done so far in this step.

    Raises:
        UsageError: a whole model, or shards of different sets.
        FormatError: a shard is missing or damaged, or they do not have one byte order and version.
        Refused: a shard that is not of the same model or quantisation, two files for one number, or the name is taken.
        NoRoom: not enough space.
        ChangedMeanwhile, Unreadable: a read failed, or what was written reads back differently.
    """
    with open_set([file_of(s) for s in shards], allow_foreign=allow_foreign) as source:
        return write_all([plan_merge(source, os.fspath(output))], progress)[0]
