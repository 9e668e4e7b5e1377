"""Findings of a baseline in the rows of a scan: each is left out once, as lint leaves it out."""

from __future__ import annotations

import os
from collections import Counter

from gguftool.fleet.row import Row
from gguftool.lint.baseline import Baseline, absolute


class Known:
    """What a baseline holds and no row has had yet.

    Attributes:
        hidden: findings left out so far.
    """

    def __init__(self, baseline: Baseline) -> None:
        self.hidden = 0
        self._folder = os.getcwd()
        self._left: dict[tuple[str, str, str, str], list[str]] = {}
        for entry in baseline.entries:
            for path in entry.paths:
                self._left.setdefault((path, entry.rule, entry.where, entry.severity), []).append(entry.digest)

    def without(self, row: Row) -> Row:
        """The row without findings of the baseline; they are no longer counted either."""
        if not self._left or row["lint"] is None:
            return row
        hidden: Counter[str] = Counter()
        new = []
        for f in row["findings"]:
            path = absolute(f.get("path", row["path"]), self._folder)
            left = self._left.get((path, f["rule"], f["where"], f["severity"]), [])
            same = next((digest for digest in left if digest in ("", f["digest"])), None)
            if same is None:
                new.append(f)
            else:
                left.remove(same)
                hidden[f["severity"]] += 1
        self.hidden += sum(hidden.values())
        counts = {severity: n - hidden[severity] for severity, n in row["lint"].items()}
        return Row(**{**row, "findings": new, "lint": counts}) if hidden else row
