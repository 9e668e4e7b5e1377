"""Take edits back, byte for byte, the newest first."""

from __future__ import annotations

import hashlib
import os

from gguftool import endings
from gguftool.brief import short_repr
from gguftool.edit.commit import abandon, commit, identity, plain
from gguftool.edit.commit import in_use as in_use_error
from gguftool.edit.fitted import Fit, Segment
from gguftool.edit.inuse import hold_alone
from gguftool.edit.job import Job
from gguftool.edit.journal import INSERTED, Record, pack, undo_path
from gguftool.edit.oslayer import OsLayer
from gguftool.edit.records import adopt, as_it_stands, numbered, record_at, undo_numbers
from gguftool.edit.steps import drop_journal, front_sha, half_done, poison, refuse_unfinished, take_journal
from gguftool.edit.target import check
from gguftool.edit.which import metadata_file
from gguftool.errors import Refused
from gguftool.files.disk import Progress, check_room
from gguftool.records import dataclass, replace

_AT_ONCE = 64 << 20
"""Bytes of a front that are read before it is known to be the one that a record speaks of, at most."""


@dataclass(frozen=True, slots=True)
class Undone:
    """One edit that was taken back.

    Attributes:
        path: the model file.
        number: of the undo record, which is gone now.
        record: of the edit.
        strategy: how it was taken back: ``patch``, ``collapse`` or ``rewrite``.
        left: undo records that are left.
        data_kept: something else has changed tensor data since, beside the header; that was left as it is.
    """

    path: str
    number: int
    record: Record
    strategy: str
    left: int
    data_kept: bool = False

    __repr__ = short_repr


def newest(path: str | os.PathLike[str], layer: OsLayer | None = None) -> tuple[int, Record]:
    """Number and record of the edit that `undo` would take back.

    Raises:
        Refused: there is none, or the file was changed by something else since.
    """
    number, record, _ = _newest(path, layer or OsLayer())
    return number, record


def _newest(path: str | os.PathLike[str], layer: OsLayer) -> tuple[int, Record, bytes | None]:
    """As `newest`, and the front of the file, where it was read as a whole: where it is likely to be asked for."""
    real = os.path.realpath(path)
    fd = layer.open(real, write=False)
    try:
        size = layer.fstat(fd).st_size
        damaged = 0
        for number in numbered(layer, real):
            record = record_at(layer, undo_path(real, number))
            if record is None:
                # Or no record at all: when one behind it fits, that is the newest.
                damaged = damaged or number
                continue
            if size == record.new_size:
                # Room that was inserted is taken out without a look at what stands behind it.
                whole = not record.shift and record.new_front <= _AT_ONCE
                front = layer.read(fd, 0, record.new_front) if whole else None
                sha = front_sha(layer, fd, record.new_front) if front is None else hashlib.sha256(front).hexdigest()
                if sha == record.new_sha:
                    return number, record, front
            if size == record.old_size and front_sha(layer, fd, record.old_front) == record.old_sha:
                continue  # taken back already; the record outlived it in a crash
            if damaged:
                break
            raise Refused(
                f"{path}: was changed by something else since the edit that would be undone; nothing was touched",
                f"if the file is good as it is, delete {undo_path(real, number)}",
            )
    finally:
        layer.close(fd)
    if damaged:
        raise Refused(
            f"{undo_path(real, damaged)}: is damaged, so it cannot be undone",
            "take the file again from where it came from; if it is good as it is, delete the record",
        )
    raise Refused(f"{path}: there is no edit to undo (no {os.path.basename(real)}-undo-N beside it)")


def undo(
    path: str | os.PathLike[str],
    *,
    in_use: str = "refuse",
    hard_links: str = "refuse",
    preserve_mtime: bool = False,
    progress: Progress | None = None,
    layer: OsLayer | None = None,
) -> Undone:
    """Take the last edit back: the file has the same bytes as before it.

    Args:
        path: the model file, any shard of a set, or a folder that holds one model.
        in_use: ``refuse``, or ``rewrite`` to write a new file while others have this one open.
        hard_links: ``refuse``, ``follow`` or ``break``.
        preserve_mtime: leave the time of last change as it was before this undo.
        progress: called with bytes done and bytes in all while data is copied.
        layer: the operating system.

    Raises:
        Refused: there is nothing to undo, the file was changed since, or it is not safe now.
        InterruptedEdit: an unfinished edit stands in the way, or the disk failed.
        NoRoom: not enough room for a copy, where one is needed.
    """
    path = os.fspath(path) if layer is not None else metadata_file(os.fspath(path))
    layer = layer or OsLayer()
    target = check(path, layer, hard_links=hard_links, force=True)
    refuse_unfinished(layer, target.real, path)
    if not undo_numbers(layer, target.real):
        adopt(layer, target.real)
    number, saved, front = _newest(path, layer)
    record = _as_it_stands(layer, target.real, saved)
    copy = in_use == "rewrite" or (hard_links == "break" and target.links > 1)
    collapsible = record.shift and _collapsible(layer, target.real, record)
    if (
        collapsible
        and not copy
        and _collapse(layer, target.real, number, identity(target.stat), record, preserve_mtime)
    ):
        strategy = "collapse"
    else:
        job = reverse(layer, target.real, number, record, target.stat, front)
        job = replace(job, in_use=in_use, preserve_mtime=preserve_mtime)
        if copy or record.strategy == "rewrite" or (record.shift and not collapsible):
            from gguftool.edit.choose import new_bytes

            folder = os.path.dirname(target.real)
            needed = new_bytes(job, layer, layer.can_clone(folder))
            check_room(folder, needed, what="a copy", free=layer.free_bytes(folder))
        strategy = take_back(layer, job, record, copy=copy or bool(record.shift), progress=progress)
    left = len(undo_numbers(layer, target.real))
    return Undone(target.real, number, record, strategy, left, record is not saved)


