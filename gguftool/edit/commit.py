"""The three ways onto the disk; the order of writes and barriers is the safety, and every line is a crash point.

::

    patch                          insert                              rewrite
     1 create and write J           1-4 as patch                        1 create and write J
     2 sync J                       5 write GGTX at 0                   2 sync J
     3 sync folder          HOT     6 sync F                            3 sync folder
     4 write GGTX at 0              7 INSERT_RANGE at 0                 4 set the length of T, write the front
     5 sync F        UNLOADABLE     8 sync F                            5 share or copy the data of F
     6 write the header[4:]         9 phase = INSERTED, sync J          6 copy mode, owner, xattrs, ACLs
     7 sync F                      10 write the header[4:], sync F      7 sync T; F is still what it was?
     8 write GGUF                  11 write GGUF, sync F          NEW   8 rename T to F, sync folder       NEW
     9 sync F               NEW    12 as patch                          9 as patch
    10 J becomes undo-N

T is a hidden, locked file whose name carries its inode number, so that what a killed run left is known for ours.

At every instant a file that starts with GGUF is exactly the old one or exactly the new one. `gguftool.edit.recover`
has the table of what can stand after a crash. Tensor data is never written: `patch` does not touch it, `insert` lets
the file system move extents, `rewrite` copies it.

The room is inserted at offset 0, not behind the header: no question of alignment with the block that header and data
share, and the first bytes become zeros by the insertion itself, so the file cannot be loaded whatever happens next.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

from gguftool import endings
from gguftool.edit.fitted import Fit
from gguftool.edit.inuse import hold_alone, users_of
from gguftool.edit.job import InsertImpossible, Job, make_record, written
from gguftool.edit.journal import INSERTED, STARTED, Record, pack, read
from gguftool.edit.oslayer import OsLayer
from gguftool.edit.steps import barrier, drop_journal, half_done, keep_journal, mark, poison, take_journal, unpoison
from gguftool.errors import ChangedMeanwhile, GgufToolError, NoRoom, Refused, Unreadable
from gguftool.files.disk import Progress
from gguftool.files.faults import FORBIDDEN, FULL

_PIECE = 1 << 18
"""Bytes that are compared at a time: a header may have many MB, and is in memory already."""


def identity(s: os.stat_result) -> tuple[int, ...]:
    """What must be the same at commit as it was when the edit was planned."""
    return s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns


def commit(job: Job, layer: OsLayer, progress: Progress | None = None) -> str | None:
    """Do it.

    Returns:
        Path of the undo record, None without one.

    Raises:
        ChangedMeanwhile, Refused: before anything was touched.
        NoRoom: the disk is full; the file is as it was.
        InterruptedEdit: the disk failed in the middle; `gguftool recover` settles it.
        InsertImpossible: the file is as it was; use another strategy.
    """
    try:
        journal = take_journal(layer, job.path)
    except OSError as error:
        raise plain(error, job.path) from error
    if job.strategy == "rewrite":
        with endings.cancelling():
            return _rewrite(job, layer, journal, progress)
    return _in_place(job, layer, journal)


def _in_place(job: Job, layer: OsLayer, journal: int) -> str | None:
    """`patch` and `insert`: they differ in the insertion and in what is saved."""
    path, front, shift = job.path, memoryview(job.fit.front), job.fit.shift
    model = -1
    try:
        try:
            model = _open_alone(job, layer)
            record = make_record(job, layer, model)
            _write_journal(layer, journal, record, path)
        except BaseException as error:
            abandon(layer, path)
            raise plain(error, path) from error
        with endings.deferred():
            with _backing_out(job, layer, journal, model, record):
                poison(layer, model, path)
                if shift:
                    layer.insert(model, 0, shift)
                    barrier(layer, model, path)
                    mark(layer, journal, record, INSERTED, path)
                for start, stop in written(job):
                    layer.pwrite(model, start, front[start:stop])
                barrier(layer, model, path)
                unpoison(layer, model, path)
            return _done(job, layer, record)
    finally:
        for fd in (model, journal):
            if fd >= 0:
                layer.close(fd)


def _rewrite(job: Job, layer: OsLayer, journal: int, progress: Progress | None) -> str | None:
    path, target = job.path, ""
    model = copy = -1
    switched = False
    try:
        model = layer.open(path, write=False)
        _check_unchanged(job, layer, model)
        layer.sweep(path)
        record = make_record(job, layer, model)
        _write_journal(layer, journal, record, path)
        copy, target = layer.draft(path)
        layer.copy_flags(model, copy)
        build(layer, model, copy, job.fit, progress)
        layer.copy_attributes(model, copy)
        layer.fsync(copy)
        _same(job, layer.fstat(model))
        with endings.deferred():
            layer.rename(target, path)
            switched = True
            layer.syncdir(os.path.dirname(path))
            return _done(job, layer, record)
    except BaseException as error:
        if switched:
            raise half_done(error, path) from error
        abandon(layer, path, target)
        raise plain(error, path) from error
    finally:
        for fd in (model, copy, journal):
            if fd >= 0:
                layer.close(fd)


def build(layer: OsLayer, source: int, target: int, fit: Fit, progress: Progress | None = None) -> None:
    """Write a whole new file: front, then the data out of the old one, a hole between where that has one."""
    layer.truncate(target, fit.new_size)
    layer.pwrite(target, 0, fit.front)
    total, done = sum(s.n for s in fit.segments), 0

    def report(n: int) -> None:
        nonlocal done
        done += n
        if progress is not None:
            progress(done, total)

    layer.copy_ranges(source, target, [(s.old, s.new, s.n) for s in fit.segments], report)
    for start, data in fit.extra:
        layer.pwrite(target, start, data)
    size = layer.fstat(target).st_size
    if size != fit.new_size:
        raise ChangedMeanwhile(f"the copy has {size:,} bytes, not {fit.new_size:,}", "try again")


def _done(job: Job, layer: OsLayer, record: Record) -> str | None:
    """The new file stands, durably: end the journal."""
    try:
        undo = keep_journal(layer, job.path, record, job.keep_undo)
        if job.preserve_mtime:
            layer.set_mtime(job.path, record.mtime)
    except OSError as error:
        raise half_done(error, job.path) from error
    return undo


@contextlib.contextmanager
def _backing_out(job: Job, layer: OsLayer, journal: int, model: int, record: Record) -> Iterator[None]:
    """When the operating system refuses in the middle, go back to the old file at once."""
    try:
        yield
    except OSError as error:
        from gguftool.edit.recover import settle

        try:
            untouched = layer.fstat(model).st_size == record.old_size
            found = read(layer, journal)
            settle(layer, job.path, model, journal, record, found[1] if found else STARTED)
        except (OSError, GgufToolError) as second:
            raise half_done(error, job.path) from second
        if job.fit.shift and untouched and error.errno in _NOT_HERE:
            raise InsertImpossible from error
        raise plain(error, job.path) from error


_NOT_HERE = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.ENOTTY)


def plain(error: BaseException, path: str) -> BaseException:
    """An error of the operating system as one of ours; the file is as it was."""
    if not isinstance(error, OSError):
        return error
    what = (error.strerror or str(error)).lower()
    if error.errno in FULL:
        return NoRoom(f"{path}: {what}; the file is as it was", "free some space on that disk")
    if error.errno in FORBIDDEN:
        return Refused(f"{path}: {what}; the file is as it was", "write a new file: --output NEW.gguf")
    return Unreadable(f"{path}: {what}; the file is as it was")


def abandon(layer: OsLayer, path: str, target: str = "") -> None:
    """Nothing was changed: remove what was made."""
    with contextlib.suppress(OSError):
        if target:
            layer.unlink(target)
        drop_journal(layer, path)


def _open_alone(job: Job, layer: OsLayer) -> int:
    """The model open for writing, with nobody else having it open, and still what was planned for."""
    model = layer.open(job.path, write=True)
    try:
        # Dirty pages would be written while others wait for our lease.
        layer.fsync(model)
        may_be_open = job.strategy == "patch" and job.in_use == "patch"
        alone = layer.lease(model) if may_be_open else hold_alone(layer, model, job.path)
        if alone is False and not may_be_open:
            raise in_use(job.path)
        if alone is None and job.strategy == "insert":
            raise InsertImpossible
        _check_unchanged(job, layer, model)
    except BaseException:
        layer.close(model)
        raise
    return model


def in_use(path: str) -> Refused:
    """The refusal for a file that others have open, with their names where they can be seen."""
    who = ", ".join(f"{name} (pid {pid})" for pid, name in users_of(path)) or "another process, or open in this one"
    return Refused(
        f"{path}: in use by {who}; writing into it could change the weights under a running model",
        "stop it, or give --in-use rewrite: it keeps the old file, the next start gets the new one",
    )


def _check_unchanged(job: Job, layer: OsLayer, model: int) -> None:
    _same(job, layer.fstat(model))
    front = min(len(job.old_front), job.fit.old_front)
    for at in range(0, front, _PIECE):
        n = min(_PIECE, front - at)
        there = layer.read(model, at, n)
        if len(there) != n or not job.old_front.startswith(there, at):
            raise _changed(job.path)


def _same(job: Job, now: os.stat_result) -> None:
    if identity(now) != job.identity:
        raise _changed(job.path)


def _changed(path: str) -> ChangedMeanwhile:
    return ChangedMeanwhile(f"{path}: changed since the edit was planned; nothing was touched", "run the command again")


def _write_journal(layer: OsLayer, journal: int, record: Record, path: str) -> None:
    layer.pwrite(journal, 0, pack(record))
    layer.fsync(journal)
    layer.syncdir(os.path.dirname(path))
