"""One row of facts for each of many models, made in parallel; what cannot be read is a row that says so."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypedDict, cast

from gguftool.endings import as_usual, die_with_parent
from gguftool.errors import Bug, GgufToolError, Refused, of_one
from gguftool.files.small import append
from gguftool.fleet.find import models
from gguftool.hub import named
from gguftool.model import Model
from gguftool.reading import Malformed, from_json

if TYPE_CHECKING:
    from gguftool.predict import Prediction

AHEAD = 8
"""Models that wait for each worker, or whose rows were not taken yet."""
FEW = 3
"""Up to so many models another process costs more than it gives."""


class Row(TypedDict):
    """One model of a scan.

    Attributes:
        path: as it was found.
        stamp: size and time of a local file, None for an address.
        ok: whether it is whole.
        problems: why not: kind, message, where.
        set: of shards: how many there should be, how many there are, whether they belong together.
        facts: architecture, name, size, parameters, quantisation, bits per weight, context length, tensors.
        lint: number of findings by severity, None when the rules did not run.
        load: what llama.cpp is predicted to do with it, None when it was not asked.
        build: number of the build that was asked about, None: the newest that is known.
        said: first error line of that build, None where it has none.
        error: why it could not be read: code, message, hint.
    """

    path: str
    stamp: str | None
    ok: bool
    problems: list[dict[str, str]]
    set: dict[str, Any] | None
    facts: dict[str, Any] | None
    lint: dict[str, int] | None
    load: str | None
    build: int | None
    said: str | None
    error: dict[str, str | None] | None


def scan(
    paths: Model | str | os.PathLike[str] | Sequence[Model | str | os.PathLike[str]],
    *,
    jobs: int | None = None,
    lint: bool = True,
    resume: str | os.PathLike[str] | None = None,
    build: int | None = None,
) -> Iterator[Row]:
    """Look at many models: one row each, in the order they are done. Headers are read, tensor data is not.

    Args:
        paths: files, open models, folders with their subfolders, ``hf://owner/repo``, ``hf://owner``; of a set one row
            is made.
        jobs: models at a time; the number of processors when None.
        lint: run the rules too, and predict what llama.cpp does.
        resume: file that keeps the rows; models whose size and time are the same are taken from it.
        build: number of the build of llama.cpp to judge by; None: the newest that is known.

    Raises:
        MissingFile: a path that does not exist.
        Refused: ``resume`` is a file of another kind.
        ToolFailed: the Hub cannot be asked.
    """
    wanted = [paths] if isinstance(paths, (Model, str, os.PathLike)) else paths
    store = os.fspath(resume) if resume is not None else ""
    kept = _kept(store, lint, build) if store else {}
    todo: list[str] = []
    for path in models([named(one) for one in wanted]):
        old = kept.get(path)
        if old is not None and old["stamp"] == stamp(path):
            yield old
        else:
            todo.append(path)
    for row in _work(todo, jobs, lint, build):
        if store:
            append(store, [json.dumps(row)])
        yield row


def stamp(path: str) -> str | None:
    """Size and time of a local file; None for an address."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return f"{found.st_size}:{found.st_mtime_ns}"


def _kept(resume: str, lint: bool, build: int | None) -> dict[str, Row]:
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
                    row = from_json(line, halves=True)
                except Malformed:
                    continue
                same = isinstance(row, dict) and row.get("build") == build and "said" in row
                if same and row.get("stamp") and (row.get("lint") is not None) == lint:
                    found[str(row.get("path"))] = cast(Row, row)
    except FileNotFoundError:
        pass
    return found


