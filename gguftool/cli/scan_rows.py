"""Rows of ``gguftool scan``: which models there are, and one row of facts for each, made in parallel."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from typing import Any

from gguftool.endings import as_usual, die_with_parent
from gguftool.errors import GgufToolError, MissingFile, Refused
from gguftool.files.small import append

Row = dict[str, Any]
FEW = 3
"""Up to so many models another process costs more than it gives."""


def rows(paths: Sequence[str], *, jobs: int | None, lint: bool, resume: str | None) -> Iterator[Row]:
    """One row for every model, in the order they are done.

    Args:
        paths: files, folders, ``hf://owner/repo``, ``hf://owner``.
        jobs: models at a time.
        lint: run the rules too.
        resume: file that keeps the rows; models whose size and time are the same are taken from it.

    Raises:
        MissingFile: a path that does not exist.
        Refused: ``resume`` is a file of another kind.
        ToolFailed: the Hub cannot be asked.
    """
    kept = _kept(resume, lint) if resume else {}
    todo: list[str] = []
    for path in models(paths):
        old = kept.get(path)
        if old is not None and old.get("stamp") == stamp(path):
            yield old
        else:
            todo.append(path)
    for row in _work(todo, jobs, lint):
        if resume:
            append(resume, [json.dumps(row)])
        yield row


def models(paths: Sequence[str]) -> Iterator[str]:
    """Files and addresses to look at: of a set only the first shard, `mmproj` files included."""
    from gguftool import hub
    from gguftool.model.shards import NAME

    seen: set[str] = set()
    for path in paths:
        if path.startswith("hf://"):
            owner = path.removeprefix("hf://").rstrip("/")
            if "/" not in owner:
                from gguftool.hub.remote import repositories

                for repo in repositories(owner):
                    yield from _of_repository(f"hf://{repo}")
            else:
                yield from _of_repository(path)
            continue
        if hub.is_remote(path):
            yield path
            continue
        if not os.path.lexists(path):
            raise MissingFile(f"{path}: no such file or folder")
        for name in [path] if not os.path.isdir(path) else _walk(path):
            m = NAME.match(name)
            key = f"{m['prefix']} {m['count']}" if m else name
            if key not in seen:
                seen.add(key)
                yield name


def _walk(folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders.sort()
        yield from (os.path.join(place, n) for n in sorted(names) if n.lower().endswith(".gguf"))


def _of_repository(spec: str) -> Iterator[str]:
    from gguftool.hub.address import hub_address
    from gguftool.hub.cache import pick
    from gguftool.hub.remote import listing

    address = hub_address(spec)
    if address.path:
        yield spec
        return
    at = "" if address.revision == "main" else f"@{address.revision}"
    for name in pick([record.path for record in listing(address)], address.quant):
        yield f"hf://{address.repo}{at}/{name}"


def stamp(path: str) -> str | None:
    """Size and time of a local file; None for an address."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return f"{found.st_size}:{found.st_mtime_ns}"


def _kept(resume: str, lint: bool) -> dict[str, Row]:
    """Rows of an earlier run; a last line that was cut off is left out.

    Raises:
        Refused: the file is no such list, and rows must not be put behind what it holds.
    """
    found: dict[str, Row] = {}
    try:
        with open(resume, "rb") as f:
            begin = f.read(1)
            if begin not in (b"", b"{"):
                raise Refused(f"{resume}: exists already and holds no rows of a scan", "name another file")
            f.seek(0)
            for line in f:
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if isinstance(row, dict) and row.get("stamp") and (row.get("lint") is not None) == lint:
                    found[str(row.get("path"))] = row
    except FileNotFoundError:
        pass
    return found


def _work(todo: Sequence[str], jobs: int | None, lint: bool) -> Iterator[Row]:
    one = partial(look, lint=lint)
    workers = min(jobs or os.cpu_count() or 1, len(todo))
    if workers < 2 or len(todo) <= FEW:
        yield from map(one, todo)
        return
    with ProcessPoolExecutor(workers, initializer=_worker) as pool:
        for done in as_completed([pool.submit(one, path) for path in todo]):
            yield done.result()


def _worker() -> None:
    """A worker ends with the command, however that ends."""
    as_usual()
    die_with_parent()


def look(path: str, *, lint: bool) -> Row:
    """The row of one model; what cannot be read is a row with an error."""
    row: Row = {"path": path, "stamp": stamp(path), "ok": False, "problems": [], "set": None, "facts": None}
    row |= {"lint": None, "load": None, "error": None}
    try:
        _fill(row, path, lint)
    except (GgufToolError, OSError) as error:
        code = error.code if isinstance(error, GgufToolError) else "unreadable"
        row["error"] = {"code": code, "message": str(error), "hint": getattr(error, "hint", None)}
    return row


def _fill(row: Row, path: str, lint: bool) -> None:
    from gguftool import hub
    from gguftool.model.overview import overview
    from gguftool.verify import check

    with hub.open_any(path, strict=False) as model:
        found = check(model if hub.is_remote(path) else path)
        row["ok"] = found.ok
        faults = [f for report in found.files for f in report.faults] + list(found.set.faults if found.set else ())
        row["problems"] = [{"kind": f.kind, "message": f.message, "where": f.where} for f in faults]
        if found.set is not None:
            row["set"] = {"count": found.set.count, "present": found.set.present, "ok": found.set.ok}
        o = overview(model)
        row["facts"] = {
            "architecture": o.architecture,
            "role": o.role,
            "name": o.name,
            "size": o.file_size,
            "parameters": o.parameters,
            "quantisation": o.label,
            "bits_per_weight": o.bits_per_weight,
            "context_length": o.context_length,
            "tensors": o.tensors,
        }
        if lint:
            _lint(row, model)


def _lint(row: Row, model: object) -> None:
    from gguftool.lint.call import lint
    from gguftool.lint.rule import Severity

    report = lint(model)  # type: ignore[arg-type]
    row["lint"] = {str(severity): report.count(severity) for severity in Severity}
    row["load"] = report.load.verdict if report.load is not None else None


def fails(row: Row, fail_on: str) -> bool:
    """Whether a row makes the scan fail."""
    if fail_on == "never":
        return False
    if not row["ok"]:
        return True
    counts = row["lint"] or {}
    levels = {"broken": (), "error": ("error",), "warning": ("error", "warning")}[fail_on]
    return any(counts.get(level) for level in levels)
