"""After a crash: exactly the old file or exactly the new one.

What stands on the disk, and what is done (J the journal, F the model, T the file `rewrite` builds):

========  =================  =======  =================  ===============  =========================================
state     J                  F size   F[0:4]             how it arises    action
========  =================  =======  =================  ===============  =========================================
CLEAN     none               any      GGUF               normal           nothing
TORN      unreadable         any      GGUF               J was being made delete J; what is no beginning of one
                                                                          gets another name
DAMAGED   unreadable, none   any      not GGUF           J lost, rotten   stop, touch nothing
HOT       whole, phase 0     old      GGUF, old header   before poison    write it again, delete J
POISONED  whole, any phase   old      GGTX or anything   header half      write the saved bytes back, magic last
GAP       whole, phase 0     new      GGTX or zeros      around INSERT    find the hole that INSERT left, take it out
                                                                          (at the end: cut); then POISONED
INSERTED  whole, phase 1     new      not GGUF           header half      make the gap a hole again, phase := 2; GAP
ROLLBACK  whole, phase 2     new      zeros              in recovery      GAP
NEW       whole, phase 0, 1  new      GGUF, new header   at the end       write it again, J becomes an undo record
COPYING   whole, rewrite     old      GGUF, old header   T is being made  delete T and J
FOREIGN   whole              other    any                somebody else    stop, touch nothing
LOST      none               old, new not GGUF           J lost, and an   as POISONED to NEW, with the undo record as J
                                                         undo record fits
========  =================  =======  =================  ===============  =========================================

Why the gap can be found: the journal has the holes that the file had before (`gguftool.edit.gaps`). INSERT_RANGE is
not atomic when the power fails - the file may be longer with only its tail moved - but then exactly one hole of the
inserted length stands where moving stopped, or makes one that was there before longer. Nothing is written into the file
between the insertion and the phase mark, so the hole stays one.

Going back always goes to the smaller file: taking blocks out and overwriting existing ones cannot meet a full disk.
The first act is to sync the journal and its folder: one that is readable after a mere process crash may not survive the
power failure that follows. An `undo` of an insertion runs through the same table: it is a journal in phase 1.

**What is read is not what is on the disk.** A write that failed leaves pages in memory that the kernel calls clean:
every program reads them, the next sync says yes, and the disk has never seen them. So nothing is believed because it
was read: before a journal ends, what it was about is written once more - the poison, the part of the front that the
edit touches, the magic, with a wait behind each - and a poison or a phase that recovery goes by is written again, too.
A failure in the middle of that is POISONED: nothing is written that the saved bytes do not cover.
"""

from __future__ import annotations

import hashlib
import os

from gguftool.brief import short_repr
from gguftool.edit.gaps import find_gap
from gguftool.edit.journal import INSERTED, ROLLBACK, STARTED, Record, begun, pack, read, undo_path
from gguftool.edit.lost import Found, fitting
from gguftool.edit.oslayer import OsLayer
from gguftool.edit.records import as_it_stands, drop_record
from gguftool.edit.steps import (
    barrier,
    drop_journal,
    half_done,
    hold,
    in_progress,
    keep_journal,
    mark,
    poison,
    take_journal,
    unpoison,
)
from gguftool.errors import DamagedJournal, MissingFile
from gguftool.format.frame import MAGIC, POISONED_MAGIC
from gguftool.records import dataclass
from gguftool.source import attempts, journal_path


@dataclass(frozen=True, slots=True)
class Outcome:
    """What recovery found and did.

    Attributes:
        path: the model file.
        state: as in the table above.
        action: ``nothing``, ``rolled-back`` (the old file), ``completed`` (the new file) or ``discarded`` (a journal of
            an edit that had not begun).
        record: of the edit, when its journal was whole.
        undo: path of the undo record after ``completed``.
        kept: where a file was put that had the journal's name and cannot be shown to be one.
    """

    path: str
    state: str
    action: str
    record: Record | None = None
    undo: str | None = None
    kept: str | None = None

    __repr__ = short_repr


def recover(path: str | os.PathLike[str], layer: OsLayer | None = None) -> Outcome:
    """Finish or take back an interrupted edit; does nothing when there is none.

    Raises:
        EditInProgress: the edit is not interrupted, it runs.
        InterruptedEdit: the disk failed; the journal stays.
        DamagedJournal: what stands there cannot be settled safely; nothing was touched.
        MissingFile: no such file.
    """
    layer = layer or OsLayer()
    real = os.path.realpath(path)
    if layer.stat(real) is None:
        from gguftool.elsewhere import meant

        raise MissingFile(f"{real}: no such file", meant(os.fspath(path)))
    try:
        outcome = _recover(layer, real, journal_path(real))
        layer.sweep(real)
        return outcome
    except OSError as error:
        raise half_done(error, real) from error