def _work(todo: Sequence[str], jobs: int | None, lint: bool, build: int | None) -> Iterator[Row]:
    one = partial(look, lint=lint, build=build)
    # Windows lets a pool wait for 61 processes.
    workers = min(jobs or os.cpu_count() or 1, len(todo), 61)
    if workers < 2 or len(todo) <= FEW:
        yield from map(one, todo)
        return
    in_main = threading.current_thread() is threading.main_thread()
    with ProcessPoolExecutor(workers, initializer=_worker, initargs=(in_main,)) as pool:
        # A few more than there are workers: what was asked for and not given on yet is what takes memory.
        rest, asked, lost = iter(todo), dict[Future[Row], str](), list[str]()
        while True:
            for path in islice(rest, AHEAD * workers - len(asked)):
                try:
                    asked[pool.submit(one, path)] = path
                except BrokenProcessPool:
                    lost.append(path)
            if not asked:
                break
            for done in wait(asked, return_when=FIRST_COMPLETED).done:
                path = asked.pop(done)
                try:
                    row = done.result()
                except BrokenProcessPool:
                    lost.append(path)
                else:
                    yield row
    # A worker was killed, and the pool with it: each of the rest in a process of its own, so that only one is blamed.
    for path in lost:
        with ProcessPoolExecutor(1, initializer=_worker, initargs=(in_main,)) as alone:
            try:
                yield alone.submit(one, path).result()
            except BrokenProcessPool:
                row = _row(path, build)
                _failed(row, Bug("the process that looked at it died", path))
                yield row


def _worker(bound: bool) -> None:
    """A worker ends with the command, however that ends; not with a thread, which the kernel takes for the parent."""
    as_usual()
    if bound:
        die_with_parent()


def _row(path: str, build: int | None) -> Row:
    return Row(
        path=path, stamp=stamp(path), ok=False, problems=[], set=None, facts=None, lint=None, load=None, build=build,
        said=None, error=None,
    )  # fmt: skip


def look(path: str, *, lint: bool, build: int | None = None) -> Row:
    """The row of one model; what cannot be read is a row with an error."""
    row = _row(path, build)
    try:
        _fill(row, path, lint)
    except Exception as error:
        # Whatever one model causes must not hide what is wrong with the others.
        _failed(row, of_one(error, path))
    return row


def _failed(row: Row, error: GgufToolError) -> None:
    row["error"] = {"code": error.code, "message": str(error), "hint": error.hint}


def _fill(row: Row, path: str, lint: bool) -> None:
    from gguftool import hub
    from gguftool.model.overview import overview
    from gguftool.predict import predict
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
        load = _lint(row, model) if lint else predict(model, row["build"]) if row["build"] is not None else None
        row["load"] = load.verdict if load is not None else None
        row["said"] = (load.reason or None) if load is not None else None


def _lint(row: Row, model: Model) -> Prediction | None:
    from gguftool.lint.call import lint
    from gguftool.lint.rule import Severity
    from gguftool.model.role import ROLES, role
    from gguftool.run.lying import projectors

    # A projector in the folder of one model is meant for it.
    report = lint(model, beside=list(projectors(model)) if ROLES[role(model)].runs else (), build=row["build"])
    if report.failed:
        first = report.failed[0]
        more = f" (and {len(report.failed) - 1} more rules)" if len(report.failed) > 1 else ""
        _failed(row, Bug(f"{first.rule}: {first.why}{more}", row["path"]))
    row["lint"] = {str(severity): report.count(severity) for severity in Severity}
    return report.load


def refuses(row: Mapping[str, Any]) -> bool:
    """Whether the build that was asked about does not load the model."""
    return row["build"] is not None and row["load"] in ("refused", "aborts")


def internal(row: Mapping[str, Any]) -> bool:
    """Whether a bug of ours kept it from being judged."""
    return row["error"] is not None and row["error"]["code"] == GgufToolError.code


def fails(row: Row, fail_on: str) -> bool:
    """Whether a row makes the scan fail."""
    if fail_on == "never":
        return False
    if not row["ok"] or refuses(row):
        return True
    counts = row["lint"] or {}
    levels = {"broken": (), "error": ("error",), "warning": ("error", "warning")}[fail_on]
    return any(counts.get(level) for level in levels)
