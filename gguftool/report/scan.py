"""Rows of a scan as a table, Markdown and JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gguftool.facts import llama_cpp
from gguftool.fleet.rows import refuses
from gguftool.model.role import ROLES
from gguftool.predict.stages import OTHERS
from gguftool.report.envelope import dumps
from gguftool.report.text import Style, Styled, safe, shorten, size, width

Row = Mapping[str, Any]
HEADERS = ("model", "role", "arch", "params", "quant", "bpw", "context", "size", "whole", "loads", "lint")
_WIDTHS = (44, 8, 12, 8, 10, 5, 11, 9, 5, 8, 0)
"""Columns, known before the rows are: a wider cell pushes the rest of its line."""


def head(paths: Sequence[str], style: Style, *, markdown: bool) -> str:
    """What stands above the rows; ``paths``: what was asked for."""
    if markdown:
        return "".join(f"|{'|'.join(cells)}|\n" for cells in ([f" {h} " for h in HEADERS], ["---"] * len(HEADERS)))
    top = folder(paths)
    return (f"{style.dim(top)}\n" if top else "") + _columns([style.bold(title) for title in HEADERS])


def folder(paths: Sequence[str]) -> str:
    """The one folder that was asked for, with a slash: it stands above the table; "" when there are several."""
    return os.path.join(paths[0], "") if len(paths) == 1 and os.path.isdir(paths[0]) else ""


def text(row: Row, style: Style, folder: str) -> str:
    """A line, and below it the reason of what is wrong."""
    lines = _columns([_cell(value) for value in _cells(row, style, folder)])
    reason = _reason(row)
    if reason:
        lines += f"{style.red('FAULT')}  {safe(_short(row, folder))}: {safe(reason)}\n"
    if refuses(row):
        lines += f"{style.red('REFUSED')}  {safe(_short(row, folder))}: {safe(row['said'] or '')}\n"
    return lines


def markdown(row: Row) -> str:
    """A line of the Markdown table."""
    cells = [row["path"], *_facts(row), _whole(row), _load(row), _lint(row)]
    return f"| {' | '.join(_cell(value).replace('|', chr(92) + '|') for value in cells)} |\n"


@dataclass(slots=True)
class Counts:
    """What the rows came to."""

    models: int = 0
    whole: int = 0
    refused: int = 0
    build: int | None = None

    def add(self, row: Row) -> None:
        """One more row."""
        self.models += 1
        self.whole += bool(row["ok"])
        self.refused += refuses(row)
        self.build = row["build"]


def total(counts: Counts, style: Style) -> str:
    """The line that counts."""
    n, bad = counts.models, counts.models - counts.whole
    said = f"{n} model{'s' if n != 1 else ''}, {counts.whole} whole, {bad} not"
    if counts.build is not None:
        said += f"; {llama_cpp(counts.build)} does not load {counts.refused} of them"
    return (style.red if bad or counts.refused else style.green)(said)


def _columns(cells: Sequence[str]) -> str:
    parts = [
        " " * (columns - width(cell)) + cell if side == "r" else cell + " " * (columns - width(cell))
        for cell, columns, side in zip(cells, _WIDTHS, "lllrlrrrlll", strict=True)
    ]
    return "  ".join(parts).rstrip() + "\n"


def _cell(value: object) -> str:
    return value if isinstance(value, Styled) else safe(str(value))


def _short(row: Row, folder: str) -> str:
    return str(row["path"]).removeprefix(folder)


def _cells(row: Row, style: Style, folder: str) -> list[object]:
    whole = style.green("yes") if row["ok"] else style.red("no")
    return [shorten(_short(row, folder), 60), *_facts(row), whole, _load(row), _lint(row)]


def _facts(row: Row) -> list[object]:
    facts = row["facts"]
    if facts is None:
        return ["", "", "", "", "", "", ""]
    bits = facts["bits_per_weight"]
    context = facts["context_length"]
    return [
        facts["role"],
        facts["architecture"],
        _millions(facts["parameters"]),
        facts["quantisation"],
        f"{bits:.2f}" if bits is not None else "",
        f"{context:,}" if context is not None else "",
        size(facts["size"]),
    ]


def _load(row: Row) -> object:
    """What llama.cpp does with it in its role; nothing of a file that it is not known to load in that role."""
    role = row["facts"]["role"] if row["facts"] else "model"
    return (row["load"] or "") if ROLES[role].loads or role in OTHERS else ""


def _millions(parameters: int) -> str:
    if parameters >= 1_000_000_000:
        return f"{parameters / 1e9:.1f}B"
    return f"{parameters / 1e6:.1f}M" if parameters >= 1_000_000 else f"{parameters:,}"


def _lint(row: Row) -> str:
    counts = row["lint"]
    if counts is None:
        return ""
    return (
        ", ".join(f"{n} {level}{'s' if n > 1 else ''}" for level, n in counts.items() if n and level != "info")
        or "clean"
    )


def _reason(row: Row) -> str:
    if row["error"]:
        return str(row["error"]["message"]).removeprefix(f"{row['path']}: ")
    problems = row["problems"]
    if not problems:
        return ""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{problems[0]['message']}{more}"


def _whole(row: Row) -> str:
    reason = _reason(row)
    return f"no: {reason}" if not row["ok"] else f"yes; {reason}" if row["error"] else "yes"


def line(row: Row) -> str:
    """One row as a line of JSON."""
    return dumps({"format": "gguftool.scan-row/1", **row}, compact=True)


def body(counts: Counts) -> dict[str, object]:
    """The fields of the JSON object, but for its rows."""
    return {
        "models": [],
        "counts": {"models": counts.models, "whole": counts.whole, "broken": counts.models - counts.whole},
    }
