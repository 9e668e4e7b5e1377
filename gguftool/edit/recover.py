"""After a crash: exactly the old file or exactly the new one.

What stands on the disk, and what is done (J the journal, F the model, T the file `rewrite` builds):

========  =================  =======  =================  ===============  =========================================
state     J                  F size   F[0:4]             how it arises    action
========  =================  =======  =================  ===============  =========================================
CLEAN     none               any      GGUF               normal           nothing
TORN      unreadable         any      GGUF               J was being made delete J
DAMAGED   unreadable, none   any      not GGUF           J lost, rotten   stop, touch nothing
HOT       whole, phase 0     old      GGUF, old header   before poison    sync F, delete J
POISONED  whole, any phase   old      GGTX or anything   header half      write the saved bytes back, magic last
GAP       whole, phase 0     new      GGTX or zeros      around INSERT    find the hole that INSERT left, take it out
                                                                          (at the end: cut); then POISONED
INSERTED  whole, phase 1     new      not GGUF           header half      make the gap a hole again, phase := 2; GAP
ROLLBACK  whole, phase 2     new      zeros              in recovery      GAP
NEW       whole, phase 0, 1  new      GGUF, new header   at the end       sync F, J becomes an undo record
COPYING   whole, rewrite     old      GGUF, old header   T is being made  delete T and J
FOREIGN   whole              other    any                somebody else    stop, touch nothing
========  =================  =======  =================  ===============  =========================================

Why the gap can be found: the file had no hole before. INSERT_RANGE is not atomic when the power fails - the file may be
longer with only its tail moved - but then exactly one hole of the inserted length stands where moving stopped. Nothing
is written into the file between the insertion and the phase mark, so the hole stays one.

Going back always goes to the smaller file: taking blocks out and overwriting existing ones cannot meet a full disk.
The first act is to sync the journal and its folder: one that is readable after a mere process crash may not survive the
power failure that follows. An `undo` of an insertion runs through the same table: it is a journal in phase 1.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from gguftool.brief import short_repr
from gguftool.edit.journal import INSERTED, ROLLBACK, Record, journal_path, new_path, read
from gguftool.edit.oslayer import BLOCK, OsLayer
from gguftool.edit.steps import barrier, drop_journal, front_sha, hold, keep_journal, mark, unpoison
from gguftool.errors import DamagedJournal, EditInProgress, MissingFile
from gguftool.format.types import MAGIC


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
    """

    path: str
    state: str
    action: str
    record: Record | None = None
    undo: str | None = None

    __repr__ = short_repr


def pending(path: str | os.PathLike[str], layer: OsLayer | None = None) -> bool:
    """Whether a journal lies beside the file: an edit runs or was interrupted."""
    return (layer or OsLayer()).stat(journal_path(os.path.realpath(path))) is not None


def recover(path: str | os.PathLike[str], layer: OsLayer | None = None) -> Outcome:
    """Finish or take back an interrupted edit; does nothing when there is none.

    Raises:
        EditInProgress: the edit is not interrupted, it runs.
        DamagedJournal: what stands there cannot be settled safely; nothing was touched.
        MissingFile: no such file.
    """
    layer = layer or OsLayer()
    real = os.path.realpath(path)
    name = journal_path(real)
    if layer.stat(real) is None:
        raise MissingFile(f"{real}: no such file")
    try:
        journal = layer.open(name, write=True)
    except FileNotFoundError:
        return _without_journal(layer, real)
    try:
        if not hold(layer, journal, name):
            raise EditInProgress(f"{real}: another process is editing this file now", "wait until it is done")
        barrier(layer, journal, real)
        layer.syncdir(os.path.dirname(real))
        model = layer.open(real, write=True)
        try:
            found = read(layer, journal)
            if found is None:
                return _torn(layer, real, model)
            record, phase = found
            return settle(layer, real, model, journal, record, phase)
        finally:
            layer.close(model)
    finally:
        layer.close(journal)


