"""What a page shows of a command's output, beside what it printed: ``…`` stands for what varies or is left out."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from functools import lru_cache

ANY = "…"


@lru_cache(4096)
def _pattern(line: str) -> re.Pattern[str]:
    return re.compile(".*?".join(map(re.escape, line.rstrip().split(ANY))))


def same_line(shown: str, printed: str) -> bool:
    """Whether one line stands for the other; ``…`` is any text of it."""
    return bool(_pattern(shown).fullmatch(printed.rstrip()))


def _gap(line: str) -> bool:
    return line.strip() == ANY


def matches(shown: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether the lines of a page stand for those of a run; a line that is only ``…`` is any number of lines."""
    # reach[j]: the shown lines so far can stand for the first j printed ones.
    reach = [True] + [False] * len(printed)
    for line in shown:
        if _gap(line):
            first = reach.index(True) if True in reach else len(reach)
            reach = [j >= first for j in range(len(reach))]
        else:
            reach = [False, *(reach[j] and same_line(line, printed[j]) for j in range(len(printed)))]
    return reach[-1]


def difference(shown: Sequence[str], printed: Sequence[str]) -> str:
    """The two as a difference to read; lines that stand for one another count as the same."""
    kept = kept_marks(shown, printed)
    return "\n".join(difflib.unified_diff(list(shown), kept, "the page", "the run", lineterm="", n=2))


def kept_marks(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """The printed lines, with the page's ``…`` where they still fit: a line's own, and whole passages left out.

    A passage stays left out when the line after it is found again further down.
    """
    out: list[str] = []
    j = 0
    for i, line in enumerate(shown):
        if _gap(line):
            after = next((other for other in shown[i + 1 :] if not _gap(other)), None)
            end = len(printed) if after is None else _found(after, printed, j)
            if end is not None:
                out.append(line)
                j = end
        elif (at := _found(line, printed, j)) is not None:
            out += printed[j:at]
            out.append(line)
            j = at + 1
    return out + list(printed[j:])


def _found(line: str, printed: Sequence[str], start: int) -> int | None:
    return next((j for j in range(start, len(printed)) if same_line(line, printed[j])), None)
