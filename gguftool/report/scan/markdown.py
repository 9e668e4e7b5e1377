"""Rows of a scan as a table of Markdown, and below it what they come to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gguftool.report.scan.shown import HEADERS, Counts, Format, Row, Shown, cells, lint, load, several, whole
from gguftool.report.text import safe, size

MANY = 15
"""Architectures and quantisations that are counted by name."""


def begin(shown: Shown) -> str:
    """The titles."""
    return _line(HEADERS) + f"|{'|'.join('---' for _ in HEADERS)}|\n"


def row(row: Row, shown: Shown) -> str:
    """A line of the table."""
    return _line((row["path"], *cells(row), whole(row), load(row), lint(row)))


def end(shown: Shown) -> str:
    """The summary."""
    counts = shown.counts
    if not counts.models:
        return "no models found\n"
    lines = [f"\n{total(counts)}\n"]
    for title, names in (("architecture", counts.architectures), ("quantisation", counts.quantisations)):
        lines += [f"\n| {title} | models |\n|---|---:|\n", *(_line((n, f"{k:,}")) for n, k in names.most_common(MANY))]
        if (rest := sum(names.values()) - sum(k for _, k in names.most_common(MANY))) > 0:
            lines.append(_line(("others", f"{rest:,}")))
    if counts.worst:
        lines += ["\n| worst | whole | findings |\n|---|---|---|\n", *_worst(counts)]
    return "".join(lines)


def total(counts: Counts) -> str:
    """The sentence that counts."""
    broken = counts.models - counts.whole
    models = "model" if counts.models == 1 else "models"
    said = f"{counts.models:,} {models}, {size(counts.bytes)}: {counts.whole:,} whole, {broken:,} not"
    found = several({level: counts.severities[level] for level in ("error", "warning")})
    return f"{said}; {found}" if found else said


def _worst(counts: Counts) -> Iterable[str]:
    for broken, errors, warnings, path in counts.worst:
        found = several({"error": errors, "warning": warnings})
        yield _line((path, "no" if broken else "yes", found))


def _line(parts: Sequence[str]) -> str:
    return f"| {' | '.join(safe(part).replace('|', chr(92) + '|') for part in parts)} |\n"


MARKDOWN = Format(begin, row, end)
