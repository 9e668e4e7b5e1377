"""What is known of folders that are watched: which models there are, which of them are still being written.

The state of the folders decides, never the kind of an event: a row is made when size and time of a model's files have
stood still for a while and all of its data is there. Memory goes with the number of models, not with what happens.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from gguftool.errors import ChangedMeanwhile
from gguftool.fleet.find import Group
from gguftool.fleet.row import Row, blank, failed, tell
from gguftool.fleet.tally import BROKEN, NOTHING, WAITING, WHOLE, Says, Tally, says
from gguftool.fleet.unfinished import Mark, mark, unfinished
from gguftool.records import dataclass

FOUND, NEW, CHANGED, HALF, DELETED, TROUBLE = "found", "new", "changed", "half", "deleted", "trouble"
EVENTS = (FOUND, NEW, CHANGED, HALF, DELETED, TROUBLE)
SHORTEST = 0.02
"""Seconds that are waited at least: nothing is asked for ever without a pause."""
_SPOKEN = "spoken"
"""State of a file that the row of another speaks of."""


class Event(Row):
    """A row of a scan, and why there is one now.

    Attributes:
        event: ``found`` (it was there at the start), ``new``, ``changed``, ``half`` (it is not whole, and nothing came
            for long), ``deleted`` (nothing of it is known any more), ``trouble`` (a folder that cannot be listed).
        time: when, in UTC, as RFC 3339 has it.
    """

    event: str
    time: str


@dataclass(frozen=True, slots=True)
class Pace:
    """How long is waited.

    Attributes:
        settle: seconds that a model's files must have stood still before it is looked at.
        patience: seconds without a change after which one that is not whole is told.
        every: seconds after which all folders are looked through, whatever was heard.
        lasts: seconds after which it ends; None: never.
    """

    settle: float = 2
    patience: float = 600
    every: float = 60
    lasts: float | None = None


@dataclass(slots=True)
class _Known:
    """What is known of a model, or of a folder that cannot be listed.

    Attributes:
        files: it consists of.
        mark: what they were like.
        since: when they last changed.
        began: since when it is waited for while they go on changing, and how long they were then.
        looked: what they were like when they were last looked at.
        told: a row was written of it.
        said: what that row was, as a number.
        lacks: its set is not complete.
    """

    files: tuple[str, ...]
    mark: Mark
    since: float
    began: tuple[float, int]
    state: str = WAITING
    looked: Mark | None = None
    told: bool = False
    said: int = 0
    lacks: bool = False
    folder: bool = False
    says: Says = NOTHING


class Watched:
    """Models of folders as they come and go; what is asked for at a time gets the time with it.

    Args:
        pace: how long is waited.
        build: the build that was asked about, for rows of what is gone.
    """

    def __init__(self, pace: Pace, build: int | None) -> None:
        self._pace = pace
        self._build = build
        self._models: dict[str, _Known] = {}
        self._of: dict[str, str] = {}
        self._inside: dict[str, set[str]] = {}
        self.tally = Tally()

    def begin(self, row: Row, new: bool, now: float, wall: float) -> Event | None:
        """A row of the first scan; the event, unless it is waited for or was told by an earlier run."""
        path = row["path"]
        if os.path.isdir(path):
            return self._trouble(row, now, wall)
        age = _age(row["files"], wall)
        known = self._add(path, now - age)
        if age < self._pace.settle:
            return None
        known.told = not new
        return self._judge(row, known, now, wall, FOUND, again=new)

    def listed(self, groups: Iterable[Group], scope: Sequence[str] | None, now: float, wall: float) -> Iterator[Event]:
        """Hold what folders hold against what is known of them.

        Args:
            groups: what was found in them.
            scope: which were looked through, those that end with a slash with all below; None: all.
            now: the time that never jumps.
            wall: the time people go by.
        """
        troubled = set()
        for group in groups:
            if group.error is not None:
                troubled.add(group.paths[0])
                if group.paths[0] not in self._models:
                    yield self._trouble(failed(group.paths[0], group.error, self._build), now, wall)
                continue
            for path in group.paths:
                if path not in self._models and path not in self._of:
                    self._add(path, now - _age((path,), wall))
        for place in [place for place in self._inside if scope is None or _within(place, scope)]:
            for path in sorted(self._inside[place]):
                # Others of its set may have taken it along.
                known = self._models.get(path)
                if known is None:
                    continue
                if known.folder:
                    if path not in troubled and (scope is None or _within(path, scope)):
                        self._drop(path)
                elif _gone(path):
                    self._drop(path)
                    for other in known.files:
                        if other != path and not _gone(other):
                            self._add(other, now)
                    if known.told:
                        yield self._event(blank(path, self._build), DELETED, wall)
                else:
                    self._moved(known, now)

    def due(self, now: float) -> dict[str, list[str]]:
        """Folder -> paths in it that are to be looked at now, together: shards of a set may be among them."""
        found: dict[str, list[str]] = {}
        fresh = set()
        for path, known in self._models.items():
            if known.state != WAITING or not self._ready(known, now):
                continue
            place = os.path.dirname(path)
            found.setdefault(place, []).append(path)
            if known.looked is None:
                fresh.add(place)
        for place in fresh:
            # What is new may be what they lack.
            more = (path for path in self._inside[place] if self._models[path].lacks)
            found[place] = sorted({*found[place], *more})
        return found

    def next(self, now: float) -> float:
        """Seconds until something is due, if nothing happens."""
        waits = [
            min(known.since + self._pace.settle, known.began[0] + self._pace.patience)
            if known.looked != known.mark
            else known.since + self._pace.patience
            for known in self._models.values()
            if known.state == WAITING
        ]
        return max(SHORTEST, min(waits, default=now + self._pace.every) - now)

    def seen(self, row: Row, now: float, wall: float) -> Event | None:
        """A row of what was due; the event, unless it is waited for still."""
        path = row["path"]
        known = self._models.get(path)
        if known is None:
            return None
        first = self._models.get(row["files"][0])
        if first is not None and first is not known:
            # It belongs to a set, and its row has the name of the first.
            known.state = _SPOKEN
            if first.state != WAITING:
                self._again(first, now)
            return None
        return self._judge(row, known, now, wall, CHANGED if known.told else NEW)

    def spoken(self, paths: Iterable[str]) -> None:
        """Paths that were due and have no row of their own: another speaks of them."""
        for path in paths:
            if (known := self._models.get(path)) is not None:
                known.state = _SPOKEN

    def count(self) -> Tally:
        """The numbers of now."""
        self.tally.clear()
        for known in self._models.values():
            if not known.folder and known.state != _SPOKEN:
                self.tally.add(known.state, known.says)
        return self.tally

    def _ready(self, known: _Known, now: float) -> bool:
        if known.looked == known.mark:
            return now >= known.since + self._pace.patience
        return now >= min(known.since + self._pace.settle, known.began[0] + self._pace.patience)

    def _judge(self, row: Row, known: _Known, now: float, wall: float, event: str, again: bool = True) -> Event | None:
        """Tell it, or wait on."""
        half = unfinished(row)
        self._join(row, known)
        known.state = WAITING
        steady = known.mark[0] == row["stamp"]
        settled, over = now >= known.since + self._pace.settle, now >= known.since + self._pace.patience
        known.lacks = row["set"] is not None and not row["set"]["ok"]
        known.looked = known.mark if steady else None
        if not steady or not settled:
            grown = _size(known.files) > known.began[1]
            if now < known.began[0] + self._pace.patience or (half and grown):
                if not steady:
                    known.since = now
                if grown:
                    known.began = (now, _size(known.files))
                return None
            known.began = (now, _size(known.files))
            event = HALF
            if row["error"] is None:
                tell(row, ChangedMeanwhile(f"{row['path']}: it is being written all the time"))
            row["ok"] = False
        elif half and not over:
            return None
        elif half and not row["ok"]:
            event = HALF
        known.state = WHOLE if row["ok"] else BROKEN
        known.mark = mark(known.files, whole=row["ok"])
        known.says = says(row)
        said, known.said = known.said, hash(str(row))
        told, known.told = known.told, True
        return None if told and (not again or said == known.said) else self._event(row, event, wall)

    def _join(self, row: Row, known: _Known) -> None:
        """Take the files of a row together."""
        path, files = row["path"], tuple(row["files"]) or (row["path"],)
        for other in known.files:
            self._of.pop(other, None)
        for other in files:
            if other != path:
                self._of[other] = path
                if other in self._models:
                    known.told = known.told or self._models[other].told
                    known.since = max(known.since, self._models[other].since)
                    self._drop(other)
        known.files = files
        known.mark = mark(files, whole=False)

    def _moved(self, known: _Known, now: float) -> None:
        found = mark(known.files, whole=known.state == WHOLE)
        if found != known.mark:
            if known.state != WAITING:
                known.state, known.began = WAITING, (now, _size(known.files))
                found = mark(known.files, whole=False)
            known.mark, known.since, known.looked = found, now, None

    def _again(self, known: _Known, now: float) -> None:
        known.state, known.looked, known.mark = WAITING, None, mark(known.files, whole=False)
        known.since = min(known.since, now - self._pace.settle)

    def _add(self, path: str, since: float) -> _Known:
        made = _Known((path,), mark((path,), whole=False), since, (since, _size((path,))))
        self._models[path] = made
        self._inside.setdefault(os.path.dirname(path), set()).add(path)
        return made

    def _drop(self, path: str) -> None:
        known = self._models.pop(path)
        for other in known.files:
            if self._of.get(other) == path:
                del self._of[other]
        place = os.path.dirname(path)
        self._inside[place].discard(path)
        if not self._inside[place]:
            del self._inside[place]

    def _trouble(self, row: Row, now: float, wall: float) -> Event:
        known = self._add(row["path"], now)
        known.folder, known.state, known.told = True, BROKEN, True
        self.tally.errors += 1
        return self._event(row, TROUBLE, wall)

    def _event(self, row: Row, event: str, wall: float) -> Event:
        self.tally.rows[event] += 1
        when = datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return Event(event=event, time=when, **row)


def _within(place: str, scope: Sequence[str]) -> bool:
    return any(place == one or (one.endswith(os.sep) and os.path.join(place, "").startswith(one)) for one in scope)


def _gone(path: str) -> bool:
    """Whether nothing has that name; what may not be looked at is not gone."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def _age(files: Sequence[str], wall: float) -> float:
    """Seconds since files were last written or named; for ever of what is not there, 0 ahead of the clock."""
    last = float("-inf")
    for path in files:
        # A link may be new and what it names old, or not there.
        for look in (os.lstat, os.stat):
            with contextlib.suppress(OSError, ValueError):
                found = look(path)
                last = max(last, found.st_mtime, found.st_ctime)
    return max(0.0, wall - last)


def _size(files: Sequence[str]) -> int:
    total = 0
    for path in files:
        with contextlib.suppress(OSError, ValueError):
            total += os.stat(path).st_size
    return total
