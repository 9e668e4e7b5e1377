"""What of a scan is still to be looked at, so that a set is one row however its files are named.

The first shard of a set says so in its header, and its row speaks of all files of the set. A shard that is not the
first waits until everything else of its folder was looked at; then it is spoken of, or its set has no first shard, and
it gets a row itself that speaks of the others. Only the folders under way are remembered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from gguftool.fleet.find import Group
from gguftool.fleet.row import Row, failed
from gguftool.fleet.want import Seen, Task
from gguftool.records import dataclass, field

Waiting = tuple[int, str]
"""Number and path of a shard that is not the first."""


@dataclass(slots=True)
class _Folder:
    """Its files under way.

    Attributes:
        rest: those nobody was asked about yet.
        asked: how many are being looked at, or will be next.
        spoken: those a row speaks of.
        waiting: shards by count and tensors of their set.
        doubtful: rows of what cannot be read and is named like a shard.
        listed: ``rest`` is done.
    """

    rest: Iterator[str]
    asked: int = 0
    spoken: set[str] = field(default_factory=set)
    waiting: dict[tuple[int, int | None], list[Waiting]] = field(default_factory=dict)
    doubtful: list[Seen] = field(default_factory=list)
    listed: bool = False


class Todo:
    """Gives out tasks and takes in what was seen; ``ready`` holds rows that are done, and whether they are new.

    Args:
        groups: what was found.
        kept: the row of an earlier run for a path, None when there is none that still holds.
        build: the build that was asked about, for rows of what cannot be looked at.
    """

    def __init__(self, groups: Iterator[Group], kept: Callable[[str], Row | None], build: int | None) -> None:
        self.ready: deque[tuple[Row, bool]] = deque()
        self._groups = groups
        self._kept = kept
        self._build = build
        self._now: _Folder | None = None
        self._more: deque[tuple[Task, _Folder]] = deque()
        self._where: dict[str, _Folder] = {}

    def next(self) -> Task | None:
        """The next task; None when a row is ready, or there is none now (what is seen of others may bring more)."""
        while not self.ready:
            if self._more:
                task, folder = self._more.popleft()
                self._where[task.path] = folder
                return task
            if self._now is None:
                group = next(self._groups, None)
                if group is None:
                    return None
                if group.error is not None:
                    self.ready.append((failed(group.paths[0], group.error, self._build), True))
                else:
                    self._now = _Folder(iter(group.paths))
                continue
            path = next(self._now.rest, None)
            if path is None:
                self._now.listed = True
                self._settle(self._now)
                self._now = None
            elif path not in self._now.spoken:
                if (row := self._kept(path)) is None:
                    self._now.asked += 1
                    self._where[path] = self._now
                    return Task(path)
                self._row(row, self._now, (), new=False)
        return None

    def done(self, seen: Seen) -> None:
        """What was seen of a task."""
        folder = self._where.pop(seen.path)
        folder.asked -= 1
        if seen.member is not None:
            no, count, tensors = seen.member
            folder.waiting.setdefault((count, tensors), []).append((no, seen.path))
        elif seen.doubtful:
            folder.doubtful.append(seen)
        elif seen.row is not None:
            self._row(seen.row, folder, seen.covers, new=True)
        if folder.listed:
            self._settle(folder)

    def _row(self, row: Row, folder: _Folder, covers: tuple[str, ...], *, new: bool) -> None:
        if covers or len(row["files"]) > 1:
            folder.spoken.update(covers, row["files"])
        self.ready.append((row, new))

    def _settle(self, folder: _Folder) -> None:
        """When nothing of a folder is under way: what no row speaks of gets one, of each set its first file."""
        if folder.asked:
            return
        waiting, folder.waiting = folder.waiting, {}
        for of, shards in waiting.items():
            left = sorted(shard for shard in shards if shard[1] not in folder.spoken)
            if left:
                folder.asked += 1
                self._more.append((Task(left[0][1], alone=True), folder))
                folder.waiting[of] = left[1:]
        if not folder.asked:
            rows = [seen.row for seen in folder.doubtful if seen.path not in folder.spoken and seen.row is not None]
            self.ready.extend((row, True) for row in rows)
            folder.doubtful.clear()
