"""One edit as ranges of bytes: what is overwritten, what stays or moves, and what must be saved first."""

from __future__ import annotations

import hashlib
import time
from functools import cached_property
from typing import TYPE_CHECKING

from gguftool.brief import short_repr
from gguftool.edit.fitted import Fit, Segment
from gguftool.edit.journal import Record
from gguftool.edit.oslayer import BLOCK, OsLayer
from gguftool.errors import Refused
from gguftool.format.frame import align
from gguftool.records import dataclass
from gguftool.version import __version__

if TYPE_CHECKING:
    from gguftool.edit.gaps import Holes

SAVED_LIMIT = 1 << 30
"""Bytes that no tensor covers and `rewrite` leaves out are kept for undo up to this many."""


class InsertImpossible(Exception):
    """The file cannot be moved in place, or the file system took INSERT_RANGE back; the file is as it was."""


@dataclass(frozen=True)
class Job:
    """One edit, ready to be done.

    Attributes:
        path: real path of the model.
        strategy: ``patch``, ``insert`` or ``rewrite``.
        fit: the new file.
        old_front: the bytes in front of the data as they were planned for; more may stand behind them.
        identity: of the file that was planned for, see `identity`.
        keep_undo: keep the journal as an undo record.
        in_use: ``refuse``, or ``patch`` to patch although others have the file open.
        preserve_mtime: set the time of last change back.
        undo_of: number of the undo record that this edit takes back.
        operations, argv, group: for the record.
        old_sha: sha256 of `old_front`, when somebody has had to work it out already.
    """

    path: str
    strategy: str
    fit: Fit
    old_front: bytes
    identity: tuple[int, ...]
    keep_undo: bool = True
    in_use: str = "refuse"
    preserve_mtime: bool = False
    undo_of: int = 0
    operations: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    group: str = ""
    old_sha: str = ""

    __repr__ = short_repr

    # Both fronts have many MB: what is asked when the edit is planned and again when it is done is found once.

    @cached_property
    def changed(self) -> list[tuple[int, int]]:
        """(start, stop) of runs of blocks of the front that differ, for `patch`."""
        return _changed_blocks(self)

    @cached_property
    def overwritten(self) -> int:
        """How much of the old front changes beyond being moved, in bytes; the filler makes the rest fit as it is."""
        return _overwritten(self)


def _old(job: Job) -> memoryview:
    return memoryview(job.old_front)[: job.fit.old_front]


def written(job: Job) -> list[tuple[int, int]]:
    """Ranges of the new front that are written, without the magic; whole blocks that differ for `patch`."""
    front = job.fit.front
    if job.strategy == "insert":
        # Behind this point the insertion itself has brought every byte to its place.
        return [(4, job.fit.shift + job.overwritten)]
    ranges = [(max(4, start), min(stop, len(front))) for start, stop in job.changed]
    return [(start, stop) for start, stop in ranges if start < stop]


def _overwritten(job: Job) -> int:
    old, new, shift = _old(job), job.fit.front, job.fit.shift
    at, step, least = len(old), 1 << 16, max(4, 4 - shift)
    while step:
        # Compared where they stand, without a copy of either.
        while at - step >= least and new.startswith(old[at - step : at], shift + at - step):
            at -= step
        step >>= 1
    return at


def _changed_blocks(job: Job) -> list[tuple[int, int]]:
    """Large pieces are compared first, most of them are equal."""
    old, new = _old(job), job.fit.front
    out: list[tuple[int, int]] = []
    piece = 64 * BLOCK
    for first in range(0, len(new), piece):
        if _alike(old, new, first, first + piece):
            continue
        for start in range(first, min(first + piece, len(new)), BLOCK):
            stop = start + BLOCK
            if _alike(old, new, start, stop):
                continue
            if out and out[-1][1] == start:
                out[-1] = (out[-1][0], stop)
            else:
                out.append((start, stop))
    return out


