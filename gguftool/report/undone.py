"""Edits that were taken back or finished, and those that can be, for people and for JSON."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gguftool.report.text import Style, safe
from gguftool.shell import gguftool, path_word

if TYPE_CHECKING:
    from gguftool.edit.journal import Record
    from gguftool.edit.recover import Outcome
    from gguftool.edit.undo import Undone


def undone_text(done: Undone, style: Style) -> str:
    """What an undo took back."""
    lines = [f"{style.green('undone')} in {safe(done.path)} ({done.strategy}):"]
    lines += [f"  {safe(line)}" for line in done.record.operations] or ["  (the record names no operations)"]
    if done.data_kept:
        lines.append("the header is as before that edit; tensor data that something else changed since was left alone")
    else:
        lines.append("the file has the same bytes as before that edit")
    if done.left:
        lines.append(f"{done.left} older edit{'' if done.left == 1 else 's'} can be undone too")
    return "\n".join(lines)


def undone_body(done: Sequence[Undone]) -> dict[str, object]:
    """The fields of ``gguftool undo --format json``."""
    return {
        "undone": [
            {
                "path": d.path,
                "number": d.number,
                "strategy": d.strategy,
                "operations": list(d.record.operations),
                "time": d.record.time,
                "size": d.record.old_size,
                "data_kept": d.data_kept,
            }
            for d in done
        ],
        "left": done[-1].left if done else 0,
    }


_ACTIONS = {
    "nothing": "no edit was interrupted; nothing to do",
    "rolled-back": "the interrupted edit was taken back: the file is exactly as it was before it",
    "completed": "the interrupted edit was finished: the file is exactly what it should become",
    "discarded": "the edit had not begun: the file is as it was, its journal was removed",
}


def recovered_text(outcome: Outcome, style: Style) -> str:
    """What recovery found and did."""
    lines = [f"{safe(outcome.path)}: {_ACTIONS[outcome.action]}"]
    if outcome.action != "nothing":
        lines += [f"  {safe(line)}" for line in (outcome.record.operations if outcome.record else ())]
    if outcome.kept:
        lines.append(f"what had the journal's name is no journal of gguftool, it was kept: {safe(outcome.kept)}")
    if outcome.undo:
        lines.append(f"undo: {gguftool('undo', path_word(outcome.path))}")
    elif outcome.action == "rolled-back":
        lines.append("run the command again to make the change")
    return "\n".join(lines)


def recovered_body(outcome: Outcome) -> dict[str, object]:
    """The fields of ``gguftool recover --format json``."""
    return {
        "path": outcome.path,
        "state": outcome.state,
        "action": outcome.action,
        "operations": list(outcome.record.operations) if outcome.record else [],
        "undo": outcome.undo,
        "kept": outcome.kept,
    }


def history_rows(path: str, records: Sequence[tuple[int, Record | None]]) -> list[tuple[int, str, str]]:
    """Undo records as rows: number, when, what."""
    import time

    rows = []
    for number, record in records:
        if record is None:
            rows.append((number, "-", "is damaged, or no undo record: it cannot be undone"))
            continue
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.time))
        rows.append((number, when, "; ".join(record.operations) or os.path.basename(path)))
    return rows


def history_body(records: Sequence[tuple[int, Record | None]]) -> list[dict[str, object]]:
    """Undo records as JSON; one that is damaged has neither time nor operations."""
    return [
        {
            "number": number,
            "time": record.time if record is not None else None,
            "operations": list(record.operations) if record is not None else [],
            "damaged": record is None,
        }
        for number, record in records
    ]