def _recover(layer: OsLayer, real: str, name: str) -> Outcome:
    for _ in attempts():
        try:
            journal = layer.open(name, write=True)
        except FileNotFoundError:
            return _without_journal(layer, real)
        except IsADirectoryError:
            raise DamagedJournal(f"{name}: is a folder, where a journal would be", "move it away") from None
        if hold(layer, journal, name):
            break
        layer.close(journal)
    else:
        raise in_progress(real)
    try:
        barrier(layer, journal, real)
        layer.syncdir(os.path.dirname(real))
        model = layer.open(real, write=True)
        try:
            found = read(layer, journal)
            if found is None:
                return _torn(layer, real, model, journal)
            record, phase = found
            if phase == ROLLBACK:
                # INSERTED may be what the disk has, and what that asks for must not be done twice.
                mark(layer, journal, record, ROLLBACK, real)
            return settle(layer, real, model, journal, record, phase, doubt=True)
        finally:
            layer.close(model)
    finally:
        layer.close(journal)


def _without_journal(layer: OsLayer, path: str) -> Outcome:
    fd = layer.open(path, write=False)
    try:
        magic = layer.read(fd, 0, 4)
        found = fitting(layer, path, fd) if magic != MAGIC else None
    finally:
        layer.close(fd)
    if found is not None:
        return _by_record(layer, path, found)
    if magic == POISONED_MAGIC:
        raise DamagedJournal(
            f"{path}: an edit was interrupted and its journal ({os.path.basename(journal_path(path))}) is gone; "
            "nothing was touched",
            "put the journal back beside the file, or get the file again",
        )
    return Outcome(path, "CLEAN", "nothing")


def _by_record(layer: OsLayer, path: str, found: Found) -> Outcome:
    """The journal is gone, and an undo record fits: the file as that says."""
    record, number = found.record, found.number
    model = layer.open(path, write=True)
    try:
        if found.front is not None:
            _settled(layer, path, model, record, found.front, record.shift if found.is_new else 0)
        else:
            inserted = record.shift and layer.fstat(model).st_size == record.new_size
            if inserted or not record.shift:
                record = as_it_stands(record, lambda offset, n: layer.read(model, offset, n))
            journal = take_journal(layer, path)
            try:
                phase = INSERTED if inserted else STARTED
                layer.pwrite(journal, 0, pack(record, phase))
                barrier(layer, journal, path)
                layer.syncdir(os.path.dirname(path))
                settle(layer, path, model, journal, record, phase, doubt=True)
            finally:
                layer.close(journal)
    finally:
        layer.close(model)
    if found.is_new:
        return Outcome(path, "LOST", "completed", record, undo_path(path, number))
    drop_record(layer, path, number, record)
    return Outcome(path, "LOST", "rolled-back", record)


def _torn(layer: OsLayer, path: str, model: int, journal: int) -> Outcome:
    if layer.read(model, 0, 4) != MAGIC:
        raise DamagedJournal(
            f"{path}: the journal beside it is damaged and the file is in the middle of an edit; nothing was touched",
            "restore the file from where it came from; the tensor data in it is whole but for the first blocks",
        )
    name = journal_path(path)
    if begun(layer.read(journal, 0, layer.fstat(journal).st_size)):
        drop_journal(layer, path)
        return Outcome(path, "TORN", "discarded")
    # Noise of a power failure, or a file of somebody else: out of the way, but not gone.
    taken, number = set(layer.listdir(os.path.dirname(path))), 1
    while f"{os.path.basename(name)}.{number}" in taken:
        number += 1
    layer.rename(name, f"{name}.{number}")
    layer.syncdir(os.path.dirname(path))
    return Outcome(path, "TORN", "discarded", kept=f"{name}.{number}")


