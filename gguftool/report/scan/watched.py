"""Rows of folders that are watched, as they come: for people and for programs that collect lines."""

from __future__ import annotations

from gguftool.report.scan import text
from gguftool.report.scan.json import JSONL
from gguftool.report.scan.shown import Format, Row, Shown, short
from gguftool.report.text import safe

_WIDTH = 8


def _nothing(shown: Shown) -> str:
    return ""


def _row(row: Row, shown: Shown) -> str:
    style = shown.style
    event = str(row["event"])
    if row["event"] == "deleted":
        body = f"{safe(short(row, shown.folder))}\n"
    else:
        body = text.row(row, shown)
    padded = event.ljust(_WIDTH)
    shade = style.dim if row["event"] == "deleted" else style.green if row["ok"] else style.red
    return f"{style.dim(str(row['time']))}  {shade(padded)}  {body}"


WATCHED = {
    "text": Format(_nothing, _row, _nothing),
    "jsonl": JSONL,
}
"""Those that can be written without an end."""
