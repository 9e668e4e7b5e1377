"""Rows of a scan as JSON: one object, sorted, or a line each."""

from __future__ import annotations

from gguftool.report.envelope import dumps, envelope
from gguftool.report.scan.shown import Format, Row, Shown

_ROWS = '"models": []'


def _begin(shown: Shown) -> str:
    return _object(shown)[0]


def _row(row: Row, shown: Shown) -> str:
    return "\n    " + dumps(row, compact=True)


def _end(shown: Shown) -> str:
    return ("\n  ]" if shown.counts.models else "]") + _object(shown)[1] + "\n"


def _object(shown: Shown) -> tuple[str, str]:
    """What stands before and behind the rows."""
    counts = shown.counts
    body = {
        "models": [],
        "counts": {"models": counts.models, "whole": counts.whole, "broken": counts.models - counts.whole},
        **shown.body,
    }
    # No text in it can hold these words: its quotes are escaped.
    before, _, after = dumps(envelope("scan", shown.ok, body, shown.errors)).partition(_ROWS)
    return f"{before}{_ROWS[:-1]}", after


def _line(row: Row, shown: Shown) -> str:
    return dumps({"format": "gguftool.scan-row/1", **row}, compact=True) + "\n"


def _nothing(shown: Shown) -> str:
    return ""


JSON = Format(_begin, _row, _end, sorted=True, between=",", data=True)
JSONL = Format(_nothing, _line, _nothing, data=True)
