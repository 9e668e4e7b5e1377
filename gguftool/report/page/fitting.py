"""A page within its bound: what is many is shown in fewer rows, and the page says how many are left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gguftool.report.page.data import Body

LISTS = (
    ("model", "tensors"),
    ("model", "keys"),
    ("model", "layers"),
    ("model", "findings"),
    ("model", "not_evaluated"),
    ("model", "templates", "previews"),
    ("model", "quantisation", "mixture", "otherwise"),
    ("model", "bytes", "by_block"),
    ("model", "hashes"),
    ("model", "edits"),
    ("model", "builds", "needs"),
    ("model", "builds", "builds"),
    ("model", "beside"),
    ("repository", "models"),
    ("repository", "beside"),
    ("fleet", "models"),
)
"""Where the lists stand that can be long."""
FIRST = 4000
"""Rows of each with which the first page is made."""


def fitted(found: Body, make: Callable[[Body], str], limit: int) -> str:
    """The page with as many rows as fit; the lists are cut until it does.

    Args:
        found: the fields, all texts cut already.
        make: makes a page of fields; those have ``left``: by name of a list, how many rows it lacks.
        limit: bytes.
    """
    most = FIRST
    while True:
        text = make(_cut(found, most))
        size = len(text.encode())
        if size <= limit or most <= 1:
            return text
        most = max(1, min(most - 1, int(0.95 * most * limit / size)))


def _cut(found: Body, most: int) -> Body:
    """The same fields with at most so many rows in each list."""
    out, left = found, {}
    for path in LISTS:
        rows = _at(out, path)
        if isinstance(rows, list) and len(rows) > most:
            out = _put(out, path, _largest(rows, most) if path[-1] == "tensors" else rows[:most])
            left[path[-1]] = len(rows) - most
    return {**out, "left": left}


def _largest(rows: list[Body], most: int) -> list[Body]:
    """So many of the tensors that take the most bytes, in the order of the file."""
    by_size = sorted(range(len(rows)), key=lambda i: -(rows[i]["bytes"] or 0))
    return [rows[i] for i in sorted(by_size[:most])]


def _at(found: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _put(found: Body, path: tuple[str, ...], value: object) -> Body:
    first, *rest = path
    return {**found, first: value if not rest else _put(found[first], tuple(rest), value)}