def settle(
    layer: OsLayer, path: str, model: int, journal: int, record: Record, phase: int, *, doubt: bool = False
) -> Outcome:
    """Bring the file to exactly old or new, and end the journal.

    Args:
        layer: the operating system.
        path: real path of the model.
        model: its descriptor, open for writing.
        journal: descriptor of the journal, held.
        record: what the journal says.
        phase: its phase.
        doubt: another process wrote what stands there, so that a sync of it may have failed.

    Raises:
        DamagedJournal: the file is neither; nothing was touched.
        InterruptedEdit: the disk failed; the journal stays.
    """
    size = layer.fstat(model).st_size
    # Of a poisoned file neither hash can be right.
    loadable = layer.read(model, 0, 4) == MAGIC
    front = layer.read(model, 0, max(record.old_front, record.new_front)) if loadable else b""
    if loadable and phase != ROLLBACK and size == record.new_size and _sha(front[: record.new_front]) == record.new_sha:
        _settled(layer, path, model, record, front[: record.new_front], record.shift if doubt else None)
        return _finish(layer, path, record)
    if loadable and size == record.old_size and _sha(front[: record.old_front]) == record.old_sha:
        # The magic is written last, so with it all else is in place; only not yet known to be on the disk.
        _settled(layer, path, model, record, front[: record.old_front], 0 if doubt else None)
        if record.strategy == "rewrite":
            layer.sweep(path)
        return _end(layer, path, "COPYING" if record.strategy == "rewrite" else "HOT", record)
    if record.strategy == "rewrite" or size not in (record.old_size, record.new_size) or loadable:
        raise DamagedJournal(
            f"{path}: the file is neither what it was before the interrupted edit nor what it should become; "
            "something else has changed it; nothing was touched",
            f"if the file is good as it is, delete {journal_path(path)}",
        )
    state = "POISONED"
    if doubt and (size == record.old_size or (phase == INSERTED and layer.hole(model, 0)[0] > 0)):
        # Elsewhere it would fill the hole that marks the gap, and need room; there it is on the disk already, for the
        # room was made after it.
        poison(layer, model, path)
    if record.shift and size == record.new_size:
        state = "INSERTED" if phase == INSERTED else "GAP"
        replaced = _close_gap(layer, path, model, journal, record, phase)
        if replaced:
            return _end(layer, path, state, record)
    _write_back(layer, path, model, record)
    return _end(layer, path, state, record)


def _settled(layer: OsLayer, path: str, model: int, record: Record, front: bytes, shift: int | None) -> None:
    """What was read from the file, a whole front, is on the disk when this returns.

    ``shift`` is how far from their old place the saved bytes are; None: the file is not in doubt.
    """
    if shift is None or record.strategy == "rewrite":
        # A new file was on the disk before it got its name.
        barrier(layer, model, path)
        return
    # No more than the saved bytes can bring back.
    poison(layer, model, path)
    for start, n in record.saved:
        at, end = (start + shift if start else 4), start + shift + n
        if at < min(end, len(front)):
            layer.pwrite(model, at, front[at:end])
    barrier(layer, model, path)
    unpoison(layer, model, path)


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _finish(layer: OsLayer, path: str, record: Record) -> Outcome:
    if record.undo_of and record.strategy == "insert":
        # An undo that had not begun: its "new" file is the one that was to be undone.
        drop_journal(layer, path)
        return Outcome(path, "NEW", "discarded", record)
    return Outcome(path, "NEW", "completed", record, keep_journal(layer, path, record))


def _end(layer: OsLayer, path: str, state: str, record: Record) -> Outcome:
    """The old file stands, durably."""
    if record.undo_of and record.strategy == "insert":
        keep_journal(layer, path, record)
        return Outcome(path, state, "completed", record)
    drop_journal(layer, path)
    return Outcome(path, state, "rolled-back", record)


def _close_gap(layer: OsLayer, path: str, model: int, journal: int, record: Record, phase: int) -> bool:
    """Take the inserted room out again; True when that was done by a new file, which is whole already."""
    shift = record.shift
    if phase == INSERTED:
        try:
            layer.punch(model, 0, shift)
        except OSError:
            return _restore_by_copy(layer, path, model, record, 0)
        barrier(layer, model, path)
        mark(layer, journal, record, ROLLBACK, path)
    at = find_gap(layer, model, record)
    if at is None:
        raise DamagedJournal(
            f"{path}: the interrupted insertion cannot be found in the file; nothing was touched",
            "was the file copied since the crash? Recover the original, not the copy",
        )
    if at + shift >= record.new_size:
        # Nothing had moved yet: only the length was raised.
        layer.truncate(model, record.old_size)
    else:
        try:
            layer.collapse(model, at, shift)
        except OSError:
            return _restore_by_copy(layer, path, model, record, at)
    barrier(layer, model, path)
    return False


def _write_back(layer: OsLayer, path: str, model: int, record: Record) -> None:
    """The saved bytes of the old file, the magic last and alone."""
    at = 0
    for start, n in record.saved:
        skip = max(0, 4 - start)
        layer.pwrite(model, start + skip, memoryview(record.payload)[at + skip : at + n])
        at += n
    barrier(layer, model, path)
    unpoison(layer, model, path)


def _restore_by_copy(layer: OsLayer, path: str, model: int, record: Record, gap: int) -> bool:
    """Build the old file anew where the file system cannot take a gap out (the file was moved there since)."""
    layer.sweep(path)
    fd, target = layer.draft(path)
    try:
        layer.copy_flags(model, fd)
        layer.truncate(fd, record.old_size)
        layer.copy_ranges(model, fd, [(0, 0, gap), (gap + record.shift, gap, record.old_size - gap)])
        at = 0
        for start, n in record.saved:
            layer.pwrite(fd, start, memoryview(record.payload)[at : at + n])
            at += n
        layer.copy_attributes(model, fd)
        barrier(layer, fd, path)
    finally:
        layer.close(fd)
    layer.rename(target, path)
    layer.syncdir(os.path.dirname(path))
    return True
