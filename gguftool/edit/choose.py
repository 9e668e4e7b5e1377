"""Which of the three strategies an edit takes, and what it costs."""

from __future__ import annotations

import os

from gguftool.edit.commit import in_use
from gguftool.edit.fitted import Fit
from gguftool.edit.inuse import alone
from gguftool.edit.job import Job, journal_size, written
from gguftool.edit.layout import looks_whole
from gguftool.edit.oslayer import OsLayer
from gguftool.edit.target import Target
from gguftool.errors import MissingFile, Refused
from gguftool.files.disk import check_room as check_free_room
from gguftool.files.holes import data_in

SPARE = 64 << 20
"""Bytes that must stay free on the disk beside what a rewrite needs, at most."""
_SHARE = 20
"""... and this part of the new file."""
_MOST = 1 << 16
"""Stretches between holes that are counted one by one."""


def choose(
    target: Target,
    laid_out: Fit,
    layer: OsLayer,
    forced: str | None,
    use: str,
    hard_links: str,
    notes: list[str],
) -> tuple[str, bool]:
    """Strategy, and whether a rewrite shares extents instead of copying.

    Args:
        target: the file.
        laid_out: the new file.
        layer: the operating system.
        forced: the strategy asked for, or None.
        use: what to do when the file is in use.
        hard_links: what to do when it has other names.
        notes: what the user should know is added here.

    Raises:
        Refused: the file is in use, or the strategy asked for is not possible.
    """
    folder = os.path.dirname(target.real)
    patchable = laid_out.plain and laid_out.shift == 0
    movable = laid_out.plain and laid_out.shift > 0
    free = alone(layer, target.real, wait=use == "refuse")
    if free is False:
        if use == "refuse":
            raise in_use(target.real)
        if use == "patch" and not patchable:
            raise Refused(
                f"{target.named}: is in use, and this edit moves the tensor data", "--in-use rewrite writes a new file"
            )
        forced = use
        notes.append(
            "the file is in use: " + ("the running program keeps the old one" if use == "rewrite" else _CACHED)
        )
    if forced == "patch" and not patchable:
        raise Refused(
            f"{target.named}: the new header needs {laid_out.shift:,} bytes more than there is room for, "
            "so it cannot be patched",
            "leave --strategy out",
        )
    if forced == "insert" and not movable:
        raise Refused(f"{target.named}: nothing to insert: the data need not move up by whole blocks", "leave it out")
    if hard_links == "break" and target.links > 1:
        forced = "rewrite"
    follows = hard_links == "follow" and target.links > 1
    if forced == "insert" and not _movable(target, laid_out, layer):
        raise Refused(
            f"{target.named}: has holes in its header or more of them than a journal holds, so nothing can be inserted",
            "leave --strategy out",
        )
    clones = forced in (None, "rewrite") and not patchable and not follows and layer.can_clone(folder)
    if free is None and patchable and forced in (None, "patch"):
        notes.append(_UNKNOWN)
    if forced is not None and not (follows and forced == "rewrite"):
        return forced, clones
    if patchable and forced is None:
        return "patch", False
    if movable and forced is None and not clones and free and not looks_whole(laid_out):
        unit = layer.insert_unit(folder)
        if unit and laid_out.shift % unit == 0 and _movable(target, laid_out, layer):
            return "insert", False
    if follows:
        raise Refused(
            f"{target.named}: only a new file can hold this edit, which would break the hard links",
            "--hard-links break",
        )
    return "rewrite", clones


_UNKNOWN = (
    "whether another program has the file open cannot be known here (not your file, or not a local disk of Linux); "
    "one that reads the header at the very moment of the edit may see half of it"
)
_CACHED = "a program that has loaded it already does not read the header again"


def _movable(target: Target, laid_out: Fit, layer: OsLayer) -> bool:
    if not target.sparse:
        return True
    from gguftool.edit.gaps import movable_path

    return movable_path(layer, target.real, laid_out.old_front)


def costs(job: Job, layer: OsLayer, clones: bool, output: bool = False) -> tuple[int, int]:
    """Bytes written, and free bytes needed meanwhile."""
    journal = 0 if output else journal_size(job)
    if job.strategy == "rewrite":
        body = new_bytes(job, layer, clones)
        return journal + body, journal + body + (0 if clones else min(SPARE, body // _SHARE))
    ranges = sum(stop - start for start, stop in written(job))
    return journal + ranges + 8, journal + job.fit.shift


def _shared(old: int, new: int, n: int) -> int:
    from gguftool.files.copies import shareable

    return shareable(old, new, n)[1]


def new_bytes(job: Job, layer: OsLayer, clones: bool) -> int:
    """Bytes of a rewrite for which the disk needs room: no holes, and nothing that is shared with the old file."""
    total = len(job.fit.front) + sum(len(data) for _, data in job.fit.extra)
    fd = layer.open(job.path, write=False)
    try:
        for s in job.fit.segments:
            for no, (at, n) in enumerate(data_in(lambda start: layer.hole(fd, start), s.old, s.n)):
                if no == _MOST:
                    # So many that counting would take long: the rest counts as it is long.
                    total += s.old + s.n - at
                    break
                total += n - (_shared(at, at + s.new - s.old, n) if clones else 0)
    finally:
        layer.close(fd)
    return total


def check_room(layer: OsLayer, path: str, needed: int) -> None:
    """Refuse before anything is written, when the disk has not that many bytes free."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise MissingFile(f"{folder}: no such folder")
    check_free_room(folder, needed, free=layer.free_bytes(folder))
