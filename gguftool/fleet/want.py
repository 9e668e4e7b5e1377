"""What is to be made of each model of a scan, and the making of it: a row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from gguftool.brief import short_repr
from gguftool.errors import Bug, ChangedMeanwhile, GgufToolError, of_one
from gguftool.fleet.row import LONGEST, MOST, Found, Row, as_one, blank, stamp, tell
from gguftool.hub import is_remote, open_any, patient
from gguftool.lint.config import NOWHERE, PerFile
from gguftool.model import Model
from gguftool.model.opening import beginning, whole
from gguftool.model.shards import naming, split_keys
from gguftool.records import dataclass
from gguftool.verify.modelcheck import check, check_here

if TYPE_CHECKING:
    from gguftool.lint.policy import Policy
    from gguftool.lint.run import Report
    from gguftool.predict import Prediction
    from gguftool.source import Source
    from gguftool.verify.result import Verification


@dataclass(frozen=True, slots=True)
class Want:
    """What a row shall hold; made once for a scan, and sent to every worker.

    Attributes:
        lint: run the rules too, and predict what llama.cpp does.
        build: number of the build of llama.cpp to judge by; None: the newest that is known.
        select: rule ids and families to run; all when empty.
        ignore: rule ids and families to leave out.
        ignored: rules that are left out for some files.
        context_length: context wanted, in tokens.
        cache_type: KV cache types wanted, K and V.
        policy: what every model must satisfy.
        bill: fill in ``bill``.
        hashes: with the SHA-256 of the files, for which they are read whole.
    """

    lint: bool = True
    build: int | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    ignored: PerFile = NOWHERE
    context_length: int | None = None
    cache_type: tuple[str, str] | None = None
    policy: Policy | None = None
    bill: bool = False
    hashes: bool = False

    __repr__ = short_repr


class Task(NamedTuple):
    """One path to look at; ``alone``: also when it is a shard that is not the first of its set."""

    path: str
    alone: bool = False


class Seen(NamedTuple):
    """What a worker says of one path.

    Attributes:
        path: of the task.
        row: None for a shard that another file begins.
        member: number, count and tensors of the set that such a shard belongs to.
        covers: further files that the row speaks of.
        doubtful: it cannot be read and is named like a shard: where its set has a row, that says so.
    """

    path: str
    row: Row | None = None
    member: tuple[int, int, int | None] | None = None
    covers: tuple[str, ...] = ()
    doubtful: bool = False


def look(path: str, want: Want) -> Row:
    """The row of one model; what cannot be read is a row with an error."""
    row = seen(Task(path, alone=True), want).row
    return row if row is not None else blank(path, want.build)


def seen(task: Task, want: Want) -> Seen:
    """One path looked at: a row, or that the file is a shard of a set that another file begins."""
    path = task.path
    row = blank(path, want.build)
    covers: tuple[str, ...] = ()
    here = not is_remote(path)
    if here:
        row["stamp"] = stamp([path])
    try:
        if not here:
            # Its row is kept, not its header: there may be a million.
            with patient(), open_any(path, strict=False, keep=False) as model:
                covers = _fill(row, model, want)
                row["stamp"] = as_one(_version(part.source) for part in model.parts)
        else:
            first = beginning(path)
            keys = split_keys(first.header)
            if keys is not None and keys.no > 0 and not task.alone:
                first.source.close()
                return Seen(path, member=(keys.no, keys.count, keys.tensors))
            try:
                model = whole(first, strict=False)
            except GgufToolError:
                # One of its shards cannot be read at all; the row is that of the set all the same.
                covers = _checked(row, check(path))
                raise
            with model:
                covers = _fill(row, model, want)
    except Exception as error:
        # Whatever one model causes must not hide what is wrong with the others.
        tell(row, of_one(error, path))
    if here:
        _still(row)
    said = naming(path) if here and row["facts"] is row["set"] is None else None
    return Seen(path, row, covers=covers, doubtful=said is not None and said.count > 1)


def _version(source: Source) -> str | None:
    """Which version of a file far away was read."""
    found = getattr(source, "stamp", None)
    return found() if found is not None else stamp([source.name])


def _still(row: Row) -> None:
    """Say so when its files changed while they were looked at, and stamp it."""
    begun = row["stamp"]
    if begun is not None and stamp([row["path"]]) != begun and row["error"] is None:
        row["ok"] = False
        tell(row, ChangedMeanwhile(f"{row['path']}: changed while it was looked at; it may be being written"))
    elif len(row["files"]) > 1:
        row["stamp"] = stamp(row["files"])


def _fill(row: Row, model: Model, want: Want) -> tuple[str, ...]:
    """Fill in a row; gives the further files that it speaks of."""
    from gguftool.model.overview import overview
    from gguftool.predict import predict

    # By its address names do not matter; on this machine they do.
    covers = _checked(row, check(model) if is_remote(row["path"]) else check_here(model, row["path"]))
    o = overview(model)
    row["facts"] = {
        "architecture": o.architecture[:LONGEST],
        "role": o.role,
        "name": o.name[:LONGEST],
        "size": o.file_size,
        "parameters": o.parameters,
        "quantisation": o.label,
        "bits_per_weight": o.bits_per_weight,
        "context_length": o.context_length,
        "tensors": o.tensors,
    }
    load = _lint(row, model, want) if want.lint else predict(model, want.build) if want.build is not None else None
    row["load"] = load.verdict if load is not None else None
    row["said"] = (load.reason[:LONGEST] or None) if load is not None else None
    if want.bill:
        from gguftool.fleet.bill import bill

        row["bill"] = bill(model, want.hashes)
    return covers


def _checked(row: Row, found: Verification) -> tuple[str, ...]:
    """What verification says of it; gives the further files that this is about."""
    row["ok"] = found.ok
    faults = [f for report in found.files for f in report.faults] + list(found.set.faults if found.set else ())
    row["problems"] = [{"kind": f.kind, "message": f.message[:LONGEST], "where": f.where[:LONGEST]} for f in faults]
    if found.set is None:
        return found.covers
    row["set"] = {"count": found.set.count, "present": found.set.present, "ok": found.set.ok}
    row["files"] = [path for path in found.set.paths if path is not None]
    return (*found.covers, *row["files"], *found.set.others)


def _lint(row: Row, model: Model, want: Want) -> Prediction | None:
    from gguftool.lint.rule import Context, Severity, Wish
    from gguftool.lint.run import lint
    from gguftool.model.headers import headers_beside
    from gguftool.model.role import ROLES, role
    from gguftool.run.lying import projectors

    # A projector in the folder of one model is meant for it.
    paths = projectors(model) if ROLES[role(model)].runs else ()
    sides = [open_any(path, strict=False, known=headers_beside(model.kept)) for path in paths]
    try:
        wish = Wish(want.context_length, want.cache_type)
        context = Context(wish=wish, policy=want.policy, build=want.build, beside=tuple(sides))
        ignore = (*want.ignore, *want.ignored(row["path"]))
        report = lint(model, context, select=want.select, ignore=ignore)
    finally:
        for side in sides:
            side.close()
    if report.failed:
        tell(row, _bug(report, row["path"]))
    row["lint"] = {str(severity): report.count(severity) for severity in Severity}
    row["findings"] = list(_findings(report, row["path"]))
    return report.load


def _bug(report: Report, path: str) -> GgufToolError:
    first = report.failed[0]
    more = f" (and {len(report.failed) - 1} more rules)" if len(report.failed) > 1 else ""
    return Bug(f"{first.rule}: {first.why}{more}", path)


def _findings(report: Report, path: str) -> Iterable[Found]:
    from gguftool.lint.baseline import digest

    for f in report.findings[:MOST]:
        found = Found(
            rule=f.rule,
            severity=f.severity.value,
            message=f.message if len(f.message) <= LONGEST else f.message[: LONGEST - 1] + "…",
            where=f.where[:LONGEST],
            digest=digest(f),
        )
        if f.path != path:
            found["path"] = f.path
        yield found
