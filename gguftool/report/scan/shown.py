"""What the formats of a scan share: what was asked, what the rows came to, cells of a row."""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gguftool.fleet.row import refuses
from gguftool.model.role import ROLES
from gguftool.predict.stages import OTHERS
from gguftool.records import dataclass, field
from gguftool.report.text import Style, shorten, size

Row = Mapping[str, Any]
HEADERS = ("model", "role", "arch", "params", "quant", "bpw", "context", "size", "whole", "loads", "lint")
NUMBERS = ("params", "bpw", "context", "size")
"""Of these what stands to the right."""
WORST = 10
"""Models that a summary names."""
DIFFERENT = 200
"""Names that are counted each; what comes later is counted together, for a file can say anything."""


@dataclass(slots=True)
class Counts:
    """What the rows came to.

    Attributes:
        models, whole, refused: how many.
        build: the build that was asked about.
        bytes: of all files together.
        severities, architectures, quantisations: how often each.
        rules: findings in the rows, by severity and rule.
        worst: the models with the most findings: errors, warnings, path.
    """

    models: int = 0
    whole: int = 0
    refused: int = 0
    build: int | None = None
    bytes: int = 0
    severities: Counter[str] = field(default_factory=Counter)
    architectures: Counter[str] = field(default_factory=Counter)
    quantisations: Counter[str] = field(default_factory=Counter)
    rules: Counter[tuple[str, str]] = field(default_factory=Counter)
    _worst: list[tuple[int, int, int, str]] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """One more row."""
        self.models += 1
        self.whole += bool(row["ok"])
        self.refused += refuses(row)
        self.build = row["build"]
        facts, lint = row["facts"], row["lint"] or {}
        self.severities.update(lint)
        self.rules.update((f["severity"], f["rule"]) for f in row["findings"])
        if facts is not None:
            self.bytes += facts["size"]
            _count(self.architectures, facts["architecture"])
            _count(self.quantisations, facts["quantisation"])
        bad = (int(not row["ok"]), lint.get("error", 0), lint.get("warning", 0), row["path"])
        if any(bad[:3]):
            put = heapq.heappush if len(self._worst) < WORST else heapq.heappushpop
            put(self._worst, bad)

    @property
    def worst(self) -> list[tuple[bool, int, int, str]]:
        """Not whole, errors, warnings, path: the worst first."""
        return [(bool(b), errors, warnings, path) for b, errors, warnings, path in sorted(self._worst, reverse=True)]


def _count(names: Counter[str], name: str) -> None:
    name = shorten(name, 40) or "none"
    names[name if name in names or len(names) < DIFFERENT else "others"] += 1


@dataclass(slots=True)
class Shown:
    """What is shown of a scan; ``counts``, ``ok`` and ``errors`` are complete when its end is asked for.

    Attributes:
        paths: what was asked for.
        style: colours.
        counts: what the rows came to.
        ok: no row fails.
        errors: bugs of ours, as objects.
        body: further fields of a report that is one object.
        kept: what a format keeps from row to row, by name.
    """

    paths: Sequence[str]
    style: Style = field(default_factory=Style)
    counts: Counts = field(default_factory=Counts)
    ok: bool = True
    errors: list[Mapping[str, object]] = field(default_factory=list)
    body: dict[str, object] = field(default_factory=dict)
    kept: dict[str, object] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """The one folder that was asked for, with a slash: it stands above the table; "" when there are several."""
        return os.path.join(self.paths[0], "") if len(self.paths) == 1 and os.path.isdir(self.paths[0]) else ""


@dataclass(frozen=True, slots=True)
class Format:
    """One format of a scan: text each, "" for nothing.

    Attributes:
        begin: what stands above the rows.
        row: one row.
        end: what stands below them.
        sorted: the rows wait on the disk and are written in order of their paths, so that ``begin`` knows all counts.
        between: what stands between two rows.
        data: for programs: UTF-8, whatever the terminal has.
        bill: the rows must hold a bill of materials.
    """

    begin: Callable[[Shown], str]
    row: Callable[[Row, Shown], str]
    end: Callable[[Shown], str]
    sorted: bool = False
    between: str = ""
    data: bool = False
    bill: bool = False


def short(row: Row, folder: str) -> str:
    """Its path below the folder."""
    return str(row["path"]).removeprefix(folder)


def cells(row: Row) -> list[str]:
    """What the columns from ``role`` to ``size`` hold."""
    facts = row["facts"]
    if facts is None:
        return ["", "", "", "", "", "", ""]
    bits, context = facts["bits_per_weight"], facts["context_length"]
    return [
        facts["role"],
        facts["architecture"],
        millions(facts["parameters"]),
        facts["quantisation"],
        f"{bits:.2f}" if bits is not None else "",
        f"{context:,}" if context is not None else "",
        size(facts["size"]),
    ]


def load(row: Row) -> str:
    """What llama.cpp does with it in its role; nothing of a file that it is not known to load in that role."""
    role = row["facts"]["role"] if row["facts"] else "model"
    return (row["load"] or "") if ROLES[role].loads or role in OTHERS else ""


def millions(parameters: int) -> str:
    """Parameters as people say them."""
    if parameters >= 1_000_000_000:
        return f"{parameters / 1e9:.1f}B"
    return f"{parameters / 1e6:.1f}M" if parameters >= 1_000_000 else f"{parameters:,}"


def lint(row: Row) -> str:
    """Errors and warnings in words."""
    counts = row["lint"]
    return "" if counts is None else several(counts) or "clean"


def several(counts: Mapping[str, int]) -> str:
    """Errors and warnings in words, "" when there are none."""
    return ", ".join(f"{n:,} {level}{'s' if n > 1 else ''}" for level, n in counts.items() if n and level != "info")


def reason(row: Row) -> str:
    """Why it is not whole, or could not be read."""
    if row["error"]:
        return str(row["error"]["message"]).removeprefix(f"{row['path']}: ")
    problems = row["problems"]
    if not problems:
        return ""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{problems[0]['message']}{more}"


def whole(row: Row) -> str:
    """Whether it is whole, and why not."""
    why = reason(row)
    return f"no: {why}" if not row["ok"] else f"yes; {why}" if row["error"] else "yes"
