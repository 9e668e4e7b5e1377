"""What speaks against converting a folder."""

from __future__ import annotations

from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that speaks against converting.

    Attributes:
        kind: stable name in kebab-case, for programs.
        message: what is wrong and where.
        hint: the way on, a command where there is one.
        fatal: the converter would stop, or the result be wrong.
    """

    kind: str
    message: str
    hint: str | None = None
    fatal: bool = True
