"""Equal pages one behind the other, found while bytes pass by: candidates for `gguftool.verify.stretches`.

Without numpy, since the built-in quantiser's child looks at its own result with it.
"""

from __future__ import annotations

from collections.abc import Iterable

PAGE = 4096
MOST = 64
"""Candidates whose ends are looked up, the longest first."""
FRONT = 16
_SEEN = 4
"""Equal pages in a piece that make a candidate: small tensors in a stretch leave only a few whole pages each."""
_BYTE = 2
"""Which byte of a page tells at once that it is not the one before: of F32 that was BF16 the first two are zero."""

Run = tuple[int, int, bytes]
"""Start and end in the file, and what every page in it begins with."""


def equal_pages(data: bytes | memoryview, start: int) -> list[Run]:
    """Runs of equal whole pages in a piece that begins at ``start`` of the file."""
    skip = -start % PAGE
    n = (len(data) - skip) // PAGE
    if n < _SEEN:
        return []
    marks = bytes(data[skip + _BYTE : skip + n * PAGE : PAGE])
    # Zero where a page has the byte of the next: one subtraction for all of them.
    differ = (int.from_bytes(marks[1:], "little") ^ int.from_bytes(marks[:-1], "little")).to_bytes(n - 1, "little")
    runs: list[list[int]] = []
    i = differ.find(0)
    while i >= 0:
        at = skip + i * PAGE
        if bytes(data[at : at + PAGE]) == bytes(data[at + PAGE : at + 2 * PAGE]):
            if runs and runs[-1][1] == i:
                runs[-1][1] = i + 1
            else:
                runs.append([i, i + 1])
        i = differ.find(0, i + 1)
    at = start + skip
    long = [(a, b + 1) for a, b in runs if b + 1 - a >= _SEEN]
    return [(at + a * PAGE, at + b * PAGE, bytes(data[skip + a * PAGE :][:FRONT])) for a, b in long]


def longest(found: Iterable[Run]) -> list[Run]:
    """The runs that are worth a look, those that go on in the next piece as one; by where they start."""
    joined: list[Run] = []
    for run in sorted(found):
        if joined and run[2] == joined[-1][2] and run[0] - joined[-1][1] <= 2 * PAGE:
            joined[-1] = (joined[-1][0], max(run[1], joined[-1][1]), run[2])
        else:
            joined.append(run)
    return sorted(sorted(joined, key=lambda r: r[0] - r[1])[:MOST])