def _as_it_stands(layer: OsLayer, path: str, record: Record) -> Record:
    fd = layer.open(path, write=False)
    try:
        return as_it_stands(record, lambda offset, n: layer.read(fd, offset, n))
    finally:
        layer.close(fd)


def take_back(layer: OsLayer, job: Job, record: Record, *, copy: bool = False, progress: Progress | None = None) -> str:
    """Do the reverse edit and remove its undo record.

    Args:
        layer: the operating system.
        job: see `reverse`.
        record: the edit to take back.
        copy: write a new file also where it could be done in place.
        progress: for a copy.

    Returns:
        ``patch``, ``collapse`` or ``rewrite``.
    """
    in_place = record.strategy == "insert" and not copy and _collapsible(layer, job.path, record)
    if in_place and _collapse(layer, job.path, job.undo_of, job.identity, record, job.preserve_mtime):
        return "collapse"
    strategy = "patch" if record.strategy == "patch" and not copy else "rewrite"
    commit(replace(job, strategy=strategy), layer, progress)
    return strategy


def _collapsible(layer: OsLayer, path: str, record: Record) -> bool:
    """Whether the inserted room can be taken out in place."""
    from gguftool.edit.gaps import movable_path

    return bool(layer.insert_unit(os.path.dirname(path))) and movable_path(layer, path, record.new_front)


def reverse(
    layer: OsLayer, path: str, number: int, record: Record, now: os.stat_result, front: bytes | None = None
) -> Job:
    """The edit that leads from the new file back to the old one; ``front`` where it was read and its hash looked at."""
    fd = layer.open(path, write=False)
    try:
        current = layer.read(fd, 0, record.new_front) if front is None else front
        fronts: list[tuple[int, bytes | memoryview]] = []
        tail, segments = [], []
        for start, n, saved, new in record.pieces():
            # What lies in front of the data is written, what lies behind it stays where it is or is copied.
            here = max(0, min(n, record.old_front - start))
            if saved is None:
                there = new + here <= len(current)
                fronts.append((start, memoryview(current)[new : new + here] if there else layer.read(fd, new, here)))
                if here < n:
                    segments.append(Segment(new + here, start + here, n - here))
            else:
                fronts.append((start, memoryview(record.payload)[saved : saved + here]))
                if here < n:
                    tail.append((start + here, record.payload[saved + here : saved + n]))
    finally:
        layer.close(fd)
    fit = Fit(
        _joined(fronts, record.old_front), record.new_front, tuple(segments), record.old_size, False, 0, tuple(tail)
    )
    return Job(
        path=path,
        strategy="rewrite",
        fit=fit,
        old_front=current,
        identity=identity(now),
        undo_of=number,
        operations=tuple(f"undo: {line}" for line in record.operations),
        old_sha="" if front is None else record.new_sha,
    )


def _joined(parts: list[tuple[int, bytes | memoryview]], n: int) -> bytes:
    """Pieces by where each stands as ``n`` bytes, zeros between; they are many MB, and mostly stand back to back."""
    at = 0
    for start, part in parts:
        if start != at and len(part):
            break
        at += len(part)
    else:
        if at == n:
            return b"".join(part for _, part in parts)
    whole = bytearray(n)
    for start, part in parts:
        whole[start : start + len(part)] = part
    return bytes(whole)


def _collapse(
    layer: OsLayer, path: str, number: int, planned: tuple[int, ...], record: Record, preserve_mtime: bool
) -> bool:
    """Take the inserted room out in place, through the table of `gguftool.edit.recover`; False where that cannot be.

    Args:
        layer: the operating system.
        path: real path of the model, which is `_collapsible`.
        number: of the undo record.
        planned: the file that is meant, see `identity`.
        record: the edit to take back.
        preserve_mtime: set the time of last change back.
    """
    from gguftool.edit.gaps import movable_holes, moved_down
    from gguftool.edit.recover import settle

    try:
        journal = take_journal(layer, path)
    except OSError as error:
        raise plain(error, path) from error
    model = -1
    try:
        try:
            model = layer.open(path, write=True)
            layer.fsync(model)
            alone = hold_alone(layer, model, path)
            if alone is False:
                raise in_use_error(path)
            same = identity(layer.fstat(model)) == planned
            holes = movable_holes(layer, model, record.new_front)
            if alone is None or not same or holes is None:
                drop_journal(layer, path)
                return False
            # Those of now: what stood in them may have been written since, or more made.
            again = replace(record, undo_of=number, holes=moved_down(holes, record.shift))
            layer.pwrite(journal, 0, pack(again, INSERTED))
            layer.fsync(journal)
            layer.syncdir(os.path.dirname(path))
        except BaseException as error:
            abandon(layer, path)
            raise plain(error, path) from error
        with endings.deferred():
            try:
                poison(layer, model, path)
                settle(layer, path, model, journal, again, INSERTED)
                if preserve_mtime:
                    layer.set_mtime(path, planned[3])
            except OSError as error:
                raise half_done(error, path) from error
        return True
    finally:
        for fd in (model, journal):
            if fd >= 0:
                layer.close(fd)
