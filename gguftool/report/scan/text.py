"""Rows of a scan as a table on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.facts import llama_cpp
from gguftool.fleet.row import refuses
from gguftool.report.lines import columns, fold, row_lines
from gguftool.report.scan.shown import HEADERS, NUMBERS, Format, Row, Shown, cells, lint, load, reason, short
from gguftool.report.text import Styled, safe, shorten, width

_WIDTHS = (44, 8, 12, 8, 10, 5, 11, 9, 5, 8, 0)
"""Columns, known before the rows are: a wider cell pushes the rest of its line."""


def begin(shown: Shown) -> str:
    """The folder and the titles."""
    top = shown.folder
    titles = "" if _narrow() else _columns([shown.style.bold(title) for title in HEADERS])
    return (f"{shown.style.dim(top)}\n" if top else "") + titles


def row(row: Row, shown: Shown) -> str:
    """A line, and below it the reason of what is wrong."""
    style, name = shown.style, short(row, shown.folder)
    yes = style.green("yes") if row["ok"] else style.red("no")
    told = [_cell(value) for value in (shorten(name, 60), *cells(row), yes, load(row), lint(row))]
    most = _narrow()
    lines = "".join(f"{line}\n" for line in row_lines(told, HEADERS, "", most)) if most else _columns(told)
    why = reason(row)
    if why:
        lines += fold(f"{style.red('FAULT')}  {safe(name)}: {safe(why)}\n")
    if refuses(row):
        lines += fold(f"{style.red('REFUSED')}  {safe(name)}: {safe(row['said'] or '')}\n")
    return lines


def end(shown: Shown) -> str:
    """The line that counts."""
    counts = shown.counts
    if not counts.models:
        return "no models found\n"
    n, bad = counts.models, counts.models - counts.whole
    said = f"{n:,} model{'s' if n != 1 else ''}, {counts.whole:,} whole, {bad:,} not"
    if counts.build is not None:
        said += f"; {llama_cpp(counts.build)} does not load {counts.refused:,} of them"
    return fold((shown.style.red if bad or counts.refused else shown.style.green)(said)) + "\n"


def _narrow() -> int | None:
    """Columns of a terminal that has too few for those of the table."""
    most = columns()
    return most if most is not None and most < sum(_WIDTHS) + 2 * len(_WIDTHS) else None


def _columns(parts: Sequence[str]) -> str:
    padded = [
        " " * (size - width(cell)) + cell if title in NUMBERS else cell + " " * (size - width(cell))
        for cell, size, title in zip(parts, _WIDTHS, HEADERS, strict=True)
    ]
    return "  ".join(padded).rstrip() + "\n"


def _cell(value: object) -> str:
    return value if isinstance(value, Styled) else safe(str(value))


TEXT = Format(begin, row, end)
