"""Names that resemble a name, for the "did you mean" of messages; and where two sequences part.

The comparison takes time that grows with the square of the length, so names of a hostile length resemble nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

LONGEST = 128
"""Characters of a name that may be a slip for another one."""
MOST = 50_000
"""Names that are looked at; a file may hold millions."""


def near_names(name: str, known: Iterable[str], n: int = 3, cutoff: float = 0.6) -> list[str]:
    """Up to ``n`` of the ``known`` names that resemble ``name``, best first (``cutoff`` 1: equal, 0: any)."""
    import difflib

    if len(name) > LONGEST:
        return []
    return difflib.get_close_matches(name, [k for k in islice(known, MOST) if len(k) <= LONGEST], n, cutoff)


def same_beginning(a: Sequence[object], b: Sequence[object]) -> int:
    """How many items two sequences share from their beginning: the place of the first difference."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
