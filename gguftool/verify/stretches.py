"""Stretches of one and the same page that begin or end where disks and downloads have borders, not tensors.

A download that lost a block, a disk that gave zeros, a copy that wrote a buffer again leave runs of equal pages of
4,096 bytes whose ends lie on page borders in the middle of a tensor's row. Weights do not: what a model itself holds of
zeros or constants begins and ends with its rows. Candidates are found page by page while the data is read; their exact
ends are looked up afterwards, so sound files cost next to nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from gguftool.format.header import TensorInfo
from gguftool.records import dataclass
from gguftool.source import LocalFile, Source
from gguftool.verify.pages import PAGE, Run, longest
from gguftool.verify.result import Fault

LEAST = 16 * PAGE
"""Bytes of a stretch that is told: shorter runs of equal pages may be small tensors of ones or zeros."""
_LOOSE = 8
"""Bytes beside a stretch that may be what it repeats by chance: the low bytes of a number are often zero."""


@dataclass(frozen=True, slots=True)
class Place:
    """One tensor in the file: where its data starts and ends, and the bytes of a row."""

    info: TensorInfo
    start: int
    end: int
    row: int


def stretches(source: Source, found: Iterable[Run], first: int) -> list[Run]:
    """Stretches as long as they really are, with the page that is repeated in them.

    Args:
        source: the file.
        found: candidates, see `gguftool.verify.pages.equal_pages`.
        first: where the tensor data begins.
    """
    done: list[Run] = []
    for start, end, _ in longest(found):
        if done and start < done[-1][1]:
            continue
        page = source.read_at(start, PAGE)
        begin = _back(source, start, page, max(first, done[-1][1] if done else 0))
        done.append((begin, _on(source, end, page), page))
    return [run for run in done if run[1] - run[0] >= LEAST]


def _back(source: Source, at: int, page: bytes, least: int) -> int:
    at = _over_hole_back(source, at, page, least)
    while at - PAGE >= least and source.read_at(at - PAGE, PAGE) == page:
        at -= PAGE
    before = source.read_at(max(least, at - PAGE), at - max(least, at - PAGE))
    n = 0
    while n < len(before) and before[-1 - n] == page[-1 - n]:
        n += 1
    return at - n


def _on(source: Source, at: int, page: bytes) -> int:
    written = at
    while True:
        if at >= written and isinstance(source, LocalFile) and not any(page):
            # What was never written is zeros, and may be a terabyte.
            written, end = source.hole(at)
            if written <= at:
                at += (end - at) // PAGE * PAGE
                written = at + PAGE
        behind = source.read_at(at, PAGE)
        if behind != page:
            break
        at += PAGE
    n = 0
    while n < len(behind) and behind[n] == page[n]:
        n += 1
    return at + n


def _over_hole_back(source: Source, at: int, page: bytes, least: int) -> int:
    """Where a hole begins that goes up to ``at``, whole pages of it; ``at`` where there is none."""
    if not isinstance(source, LocalFile) or any(page):
        return at
    start = least
    while start < at:
        hole, behind = source.hole(start)
        if hole >= at:
            break
        if behind >= at:
            return at - (at - hole) // PAGE * PAGE
        start = behind
    return at


def judged(found: Sequence[Run], places: Sequence[Place]) -> list[tuple[Fault, int, int]]:
    """Stretches that no model has of itself, each as a fault with its start and end in the file."""
    ordered = sorted(places, key=lambda p: p.start)
    starts = [p.start for p in ordered]
    out: list[tuple[Fault, int, int]] = []
    for start, end, page in found:
        over = ordered[max(0, bisect_right(starts, start) - 1) : bisect_right(starts, end - 1)]
        over = [p for p in over if p.start < end and start < p.end]
        borders = (start + PAGE - 1) // PAGE * PAGE, end // PAGE * PAGE
        exact = borders[0] - start < _LOOSE, end - borders[1] < _LOOSE
        cut = [(p, at) for at, sure in zip(borders, exact, strict=True) for p in over if sure and p.start < at < p.end]
        if not (len(over) > 2 and cut) and not any(p.row and (at - p.start) % p.row for p, at in cut):
            continue
        zero = not any(page)
        names = [p.info.name for p in over]
        where = names[0] if len(over) == 1 else f"{len(over)} tensors from {names[0]} to {names[-1]}"
        message = (
            f"bytes {start:,} to {end:,} are {'all zero' if zero else 'the same 4,096 bytes again and again'}, in "
            f"{where}: such ends are borders of disks and downloads, not of tensors"
        )
        hint = "fetch it again, or mend it from a copy: --sums MANIFEST --repair-from COPY"
        kind = "blank-stretch" if zero else "repeated-stretch"
        out.append((Fault(kind, message, f"tensor:{names[0]}", hint, (start, end)), start, end))
    return out