def _without_journal(layer: OsLayer, path: str) -> Outcome:
    fd = layer.open(path, write=False)
    try:
        magic = layer.read(fd, 0, 4)
    finally:
        layer.close(fd)
    if magic == b"GGTX":
        raise DamagedJournal(
            f"{path}: an edit was interrupted and its journal ({os.path.basename(journal_path(path))}) is gone; "
            "nothing was touched",
            "put the journal back beside the file, or get the file again",
        )
    return Outcome(path, "CLEAN", "nothing")


def _torn(layer: OsLayer, path: str, model: int) -> Outcome:
    if layer.read(model, 0, 4) != MAGIC:
        raise DamagedJournal(
            f"{path}: the journal beside it is damaged and the file is in the middle of an edit; nothing was touched",
            "restore the file from where it came from; the tensor data in it is whole but for the first blocks",
        )
    # A journal that was not finished is older than any T: what has that name is somebody else's.
    drop_journal(layer, path)
    return Outcome(path, "TORN", "discarded")


def settle(layer: OsLayer, path: str, model: int, journal: int, record: Record, phase: int) -> Outcome:
    """Bring the file to exactly old or new, and end the journal.

    Args:
        layer: the operating system.
        path: real path of the model.
        model: its descriptor, open for writing.
        journal: descriptor of the journal, held.
        record: what the journal says.
        phase: its phase.

    Raises:
        DamagedJournal: the file is neither; nothing was touched.
        InterruptedEdit: the disk failed; the journal stays.
    """
    size = layer.fstat(model).st_size
    if phase != ROLLBACK and size == record.new_size and front_sha(layer, model, record.new_front) == record.new_sha:
        return _finish(layer, path, model, record)
    if size == record.old_size and front_sha(layer, model, record.old_front) == record.old_sha:
        # The magic is written last, so with it all else is in place; only not yet known to be on the disk.
        barrier(layer, model, path)
        if record.strategy == "rewrite":
            # Nothing had that name when the journal was written, so it is what the edit was building.
            layer.unlink(new_path(path))
        return _end(layer, path, "COPYING" if record.strategy == "rewrite" else "HOT", record)
    loadable = layer.read(model, 0, 4) == MAGIC
    if record.strategy == "rewrite" or size not in (record.old_size, record.new_size) or loadable:
        raise DamagedJournal(
            f"{path}: the file is neither what it was before the interrupted edit nor what it should become; "
            "something else has changed it; nothing was touched",
            f"if the file is good as it is, delete {journal_path(path)}",
        )
    state = "POISONED"
    if record.shift and size == record.new_size:
        state = "INSERTED" if phase == INSERTED else "GAP"
        replaced = _close_gap(layer, path, model, journal, record, phase)
        if replaced:
            return _end(layer, path, state, record)
    _write_back(layer, path, model, record)
    return _end(layer, path, state, record)


def _finish(layer: OsLayer, path: str, model: int, record: Record) -> Outcome:
    barrier(layer, model, path)
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
    at = _gap(layer, path, model, record)
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


def _gap(layer: OsLayer, path: str, model: int, record: Record) -> int:
    """Where the hole of the inserted length stands."""
    at = layer.hole(model, 0)
    n = min(record.shift, record.new_size - at)
    if at < record.new_size and at % BLOCK == 0 and not any(layer.read(model, at, n)):
        return at
    _, length = record.saved[0]
    if layer.read(model, record.shift + 4, length - 4) == record.payload[4:length]:
        return 0
    raise DamagedJournal(
        f"{path}: the interrupted insertion cannot be found in the file; nothing was touched",
        "was the file copied since the crash? Recover the original, not the copy",
    )


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
    target = new_path(path)
    layer.unlink(target)
    fd = layer.create(target, 0o600)
    try:
        layer.copy_flags(model, fd)
        layer.preallocate(fd, record.old_size)
        if gap:
            layer.copy_range(model, 0, fd, 0, gap)
        layer.copy_range(model, gap + record.shift, fd, gap, record.old_size - gap)
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
