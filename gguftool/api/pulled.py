"""Get a model from the Hub, prove it, judge it and say how to start it: what ``gguftool pull`` does."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gguftool.api.plan import engine_for, plan
from gguftool.api.wanted import Wanted, find
from gguftool.brief import short_repr
from gguftool.errors import GgufToolError, Refused
from gguftool.files.disk import check_room, free_bytes
from gguftool.hub import is_remote, local_path, opened
from gguftool.hub.address import HubAddress
from gguftool.hub.api import LfsRecord
from gguftool.hub.pull import begun, fetch, there
from gguftool.hub.repo import Listed
from gguftool.hub.stores import hub_cache, stores
from gguftool.lint.rule import Context
from gguftool.lint.run import lint
from gguftool.model.pieces import of_sure_name
from gguftool.model.role import ROLES, role
from gguftool.quantity import human
from gguftool.records import dataclass, replace
from gguftool.run.args import masked, own_words
from gguftool.run.options.asked import wishes as asked_for
from gguftool.run.target import older
from gguftool.run.wishes import Wishes
from gguftool.shell import gguftool, path_word
from gguftool.verify.deep import with_hashes
from gguftool.verify.expect import Expectation, around
from gguftool.verify.hashes import hash_file
from gguftool.verify.manifest import Entry as Published
from gguftool.verify.many import check_all
from gguftool.verify.result import FileReport, Verification
from gguftool.wire import without_login

if TYPE_CHECKING:
    from gguftool.api.plan import Planned
    from gguftool.lint.run import Report
    from gguftool.verify.stream import Progress

DOWNLOADED, HERE, ELSEWHERE, MISSING = "downloaded", "here", "elsewhere", "missing"
"""How a file came to be where it is; missing: not there yet, nothing was downloaded."""


@dataclass(frozen=True, slots=True)
class Got:
    """One file.

    Attributes:
        record: its path in the repository, its size, its sha256 as the Hub publishes it.
        path: where it lies; "" when it is not there.
        how: `DOWNLOADED`, `HERE`, `ELSEWHERE` or `MISSING`.
        store: the program in whose store it lies, where that is another one.
    """

    record: LfsRecord
    path: str
    how: str
    store: str = ""

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Pulled:
    """What came of it.

    Attributes:
        spec: address of the model; of a set that of the first file.
        files: its files, in order.
        beside: files of its projector, in order; empty: none, or none that goes with it.
        chosen: which of how many it is, and why; "" when the address named it.
        needed: bytes that had to be downloaded, or have to be.
        checks: what verification says; empty where nothing was downloaded and nothing is there.
        report: what lint says; None likewise.
        planned: for this machine; None: it is nothing to be launched.
        launch: words of the command that starts it.
        not_ready: why that command would not do what is planned; empty: it does.
        named: the user said how much memory there is.
        called: what commands call it: its address where that leads to the same file, else its path.
        unproven: files that nobody publishes a sha256 of.
    """

    spec: str
    files: tuple[Got, ...]
    beside: tuple[Got, ...] = ()
    chosen: str = ""
    needed: int = 0
    checks: tuple[Verification, ...] = ()
    report: Report | None = None
    planned: Planned | None = None
    launch: tuple[str, ...] = ()
    not_ready: tuple[str, ...] = ()
    named: bool = False
    called: str = ""
    unproven: tuple[str, ...] = ()

    __repr__ = short_repr

    @property
    def path(self) -> str:
        """Where the model lies, of a set its first file; "" when it is not there."""
        return self.files[0].path

    @property
    def proven(self) -> bool | None:
        """Whether every file has the sha256 that is published for it; None: for one of them none is."""
        if not all(check.ok for check in self.checks):
            return False
        return None if self.unproven or not self.checks else True


@dataclass(slots=True)
class _Job:
    """What was asked for."""

    folder: str | None
    force: bool
    shown: bool
    progress: Callable[[int], Progress] | None
    tell: Callable[[str], None]


def pull(
    spec: str,
    wishes: Wishes | None = None,
    *,
    local_dir: str | os.PathLike[str] | None = None,
    projector: bool = True,
    force: bool = False,
    dry_run: bool = False,
    build: str | int | None = None,
    shown: bool = False,
    progress: Callable[[int], Progress] | None = None,
    tell: Callable[[str], None] = lambda text: None,
    **asked: Any,
) -> Pulled:
    """Download a model with all its shards and its projector, prove it by the published sha256, lint it and plan it.

    What is on this machine already, in whatever store, is not downloaded a second time.

    Args:
        spec: ``hf://owner/repo/file.gguf``, ``hf://owner/repo:Q4_K_M``, ``hf://owner/repo`` (the best that fits this
            machine), ``ollama://name``.
        wishes: how it is to be launched; or by keyword.
        local_dir: folder to download to; None: the cache of huggingface-hub.
        projector: fetch the projector that goes with it, too; one of the repository that is named as ``mmproj`` is
            fetched in its place.
        force: download it even if it is there.
        dry_run: say what would be done.
        build: number of the build that will serve, in place of a llama-server at hand.
        shown: huggingface-hub shows its progress on stderr.
        progress: makes what is called with bytes hashed, for that many of them.
        tell: called with what is being done.
        asked: fields of `Wishes`.

    Raises:
        UsageError: it cannot be pulled, or it is not clear which file is meant.
        MissingFile: no such repository or file.
        NoRoom: none of the quantisations fits this machine, or the disk has no room.
        Refused: the folder has another file of that name.
        ToolFailed: the network or the Hub failed, or access is refused.
    """
    said = asked_for(asked, wishes)
    folder = os.fspath(local_dir) if local_dir is not None else None
    side = said.mmproj if said.mmproj is not None and is_remote(said.mmproj) else None
    if side is not None:
        # It is to be downloaded, too; what it is called then comes back in its place.
        said = replace(said, mmproj=None)
    found = find(spec, said, build, side or (projector and said.mmproj is None), tell)
    job = _Job(folder, force, shown, progress, tell)
    if isinstance(found, str):
        size = os.stat(found).st_size
        done = Pulled(without_login(spec), (Got(LfsRecord(found, size, None), found, HERE, "Ollama"),))
    else:
        done = replace(_get(found, job, dry_run), chosen=found.chosen)
    if any(got.how == MISSING for got in done.files):
        return done
    return _judged(done, said, build, progress, not isinstance(found, str) and found.listed.raw)


# -- getting it


def _get(wanted: Wanted, job: _Job, dry_run: bool) -> Pulled:
    listed, side = wanted.listed, wanted.side
    got = [_at_hand(wanted.there.address, x, job) for x in (listed, side) if x is not None]
    missing = [x.record for files in got for x in files if x.how == MISSING]
    address = wanted.there.address
    needed = sum(r.size - (0 if job.force or address is None else begun(address, r, job.folder)) for r in missing)
    done = Pulled(listed.spec, tuple(got[0]), tuple(got[1]) if side is not None else (), "", needed)
    if not missing or address is None:
        return done
    for record in missing:
        _not_over(job, record)
    place = _existing(job.folder or hub_cache())
    check_room(place, needed, what=listed.name)
    if dry_run:
        return done
    job.tell(f"{human(needed)} to download, {human(free_bytes(place))} are free in {place}")

    def fetched(x: Got) -> Got:
        if x.how != MISSING:
            return x
        path = fetch(address, x.record, job.folder, force=job.force, shown=job.shown)
        return replace(x, path=path, how=DOWNLOADED)

    return replace(done, files=tuple(map(fetched, done.files)), beside=tuple(map(fetched, done.beside)))


def _not_over(job: _Job, record: LfsRecord) -> None:
    """A file of that name that is another one is somebody's: huggingface-hub would replace it.

    Raises:
        Refused: there is one.
    """
    if job.folder is None or job.force:
        return
    path = os.path.join(job.folder, *record.path.split("/"))
    if os.path.lexists(path):
        raise Refused(
            f"{path}: is there, and is not the file that is on the Hub ({record.size:,} bytes there)",
            "name another folder; --force replaces it",
        )


def _existing(folder: str) -> str:
    """The folder, or the one nearest above it that is there."""
    place = os.path.abspath(folder)
    while not os.path.isdir(place) and os.path.dirname(place) != place:
        place = os.path.dirname(place)
    return place


def _at_hand(address: HubAddress | None, x: Listed, job: _Job) -> list[Got]:
    """The files of a model: where they lie already, or that they are missing."""
    if job.force or address is None:
        return [Got(r, "", MISSING) for r in x.files]
    found = [there(address, r, job.folder) for r in x.files]
    if not all(found) and (copies := _elsewhere(x.files, job.progress)) is not None:
        # A set is one model only where its shards lie together, so all of it is elsewhere, or nothing is.
        return [Got(r, path, ELSEWHERE, kind) for r, (kind, path) in zip(x.files, copies, strict=True)]
    return [Got(r, path or "", HERE if path else MISSING) for r, path in zip(x.files, found, strict=True)]


def _elsewhere(
    records: Sequence[LfsRecord], progress: Callable[[int], Progress] | None
) -> list[tuple[str, str]] | None:
    """Program and path of a copy of each file in the store of a program; None where one has none, or they lie apart."""
    if any(not r.sha256 or not r.size for r in records):
        return None
    sizes = {r.size for r in records}
    kept = [(s.kind, k) for s in stores() for k in s.models if k.whole and k.size in sizes]
    out: list[tuple[str, str]] = []
    for r in records:
        of_size = [(kind, k) for kind, k in kept if k.size == r.size]
        same = next(((kind, k.opened) for kind, k in of_size if k.sha256 == r.sha256), None)
        if same is None:
            for kind, k in of_size:
                if not k.sha256 and hash_file(k.path, progress=progress and progress(k.size)).file == r.sha256:
                    same = (kind, k.opened)
                    break
        if same is None:
            return None
        out.append(same)
    names = [os.path.basename(path) for _, path in out] == [os.path.basename(r.path) for r in records]
    together = len({os.path.dirname(path) for _, path in out}) == 1 and names
    return out if len(out) == 1 or together else None


# -- judging it


def _judged(
    done: Pulled, said: Wishes, build: str | int | None, progress: Callable[[int], Progress] | None, raw: bool
) -> Pulled:
    """Proven by what is published, linted, planned."""
    every = (*done.files, *done.beside)
    # Of raw pieces none is a model: only that they are what was published can be told.
    pieces = [Verification(tuple(FileReport(x.path, x.record.size) for x in every))] if raw else []
    results, sources = check_all([] if raw else [done.path, *(x.path for x in done.beside[:1])])
    results += pieces
    published = {os.path.realpath(x.path): x for x in every}
    expected: dict[str, list[Expectation]] = {}
    for report in (report for result in results for report in result.files):
        x = published.get(os.path.realpath(report.path))
        if x is not None and x.record.sha256:
            entry = Published(x.record.path, x.record.sha256, x.record.size)
            expected[report.path] = [Expectation(f"the Hub ({done.spec})", entry)]
        else:
            expected[report.path] = around(report.path)
    unproven = tuple(path for path, said_of in expected.items() if not any(e.entry.sha256 for e in said_of))
    total = sum(report.size for result in results for report in result.files)
    checks, _ = with_hashes(results, expected, sources=sources, progress=progress and progress(total))
    named = said.vram is not None or said.ram is not None
    called = done.spec if local_path(done.spec) == done.path else done.path
    done = replace(done, checks=tuple(checks), unproven=unproven, named=named, called=called)
    if raw:
        cut = of_sure_name(done.path)
        join = gguftool("verify", "--join", path_word(cut[0] if cut else "model.gguf"), path_word(done.path))
        why = f"it is cut into raw pieces, which llama.cpp does not load; to put them together: {join}"
        return replace(done, not_ready=(*_unsound(done), why))
    try:
        return _planned(done, said, build)
    except GgufToolError as error:
        return replace(done, not_ready=(*_unsound(done), str(error)))


def _unsound(done: Pulled) -> list[str]:
    files = [fault.message for check in done.checks for report in check.files for fault in report.faults]
    return files + [fault.message for check in done.checks if check.set is not None for fault in check.set.faults]


def _planned(done: Pulled, said: Wishes, build: str | int | None) -> Pulled:
    side = done.beside[0].path if done.beside else None
    engine = engine_for(said, build)
    with opened(done.path) as m:
        asked = older(engine.build)
        if side is None:
            report = lint(m, Context(build=asked))
        else:
            with opened(side) as beside:
                report = lint(m, Context(build=asked, beside=(beside,)))
        runs = ROLES[role(m)].runs
    done = replace(done, report=report)
    wrong = _unsound(done)
    if report.load is not None and (report.load.ends or report.load.first_error):
        wrong.append(f"llama.cpp would not run it: {report.load.reason or report.load.verdict}")
    if not runs:
        return replace(done, not_ready=tuple(wrong))
    with_side = said if side is None else replace(said, mmproj=side)
    planned = plan(done.path, with_side, build=build)
    wrong += planned.not_ready
    if planned.not_loaded and not any(planned.not_loaded in text for text in wrong):
        wrong.append(f"llama.cpp would not run it: {planned.not_loaded}")
    words = ("gguftool", "launch", path_word(done.called), *masked(own_words(with_side)))
    return replace(done, planned=planned, launch=words, not_ready=tuple(wrong))
