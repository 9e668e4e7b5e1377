"""Models checked as they land in folders: rows as a scan has them, each with what happened."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing

from gguftool.errors import UsageError
from gguftool.files.patterns import Patterns
from gguftool.fleet.find import Group, below, there
from gguftool.fleet.hear import Ears, Notified, check_extra
from gguftool.fleet.kept import Kept
from gguftool.fleet.scan import through, told
from gguftool.fleet.tally import Tally
from gguftool.fleet.todo import Todo
from gguftool.fleet.want import Want
from gguftool.fleet.watched import Event, Pace, Watched
from gguftool.fleet.work import Here
from gguftool.records import dataclass

MOST = 256
"""Folders in which something happened that are looked at each; of more, all are looked through."""
SHARE = 10
"""Times as long as a look through folders took is waited until the next one."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Times, for tests to have their own: one that never jumps, and one that people go by; seconds."""

    steady: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


def watch(
    folders: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    jobs: int | None = None,
    lint: bool = True,
    resume: str | os.PathLike[str] | None = None,
    build: int | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    settle: float = 2,
    patience: float = 600,
    every: float = 60,
    lasts: float | None = None,
) -> Generator[Event]:
    """Check models as they land in folders: a row of `scan` for each that is there, new, changed or gone.

    One that is being written waits until its size stands still and all of its data is there, a set until all its shards
    are. Close the iterator to end it.

    Args:
        folders: with their subfolders.
        jobs: models at a time in the first scan; the number of processors when None.
        lint: run the rules too, and predict what llama.cpp does.
        resume: file that keeps the rows; models whose size and time are those of a row are not told again.
        build: number of the build of llama.cpp to judge by; None: the newest that is known.
        select: rule ids and families to run; all when empty.
        ignore: rule ids and families to leave out.
        include: patterns of the files that are looked at; ``*.gguf`` when empty.
        exclude: patterns of files and folders that are left out.
        settle: seconds that files must have stood still.
        patience: seconds without a change after which a model that is not whole is told.
        every: seconds after which all folders are looked through, whatever was heard of them.
        lasts: seconds after which it ends; None: never.

    Raises:
        ToolFailed: watchfiles is not installed.
        MissingFile, UsageError: a folder that does not exist, or is none; an unknown rule.
        Refused: ``resume`` is a file of another kind.
    """
    named = [folders] if isinstance(folders, (str, os.PathLike)) else folders
    want = Want(lint=lint, build=build, select=tuple(select), ignore=tuple(ignore))
    return follow(
        [os.fspath(one) for one in named],
        want,
        Patterns(tuple(include), tuple(exclude)),
        jobs=jobs,
        resume=os.fspath(resume) if resume is not None else "",
        pace=Pace(settle, patience, every, lasts),
    )


def follow(
    paths: Sequence[str],
    want: Want,
    patterns: Patterns,
    *,
    jobs: int | None = None,
    resume: str = "",
    pace: Pace | None = None,
    count: Callable[[Tally], None] = lambda tally: None,
    trouble: Callable[[str], None] = lambda text: None,
    ears: Callable[[Sequence[str], Callable[[str], None]], Ears] = Notified,
    clock: Clock | None = None,
) -> Generator[Event]:
    """Rows as `watch` gives them.

    Args:
        paths: folders.
        want: what a row shall hold.
        patterns: which of their files.
        jobs: models at a time, in the first scan.
        resume: file that keeps the rows; those it has are not told again. "" keeps none.
        pace: how long is waited.
        count: gets the numbers whenever they may be others.
        trouble: gets sentences about what cannot be heard.
        ears: makes what hears.
        clock: the times.
    """
    check_extra()
    for path in there(paths):
        if not os.path.isdir(path):
            raise UsageError(f"{path}: is no folder", "--watch takes folders")
    if len(there(paths)) != len(set(paths)):
        raise UsageError("--watch is for folders of this machine")
    return _follow(_roots(paths), want, patterns, jobs, resume, pace or Pace(), count, trouble, ears, clock or Clock())


