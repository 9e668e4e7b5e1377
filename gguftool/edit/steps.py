"""The small steps that `commit`, `recover` and `undo` share: barriers, the magic, and the life of a journal."""

from __future__ import annotations

import contextlib
import hashlib
import os

from gguftool.edit.journal import Record, pack_phase
from gguftool.edit.oslayer import BLOCK, OsLayer
from gguftool.edit.records import KEEP, adopt, drop_record, next_path, undo_numbers
from gguftool.errors import EditInProgress, InterruptedEdit
from gguftool.format.frame import MAGIC, POISONED_MAGIC
from gguftool.shell import gguftool, path_word
from gguftool.source import attempts, journal_path


def barrier(layer: OsLayer, fd: int, path: str) -> None:
    """Everything written to ``fd`` is on the disk when this returns.

    A failed sync is never tried again: the kernel may have dropped the pages, and a second one would report success.

    Raises:
        InterruptedEdit: the disk reported an error; the journal stays.
    """
    try:
        layer.fsync(fd)
    except OSError as e:
        what = (e.strerror or str(e)).lower()
        raise InterruptedEdit(
            f"{path}: the disk did not confirm a write ({what}); the edit stands half done",
            f"check the disk, then: {gguftool('recover', path_word(path))}",
        ) from e


def half_done(error: BaseException, path: str) -> BaseException:
    """An error of the operating system that left the file for `recover`."""
    if not isinstance(error, OSError):
        return error
    what = (error.strerror or str(error)).lower()
    return InterruptedEdit(f"{path}: {what}; the edit is not finished", gguftool("recover", path_word(path)))


def poison(layer: OsLayer, fd: int, path: str) -> None:
    """From here on nobody loads the file."""
    layer.pwrite(fd, 0, POISONED_MAGIC)
    barrier(layer, fd, path)


def unpoison(layer: OsLayer, fd: int, path: str) -> None:
    """The header behind it is on the disk: make the file loadable again."""
    layer.pwrite(fd, 0, MAGIC)
    barrier(layer, fd, path)


def mark(layer: OsLayer, journal: int, record: Record, phase: int, path: str) -> None:
    """Write the phase into the journal and wait for the disk."""
    layer.pwrite(journal, layer.fstat(journal).st_size - BLOCK, pack_phase(record, phase))
    barrier(layer, journal, path)


def front_sha(layer: OsLayer, fd: int, n: int) -> str:
    """sha256 of the first ``n`` bytes, hexadecimal."""
    found, at = hashlib.sha256(), 0
    while at < n and (part := layer.read(fd, at, min(_PIECE, n - at))):
        found.update(part)
        at += len(part)
    return found.hexdigest()


_PIECE = 1 << 18
"""Bytes that are read to be hashed at a time: the room for a piece is had again for the next."""


def take_journal(layer: OsLayer, path: str) -> int:
    """Create the journal, which is also the lock, and hold it.

    Raises:
        EditInProgress: another process has it.
    """
    name = journal_path(path)
    there = layer.stat(path)
    for _ in attempts():
        try:
            # It holds a part of the file, so nobody may read it who may not read the file.
            fd = layer.create(name, there.st_mode & 0o666 if there is not None else 0o600)
        except FileExistsError:
            continue
        if there is not None:
            # So that its owner can undo and recover what an administrator edited.
            layer.give(fd, there)
        # Who only looks whether an edit runs has the lock for a moment.
        if any(layer.lock(fd) for _ in attempts()) and hold(layer, fd, name):
            return fd
        layer.close(fd)
    raise in_progress(path)


def pending(path: str | os.PathLike[str], layer: OsLayer | None = None) -> bool:
    """Whether a journal lies beside the file: an edit runs or was interrupted."""
    return (layer or OsLayer()).stat(journal_path(os.path.realpath(path))) is not None


def in_progress(path: str) -> EditInProgress:
    """The refusal for a file that another process edits."""
    return EditInProgress(f"{path}: is being edited by another process", "wait until that is done")


def refuse_unfinished(layer: OsLayer, path: str, named: str) -> None:
    """Wait for an edit that runs; a file whose edit was interrupted is refused.

    Args:
        layer: the operating system.
        path: real path of the model.
        named: what the user calls it.

    Raises:
        EditInProgress: the edit does not come to an end.
        InterruptedEdit: nobody does it any more.
    """
    name = journal_path(path)
    free = 0
    for _ in attempts():
        try:
            fd = layer.open(name, write=os.name == "nt")
        except FileNotFoundError:
            return
        except OSError:
            break
        try:
            # Twice, for one that has just been made is not locked yet.
            free = free + 1 if hold(layer, fd, name) else 0
        finally:
            layer.close(fd)
        if free == 2:
            break
    else:
        raise in_progress(named)
    raise InterruptedEdit(f"{named}: an edit of this file is not finished", gguftool("recover", path_word(named)))


def hold(layer: OsLayer, fd: int, name: str) -> bool:
    """Lock an open journal, and make sure that the name still stands for it."""
    if not layer.lock(fd):
        return False
    there = layer.stat(name)
    mine = layer.fstat(fd)
    return there is not None and (there.st_dev, there.st_ino) == (mine.st_dev, mine.st_ino)


def drop_journal(layer: OsLayer, path: str) -> None:
    """The edit is settled: remove the journal, durably."""
    layer.unlink(journal_path(path))
    layer.syncdir(os.path.dirname(path))


def keep_journal(layer: OsLayer, path: str, record: Record, keep: bool = True) -> str | None:
    """The edit is done: turn the journal into an undo record, and join the oldest ones.

    Nothing that fails here undoes the edit: a journal that is still there after a power failure is settled to the same.

    Returns:
        The path of the undo record; None when there is none to keep.
    """
    if record.undo_of:
        # The record that was undone goes first: with the journal still there, a crash between the two is settled again.
        drop_record(layer, path, record.undo_of, record)
    if record.undo_of or not keep:
        layer.unlink(journal_path(path))
        _sync_names(layer, path)
        return None
    with contextlib.suppress(OSError):
        if not undo_numbers(layer, path):
            adopt(layer, path, (record.old_size, record.old_sha))
    target = next_path(layer, path)
    layer.rename(journal_path(path), target)
    _sync_names(layer, path)
    with contextlib.suppress(OSError):
        if len(undo_numbers(layer, path)) > KEEP:
            from gguftool.edit.joining import join_oldest

            join_oldest(layer, path)
    return target


def _sync_names(layer: OsLayer, path: str) -> None:
    with contextlib.suppress(OSError):
        layer.syncdir(os.path.dirname(path))
