"""Whether a file that is not whole may still become it: a download, a copy, an edit that goes on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from gguftool.errors import GgufToolError
from gguftool.fleet.row import Row, stamp
from gguftool.model.shards import LIKELY
from gguftool.verify import siblings
from gguftool.verify.modelcheck import check

_KINDS = frozenset(
    {"truncated", "empty", "zeros", "partial-download", "shard-missing", "shard-unreadable", "interrupted-edit"}
)
"""Kinds of faults that more bytes, further files or the end of an edit mend."""
_CODES = frozenset({"changed-meanwhile", "interrupted-edit", "edit-in-progress", "missing-file"})
"""Codes of errors that time mends; a file that is missing is one that a link names."""
_HOLES = "holes"
SHORTEST = 32
"""Bytes: a file that is shorter says nothing about what it will be."""
_BLOCK = 512
_SLACK = 1 << 16

Mark = tuple[str | None, tuple[object, ...]]
"""Size and time of files, then what else of them and beside them changes what is said of one that is not whole."""


def mark(files: Sequence[str], *, whole: bool) -> Mark:
    """What files are like now; two that are equal need not be looked at twice."""
    if whole:
        return stamp(files), ()
    # A right that is granted changes only this time; of a link and what it names both.
    times: list[object] = []
    for path in files:
        for look in (os.lstat, os.stat):
            with contextlib.suppress(OSError, ValueError):
                times.append(look(path).st_ctime_ns)
        # Of a folder that cannot be listed nothing lies beside it.
        if LIKELY.fullmatch(os.path.basename(path)):
            times.append(siblings.signs(path))
    return stamp(files), tuple(times)


def unfinished(row: Row) -> bool:
    """Whether waiting may make it whole: what is missing of it may be on its way."""
    error = row["error"]
    if error is not None and error["code"] in _CODES:
        return True
    if row["ok"]:
        return _sparse(row["files"]) and _HOLES in _kinds(row["path"])
    kinds = {problem["kind"] for problem in row["problems"]} or _kinds(row["path"])
    return bool(kinds & _KINDS) or _short(row["path"])


def _kinds(path: str) -> set[str]:
    """What verification finds and notes of it, by kind."""
    try:
        found = check(path)
    except (GgufToolError, OSError):
        return set()
    return {fault.kind for report in found.files for fault in (*report.faults, *report.notes)}


def _short(path: str) -> bool:
    try:
        return os.stat(path).st_size < SHORTEST and os.path.isfile(path)
    except OSError:
        return False


def _sparse(files: Sequence[str]) -> bool:
    """Whether files take less room than they are long: a tool that reserves their length writes them in any order."""
    for path in files:
        with contextlib.suppress(OSError):
            found = os.stat(path)
            if found.st_blocks * _BLOCK + _SLACK < found.st_size:
                return True
    return False
