"""The room that an insertion leaves in a file, told from the holes that the file had before.

A hole of the inserted length stands where moving stopped: alone between bytes, or beside a hole that was there before,
which is longer by it then. So the holes of the old file, which the journal has, and those of the file as it stands tell
where the room is - and when they do not, something else has changed the file.
"""

from __future__ import annotations

from gguftool.edit.journal import MOST_HOLES, Record
from gguftool.edit.oslayer import BLOCK, OsLayer
from gguftool.files.holes import holes_in
from gguftool.format.frame import align

Holes = tuple[tuple[int, int], ...]
"""(start, length) of each, in order."""


def movable_holes(layer: OsLayer, fd: int, front: int) -> Holes | None:
    """The holes of a file behind which all can be moved in place.

    Args:
        layer: the operating system.
        fd: the file.
        front: bytes of the header; in the blocks that have it there may be no hole, for what is written there again
            must need no room.

    Returns:
        None when there is one, or when there are more than a journal holds.
    """
    holes = _holes(layer, fd)
    if holes is None or len(holes) > MOST_HOLES or (holes and holes[0][0] < align(front, BLOCK)):
        return None
    return holes


def movable_path(layer: OsLayer, path: str, front: int) -> bool:
    """Whether a file can be moved in place; see `movable_holes`."""
    fd = layer.open(path, write=False)
    try:
        return movable_holes(layer, fd, front) is not None
    finally:
        layer.close(fd)


def moved_down(holes: Holes, shift: int) -> Holes:
    """The holes of a file whose first ``shift`` bytes are taken out."""
    return tuple((start - shift, n) for start, n in holes)


def moved_up(layer: OsLayer, fd: int, record: Record) -> bool:
    """Whether the holes behind the inserted room are those of the old file."""
    holes = _holes(layer, fd)
    return (
        holes is not None and moved_down(tuple(h for h in holes if h[0] >= record.shift), record.shift) == record.holes
    )


def find_gap(layer: OsLayer, model: int, record: Record) -> int | None:
    """Where the inserted room stands as a hole; None when it cannot be found."""
    holes, old, shift = _holes(layer, model), record.holes, record.shift
    if holes is not None:
        same = next((i for i, (a, b) in enumerate(zip(holes, old, strict=False)) if a != b), min(len(holes), len(old)))
        at = holes[same][0] if same < len(holes) else record.new_size
        n = min(shift, record.new_size - at)
        fits = _with_gap(old, at, shift, record.new_size) == holes if old else at % BLOCK == 0
        if fits and at < record.new_size and not any(layer.read(model, at, n)):
            return at
    # The room at the front may have been filled again, by a poison that did not wait.
    _, length = record.saved[0]
    if layer.read(model, shift + 4, length - 4) == record.payload[4:length]:
        return 0
    return None


def _with_gap(old: Holes, at: int, shift: int, size: int) -> Holes:
    """The holes of a file in which ``shift`` bytes of room stand at ``at``, where none of the old holes ends."""
    out: list[tuple[int, int]] = []
    placed = False
    for start, n in old:
        if start >= at and not placed:
            out.append((at, shift))
            placed = True
        start += shift if placed else 0
        if out and out[-1][0] + out[-1][1] == start:
            out[-1] = (out[-1][0], out[-1][1] + n)
        else:
            out.append((start, n))
    if not placed:
        out.append((at, shift))
    return tuple((start, min(n, size - start)) for start, n in out if start < size)


def _holes(layer: OsLayer, fd: int) -> Holes | None:
    # One more for the room.
    holes = holes_in(lambda at: layer.hole(fd, at), layer.fstat(fd).st_size, MOST_HOLES + 1)
    return None if holes is None else tuple(holes)
