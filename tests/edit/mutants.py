"""Mutants of the editor: the product with one step left out - a wait for the disk, a mark, the poison, the punch.

A crash test that does not notice a missing step proves nothing about it. So every step is left out once, and the table
of those that nothing notices stands here with the reason why each is not needed or cannot be seen by the model.
"""

from __future__ import annotations

import linecache
import sys
from functools import cache

_EDIT = "/gguftool/edit/"
# Helpers whose caller is the step that counts.
_HELPERS = {"barrier", "poison", "unpoison", "mark", "drop_journal"}
_MARKS = {"poison", "unpoison", "mark"}

_REPEATED = "only the end of a settled journal: when it is lost, recovery runs once more and finds the same"
_FIRST = "commit and undo have synced the journal and its folder before they touch the file; kept against other writers"

_RARE = "three failures in a row, too rare for random runs: test_power.test_a_phase_that_was_lost_is_marked_again"

SURVIVORS = {
    "sync commit._open_alone: layer.fsync(model)": "for speed only: dirty pages are written before others have to wait",
    "sync undo._collapse: layer.fsync(model)": "for speed only: dirty pages are written before others have to wait",
    "sync recover._close_gap: barrier(layer, model, path) #2": "doubled by the barrier behind the saved bytes: "
    "they go to the same blocks of the disk whether or not the shift is there yet",
    "sync undo._collapse: poison(layer, model, path)": "doubled by the punch: the pages are written before it",
    "sync recover._end: drop_journal(layer, path)": _REPEATED,
    "sync recover._finish: drop_journal(layer, path)": _REPEATED,
    "sync recover._torn: drop_journal(layer, path)": _REPEATED,
    "sync commit.abandon: drop_journal(layer, path)": _REPEATED,
    "sync recover._recover: barrier(layer, journal, real)": _FIRST,
    "sync recover._settled: barrier(layer, model, path)": "where the file is not in doubt, it was synced before: "
    "under another name or by the step that wrote it",
    "sync recover._recover: mark(layer, journal, record, ROLLBACK, real)": _RARE,
    "write recover._recover: mark(layer, journal, record, ROLLBACK, real)": _RARE,
}
"""Step -> why no run notices that it is missing."""


def site(verb: str) -> str | None:
    """The step of `gguftool.edit` that asks for this operation, or None for a write that is no mark.

    Named by verb, module, function and line (numbered when the line repeats in its function).
    """
    frame = sys._getframe(3)
    helpers: list[str] = []
    while frame is not None:
        code = frame.f_code
        if _EDIT in code.co_filename:
            if code.co_name not in _HELPERS:
                break
            helpers.append(code.co_name)
        frame = frame.f_back
    if frame is None or (verb == "write" and not _MARKS.intersection(helpers)):
        return None
    code = frame.f_code
    return f"{verb} {_name(code.co_filename, code.co_name, code.co_firstlineno, frame.f_lineno)}"


@cache
def _name(filename: str, function: str, first: int, line: int) -> str:
    text = linecache.getline(filename, line).strip()
    same = [n for n in range(first, line + 1) if linecache.getline(filename, n).strip() == text]
    module = filename.rpartition("/")[2].removesuffix(".py")
    number = f" #{len(same)}" if len(same) > 1 else ""
    return f"{module}.{function}: {text}{number}"
