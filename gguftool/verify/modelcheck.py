"""One model checked as a whole: each of its files, and the set they form."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gguftool.errors import GgufToolError, Unreadable
from gguftool.format.header import Header
from gguftool.model import Model, Part
from gguftool.model.headers import Headers
from gguftool.model.role import ROLES, role, way_on, what_it_is
from gguftool.records import replace
from gguftool.shell import gguftool, path_word
from gguftool.source import Memory
from gguftool.verify import shards
from gguftool.verify.filecheck import examine, quick
from gguftool.verify.result import Fault, FileReport, SetReport, Verification

if TYPE_CHECKING:
    from gguftool.verify import bytesplit


def check(
    target: str | os.PathLike[str] | Model, extra: Iterable[str] = (), known: Headers | None = None
) -> Verification:
    """Check a file, or all files of the shard set it belongs to. Reads headers only.

    Args:
        target: a ``.gguf`` file or any shard of a set; or a model that is open already (a remote one).
        extra: further files that may belong to the set (by default the folder is searched).
        known: the header that is read is added here, for who reads the file once more.

    Raises:
        MissingFile, Unreadable: as `gguftool.verify.filecheck.quick`.
    """
    if isinstance(target, Model):
        return _of_model(target)
    path = os.fspath(target)
    report, header = examine(path, known)
    return _judged(path, report, header, extra, known=known)


def check_here(model: Model, path: str) -> Verification:
    """As `check` of a file of this machine that is open already: no header is read again, nor is it said what it is.

    Args:
        model: opened with ``strict=False``.
        path: which of its files was named.
    """
    own = next((part for part in model.parts if part.name == path), None)
    return (
        check(path)
        if own is None
        else _judged(path, quick(model if len(model.parts) == 1 else own), own.header, (), model)
    )


def _judged(
    path: str,
    report: FileReport,
    header: Header | None,
    extra: Iterable[str],
    model: Model | None = None,
    known: Headers | None = None,
) -> Verification:
    parts = model.parts if model is not None else ()
    if not report.ok:
        from gguftool.verify import bytesplit

        if (pieces := bytesplit.find(path)) is not None:
            return _of_pieces(report, pieces)
    if header is None:
        return Verification((report,))
    if any(fault.kind == "joined-files" for fault in report.faults):
        return Verification((report,))
    read = Headers(parts)
    found = shards.check(path, header, extra, read=read)
    if found is None:
        if model is not None:
            return Verification((report,))
        alone = Model((Part(path, Memory(b"", path, report.size), header),))
        return Verification((report.plus(notes=(*shards.leftover(header), *role_note(alone))),))
    opened = {part.name: part for part in parts}
    files = tuple(report if p == path else _quick(opened.get(p, p), read) for p in found.paths if p is not None)
    if known is not None:
        known.take(read)
    return Verification(files, found)


def _of_pieces(report: FileReport, pieces: bytesplit.Pieces) -> Verification:
    """A raw piece of a file: what is wrong with it alone says nothing."""
    name = os.path.basename(pieces.base)
    hint = None
    if pieces.missing:
        state = f"piece {', '.join(pieces.missing[:8])} is missing"
    elif pieces.whole:
        state = f"all are here, {pieces.size:,} bytes together as the header asks"
        hint = gguftool("verify", "--join", pieces.base, path_word(report.path))
    else:
        state = f"together they have {pieces.size:,} bytes, the header asks for {(pieces.expected or (0, 0))[0]:,}"
    message = f"a raw piece of {name}, no shard: {len(pieces.paths)} pieces found; {state}"
    fault = Fault("byte-split", message, "file", hint)
    return Verification((replace(report, faults=(fault,), error=None),), covers=pieces.paths)


def _quick(target: str | Part, read: Headers) -> FileReport:
    """As `quick`, for a file that is not the one asked for: what cannot be opened becomes its report."""
    try:
        return quick(target) if isinstance(target, Part) else examine(target, read)[0]
    except GgufToolError as error:
        return FileReport(target if isinstance(target, str) else target.name, error=error)


def _of_model(model: Model) -> Verification:
    """A model opened through an address: its parts are known, names do not matter."""
    files = tuple(quick(part) for part in model.parts)
    if model.shard_count <= 1:
        return Verification(tuple(report.plus(notes=role_note(model)) for report in files))
    numbered = {part.no: part for part in model.parts}
    paths = tuple(numbered[no].name if no in numbered else None for no in range(model.shard_count))
    faults = [
        Fault("shard-missing", f"shard {no} of {model.shard_count} is missing", f"shard:{no}")
        for no in model.missing_shards
    ]
    headers = {part.no + 1: part.header for part in model.parts if part.header.complete}
    from gguftool.verify.foreign import duplicates, foreign

    faults += duplicates(headers)
    odd, notes = foreign(headers)
    return Verification(files, SetReport(model.shard_count, paths, (*faults, *odd), tuple(notes)))


def role_note(model: Model) -> tuple[Fault, ...]:
    """What a whole file is when it is not a model that runs by itself; of one beside a model, whether it is taken."""
    own = role(model)
    if ROLES[own].runs:
        return ()
    from gguftool.predict import predict
    from gguftool.predict.stages import OTHERS
    from gguftool.predict.verdict import UNKNOWN

    note = Fault("role", f"the file is {what_it_is(model)}", hint=way_on(model))
    load = predict(model) if own in OTHERS else None
    if load is None or load.loads or load.verdict == UNKNOWN:
        return (note,)
    text = f"llama.cpp does not take it: {load.first_error}"
    return note, Fault("not-taken", text, load.where, gguftool("lint", path_word(model.name)))


def models_of(targets: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Paths to check one by one: folders opened, every set named once.

    Args:
        targets: files and folders.

    Returns:
        Pairs of a path and all given files, its shards perhaps among them. A folder stands for every ``.gguf`` file in
        it, its subfolders excluded; without any, for what is named like a shard or a raw piece.

    Raises:
        Unreadable: a folder that cannot be listed or holds no model.
    """
    files: list[str] = []
    for target in targets:
        if not os.path.isdir(target):
            files.append(target)
            continue
        from gguftool.model.folder import gguf_files
        from gguftool.model.pieces import piece_name

        found = gguf_files(target)
        # Raw pieces of a file lie in a folder without any model.
        found = found or [os.path.join(target, n) for n in sorted(os.listdir(target)) if piece_name(n)]
        if not found:
            raise Unreadable(f"{target}: no .gguf file in this folder", "name a file, or a folder that holds one")
        files += found
    unique = list(dict.fromkeys(files))
    return [(path, unique) for path in unique]