def _follow(
    roots: Sequence[str],
    want: Want,
    patterns: Patterns,
    jobs: int | None,
    resume: str,
    pace: Pace,
    count: Callable[[Tally], None],
    trouble: Callable[[str], None],
    ears: Callable[[Sequence[str], Callable[[str], None]], Ears],
    clock: Clock,
) -> Generator[Event]:
    watched = Watched(pace, want.build)

    def deaf(text: str) -> None:
        watched.tally.errors += 1
        trouble(text)

    with closing(Kept(resume, want)) as kept:
        with closing(told(roots, want, patterns, kept, jobs=jobs, empty=False)) as found:
            for row, new in found:
                event = watched.begin(row, new, clock.steady(), clock.wall())
                if event is not None:
                    if new:
                        kept.add(row)
                    yield event
        # Not before: a process is not copied while a thread of it runs; what happened meanwhile is found by looking.
        with closing(ears(roots, deaf)) as hear, closing(Here(want)) as hands:
            scope: list[str] | None = None
            last, rest = clock.steady(), 0.0
            end = last + pace.lasts if pace.lasts is not None else math.inf
            hear(0.0)
            while True:
                begun = clock.steady()
                if scope != []:
                    groups = _groups(roots, patterns, scope)
                    yield from watched.listed(groups, scope, begun, clock.wall())
                    if scope is None:
                        last, watched.tally.scanned = begun, clock.wall()
                    rest = SHARE * (clock.steady() - begun)
                for together in watched.due(clock.steady()).values():
                    left = set(together)
                    todo = Todo(iter([Group(together)]), lambda path: None, want.build)
                    for row, _ in through(todo, hands):
                        left.discard(row["path"])
                        event = watched.seen(row, clock.steady(), clock.wall())
                        if event is not None:
                            kept.add(row)
                            yield event
                    watched.spoken(left)
                count(watched.count())
                now = clock.steady()
                if now >= end:
                    return
                heard = hear(max(0.0, min(watched.next(now), last + pace.every - now, end - now)))
                if heard is None:
                    return
                paths, lost = heard
                # However much happens, most of the time nobody looks.
                while (early := begun + rest - clock.steady()) > 0 and (paths or lost):
                    more = hear(early)
                    if more is None:
                        return
                    paths, lost = paths | more.paths, lost or more.lost
                    if len(paths) > MOST:
                        paths, lost = frozenset(), True
                scope = None if lost or clock.steady() >= last + pace.every else _scope(roots, paths)


def _roots(paths: Sequence[str]) -> list[str]:
    """Folders that are not below others, each once."""
    bare = [path.rstrip(os.sep) or os.sep for path in paths]
    whole = {path: os.path.join(os.path.abspath(path), "") for path in dict.fromkeys(bare)}
    kept: dict[str, str] = {}
    for path, place in whole.items():
        if place not in kept and not any(place != other and place.startswith(other) for other in whole.values()):
            kept[place] = path
    return list(kept.values())


def _scope(roots: Sequence[str], paths: frozenset[str]) -> list[str] | None:
    """Folders to look at after something happened to paths; with a slash at the end with all below; None: all."""
    if len(paths) > MOST:
        return None
    found = {os.path.dirname(path) for path in paths if path not in roots}
    # What happened in a folder before it could be listened to was not heard; of one that is gone all is gone.
    for path in paths:
        if not os.path.islink(path) and (os.path.isdir(path) or not os.path.lexists(path)):
            found.add(os.path.join(path, ""))
    return sorted(found)


def _groups(roots: Sequence[str], patterns: Patterns, scope: Sequence[str] | None) -> Iterator[Group]:
    if scope is None:
        for root in roots:
            yield from below(root, patterns, root, deep=True)
        return
    for one in scope:
        deep = one.endswith(os.sep)
        place = one.rstrip(os.sep) if deep else one
        owners = [root for root in roots if place == root or place.startswith(os.path.join(root, ""))]
        for root in owners if os.path.isdir(place) else ():
            yield from below(root, patterns, place, deep=deep)
