"""The usual scan: rows in one of the formats, and the exit code they come to."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import IO, TYPE_CHECKING, Any

from gguftool.cli.builds import asked
from gguftool.cli.lint_setup import known_names, names
from gguftool.cli.output_file import written_to
from gguftool.cli.scan_metrics import Metrics
from gguftool.cli.scan_progress import Watched
from gguftool.errors import Bug, UsageError, of_one
from gguftool.facts.cachetypes import parse as _pair
from gguftool.files.patterns import Patterns
from gguftool.files.small import scratch_file
from gguftool.fleet.known import Known
from gguftool.fleet.row import Row, failed, fails, internal
from gguftool.fleet.scan import rows
from gguftool.fleet.want import Want
from gguftool.lint.baseline import Baseline, read_baseline
from gguftool.lint.config import Config
from gguftool.lint.policy import read_policy
from gguftool.report import statistics
from gguftool.report.envelope import put
from gguftool.report.scan import format_named
from gguftool.report.scan.markdown import total
from gguftool.report.scan.shown import Format, Shown

if TYPE_CHECKING:
    from gguftool.cli.options import Session


def run(session: Session, paths: tuple[str, ...], options: Mapping[str, Any]) -> int:
    """Scan, write the rows as they come, and say how it ends."""
    if options["statistics"] and session.format not in ("text", "json"):
        raise UsageError("--statistics is for --format text and json")
    if options["output_file"] and options["resume"] and _same(options["output_file"], options["resume"]):
        raise UsageError("--output-file and --resume name the same file")
    with written_to(session, options["output_file"]) as told:
        return _run(session, paths, options, told)


def _run(session: Session, paths: tuple[str, ...], options: Mapping[str, Any], told: Callable[[str], None]) -> int:
    config: Config = options["config"]
    shape = format_named(session.format)
    shown = Shown(paths, session.style, body={"cwd": os.getcwd()})
    patterns = Patterns(options["include"] or config.include, (*config.exclude, *options["exclude"]))
    known = Known(read_baseline(baseline) if (baseline := options["baseline"] or config.baseline) else Baseline())
    linked: list[str] = []
    metrics = Metrics(options["metrics"], paths)
    found = rows(
        paths,
        want(session, options, bill=shape.bill),
        patterns,
        jobs=options["jobs"],
        resume=options["resume"] or "",
        scheduler=options["scheduler"] or "",
        linked=linked,
    )
    with collected(), _writer(shape, shown) as writer, Watched(session, paths, patterns) as watched:
        for row in map(known.without, found):
            watched.put_aside()
            writer.put(row)
            watched.done(row)
            shown.counts.add(row)
            metrics.add(row)
            shown.ok = shown.ok and not fails(row, options["fail_on"])
            if row["error"] is not None and internal(row):
                shown.errors.append(row["error"])
        session.told = session.format == "json"
        watched.put_aside()
        if options["statistics"] and session.format == "json":
            shown.body["statistics"] = statistics.rows(shown.counts.rules)
        writer.end()
        if options["statistics"] and session.format == "text":
            session.out("\n".join(statistics.lines(shown.counts.rules, session.style)))
        metrics.end()
    told(total(shown.counts))
    if linked:
        session.note(_linked(linked))
    if known.hidden:
        session.note(f"note: {known.hidden:,} findings of the baseline were left out")
    return Bug.exit_code if shown.errors else 0 if shown.ok else 1


def want(session: Session, options: Mapping[str, Any], *, bill: bool = False) -> Want:
    """What the options ask for, over the configuration."""
    target = asked(session, options["build"], options["llama_cpp"], options["llama_cpp_python"])
    config: Config = options["config"]
    policy = options["policy"] or config.policy
    return Want(
        lint=not options["no_lint"],
        build=target.build if target is not None else None,
        select=names(options["select"]) or config.select,
        ignore=(*names(options["ignore"]), *config.ignore),
        ignored=known_names(config.per_file_ignores),
        context_length=config.context_length,
        cache_type=_pair(config.cache_type) if config.cache_type else None,
        policy=read_policy(policy) if policy else None,
        bill=bill,
        hashes=bill and not options["no_hash"],
    )


@contextmanager
def collected() -> Iterator[None]:
    """The one command that goes on and on needs its garbage collected (see `gguftool.cli.main`)."""
    import gc

    before = gc.get_threshold()
    gc.set_threshold(10_000, 5, 5)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _Writer:
    """Writes rows, at once or in order when all are there."""

    def __init__(self, shape: Format, shown: Shown, spool: IO[bytes] | None) -> None:
        self._shape = shape
        self._shown = shown
        self._spool = spool
        self._places: list[tuple[str, int, int]] = []
        self._begun = False

    def put(self, row: Row) -> None:
        """One row; one that cannot be written is a row that says so."""
        try:
            text = self._shape.row(row, self._shown)
        except Exception as error:
            again = failed(row["path"], of_one(error, row["path"]), row["build"])
            row.update(again)
            text = self._shape.row(row, self._shown)
        if self._spool is None:
            self._put(text)
            sys.stdout.flush()
        else:
            raw = text.encode("utf-8", "backslashreplace")
            self._places.append((row["path"], self._spool.tell(), len(raw)))
            self._spool.write(raw)

    def end(self) -> None:
        """All rows were given."""
        if self._spool is not None:
            for _, place, n in sorted(self._places):
                self._spool.seek(place)
                self._put(self._spool.read(n).decode())
        if not self._begun and (self._shown.counts.models or self._spool is not None):
            self._begin()
        self._out(self._shape.end(self._shown))
        sys.stdout.flush()

    def _begin(self) -> None:
        self._out(self._shape.begin(self._shown))
        self._begun = True

    def _put(self, text: str) -> None:
        if not self._begun:
            self._begin()
        elif self._shape.between:
            self._out(self._shape.between)
        self._out(text)

    def _out(self, text: str) -> None:
        if self._shape.data:
            put(text, sys.stdout)
        else:
            sys.stdout.write(text)


@contextmanager
def _writer(shape: Format, shown: Shown) -> Iterator[_Writer]:
    with scratch_file() if shape.sorted else nullcontext() as spool:
        yield _Writer(shape, shown, spool)


def _linked(folders: list[str]) -> str:
    from gguftool.report.text import safe

    names = ", ".join(safe(path) for path in folders[:3]) + (" …" if len(folders) > 3 else "")
    return f"note: folders that are links are not entered unless they are named: {names}"


def _same(a: str, b: str) -> bool:
    return os.path.realpath(a) == os.path.realpath(b)
