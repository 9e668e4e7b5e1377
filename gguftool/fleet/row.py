"""The row of one model in a scan: what it holds, and what it says about the whole scan."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, NotRequired, TypedDict

from gguftool.errors import GgufToolError
from gguftool.hub import is_remote
from gguftool.hub import stamp as far

MOST = 100
"""Findings that a row holds, the worst first; ``lint`` counts all."""
LONGEST = 500
"""Characters of a text in a row: a name in a file may be a megabyte long."""


class Found(TypedDict):
    """One finding of lint in a row; ``path`` where it lies in another file of the set."""

    rule: str
    severity: str
    message: str
    where: str
    digest: str
    path: NotRequired[str]


class Row(TypedDict):
    """One model of a scan.

    Attributes:
        path: as it was found; of a set its first file.
        stamp: size and time of its files, for an address its version as the server has it; None when nobody says.
        files: the files that it consists of.
        ok: whether it is whole.
        problems: why not: kind, message, where.
        set: of shards: how many there should be, how many there are, whether they belong together.
        facts: architecture, role, name, size, parameters, quantisation, bits per weight, context length, tensors.
        lint: number of findings by severity, None when the rules did not run.
        findings: rule, severity, message, where of each, the worst first; empty when the rules did not run.
        load: what llama.cpp is predicted to do with it, None when it was not asked.
        build: number of the build that was asked about, None: the newest that is known.
        said: first error line of that build, None where it has none.
        bill: for a bill of materials, None when it was not asked.
        error: why it could not be read: code, message, hint.
    """

    path: str
    stamp: str | None
    files: list[str]
    ok: bool
    problems: list[dict[str, str]]
    set: dict[str, Any] | None
    facts: dict[str, Any] | None
    lint: dict[str, int] | None
    findings: list[Found]
    load: str | None
    build: int | None
    said: str | None
    bill: dict[str, Any] | None
    error: dict[str, str | None] | None


def blank(path: str, build: int | None = None) -> Row:
    """A row that says nothing yet."""
    return Row(
        path=path, stamp=None, files=[path], ok=False, problems=[], set=None, facts=None, lint=None, findings=[],
        load=None, build=build, said=None, bill=None, error=None,
    )  # fmt: skip


def failed(path: str, error: GgufToolError, build: int | None = None) -> Row:
    """The row of what could not be looked at."""
    return tell(blank(path, build), error)


def tell(row: Row, error: GgufToolError) -> Row:
    """The same row with an error in it."""
    row["error"] = {"code": error.code, "message": str(error), "hint": error.hint}
    return row


def stamp(files: Iterable[str]) -> str | None:
    """Size and time of files, of an address its version, as one word; None when one of them is not there."""
    return as_one(_mark(path) for path in files)


def as_one(marks: Iterable[str | None]) -> str | None:
    """The stamps of several files as one word; None when one is missing."""
    found = list(marks)
    if not found or None in found:
        return None
    if len(found) == 1:
        return found[0]
    from hashlib import sha256

    return f"{len(found)}:{sha256(' '.join(map(str, found)).encode()).hexdigest()[:20]}"


def _mark(path: str) -> str | None:
    if is_remote(path):
        return far(path)
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return f"{found.st_size}:{found.st_mtime_ns}"


def refuses(row: Mapping[str, Any]) -> bool:
    """Whether the build that was asked about does not load the model."""
    return row["build"] is not None and row["load"] in ("refused", "aborts")


def internal(row: Mapping[str, Any]) -> bool:
    """Whether a bug of ours kept it from being judged."""
    return row["error"] is not None and row["error"]["code"] == GgufToolError.code


_LEVELS = {"broken": (), "error": ("error",), "warning": ("error", "warning"), "info": ("error", "warning", "info")}


def fails(row: Mapping[str, Any], fail_on: str) -> bool:
    """Whether a row makes the scan fail."""
    if fail_on == "never":
        return False
    if not row["ok"] or refuses(row):
        return True
    counts = row["lint"] or {}
    return any(counts.get(level) for level in _LEVELS[fail_on])