def _alike(old: memoryview, new: bytes, start: int, stop: int) -> bool:
    """Whether the same bytes stand there, and as many; no copy is made of them."""
    some = old[start:stop]
    return len(some) == min(stop, len(new)) - start and new.startswith(some, start)


def ranges(job: Job) -> tuple[list[tuple[int, int]], list[tuple[int, int, int]]]:
    """What is saved, as (start, length), and what stays or moves, as (old start, new start, length)."""
    fit, size = job.fit, job.identity[2]
    if job.strategy == "patch":
        saved = _union([(0, BLOCK), *job.changed], size)
        return saved, [(start, start, n) for start, n in _rest(saved, size)]
    if job.strategy == "insert":
        saved = _union([(0, align(job.overwritten, BLOCK))], size)
        return saved, [(start, start + fit.shift, n) for start, n in _rest(saved, size)]
    tail = job.overwritten if fit.plain else fit.old_front
    kept = Segment(tail, tail + fit.shift, fit.old_front - tail)
    moved = _disjoint((*fit.segments, kept))
    if not job.keep_undo:
        return [], moved
    return _rest([(start, n) for start, _, n in moved], size), moved


def journal_size(job: Job) -> int:
    """Bytes of the journal, near enough for a plan."""
    return align(sum(n for _, n in ranges(job)[0]) + 2048, BLOCK) + BLOCK


def make_record(job: Job, layer: OsLayer, model: int) -> Record:
    """What the old file was: the bytes that will be overwritten or left out, and where all others go."""
    fit, size = job.fit, job.identity[2]
    saved, moved = ranges(job)
    if job.strategy == "rewrite" and job.keep_undo and sum(n for _, n in saved) > SAVED_LIMIT + fit.old_front:
        raise Refused(f"{job.path}: more than 1 GiB would be left out, too much to keep for undo", "give --no-undo")
    holes: Holes | None = ()
    if job.strategy == "insert":
        from gguftool.edit.gaps import movable_holes

        holes = movable_holes(layer, model, job.fit.old_front)
    if holes is None:
        raise InsertImpossible
    return Record(
        strategy=job.strategy,
        shift=fit.shift if job.strategy == "insert" else 0,
        old_size=size,
        new_size=fit.new_size,
        old_front=len(_old(job)),
        new_front=len(fit.front),
        old_sha=job.old_sha or hashlib.sha256(_old(job)).hexdigest(),
        new_sha=hashlib.sha256(fit.front).hexdigest(),
        saved=tuple(saved),
        moved=tuple(moved),
        undo_of=job.undo_of,
        operations=job.operations,
        argv=job.argv,
        version=__version__,
        time=time.time(),
        mtime=job.identity[3],
        group=job.group,
        holes=holes,
        payload=b"".join(layer.read(model, start, n) for start, n in saved),
    )


def _union(ranges: list[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """(start, stop) ranges as disjoint (start, length) within the file."""
    out: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        stop = min(stop, size)
        if out and start <= out[-1][0] + out[-1][1]:
            first = out[-1][0]
            out[-1] = (first, max(out[-1][1], stop - first))
        elif start < stop:
            out.append((start, stop - start))
    return out


def _rest(covered: list[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """(start, length) of what disjoint, sorted ranges leave uncovered."""
    out, at = [], 0
    for start, n in sorted(covered):
        if at < start:
            out.append((at, start - at))
        at = max(at, start + n)
    if at < size:
        out.append((at, size - at))
    return out


def _disjoint(segments: tuple[Segment, ...]) -> list[tuple[int, int, int]]:
    """The segments by old offset, every old byte once (tensors of a broken file may overlap)."""
    out, at = [], 0
    for s in sorted(segments, key=lambda s: (s.old, s.new)):
        skip = max(0, at - s.old)
        if skip < s.n:
            out.append((s.old + skip, s.new + skip, s.n - skip))
            at = s.old + s.n
    return out
