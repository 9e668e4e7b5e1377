"""What a scan comes to, in numbers for a monitor."""

from __future__ import annotations

from collections import Counter

from gguftool.fleet.row import Row
from gguftool.records import dataclass, field

WHOLE, BROKEN, WAITING = "whole", "broken", "waiting"
STATES = (WHOLE, BROKEN, WAITING)
"""``waiting``: it is being written, or is not whole and may become it."""


@dataclass(frozen=True, slots=True)
class Says:
    """What is remembered of a row: findings by severity, and what llama.cpp does with the model."""

    lint: tuple[tuple[str, int], ...] = ()
    load: str | None = None


NOTHING = Says()


@dataclass(slots=True)
class Tally:
    """Numbers of one moment.

    Attributes:
        models: by state.
        findings: by severity.
        loads: by verdict.
        rows: that were written, by what happened; of a scan that does not watch none.
        errors: folders that could not be listed or watched, files that could not be written.
        scanned: when all folders had been looked at, in seconds since 1970; None: not yet.
    """

    models: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    loads: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    errors: int = 0
    scanned: float | None = None

    def add(self, state: str, says: Says) -> None:
        """One more model."""
        self.models[state] += 1
        self.findings.update(dict(says.lint))
        if says.load is not None:
            self.loads[says.load] += 1

    def clear(self) -> None:
        """No model counts any longer; what happened still does."""
        for counter in (self.models, self.findings, self.loads):
            counter.clear()


def says(row: Row) -> Says:
    """What is remembered of a row."""
    return Says(tuple((row["lint"] or {}).items()), row["load"])
