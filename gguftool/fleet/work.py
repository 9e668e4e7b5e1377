"""Who looks at the models of a scan: this process, or several beside it that end with it.

Paths are given out a few at a time, so that small files cost little to hand over; each worker answers in order, so that
of one that died it is known what it had in hand. That is tried once more by itself, and then it is a row that says so.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Protocol

from gguftool.endings import as_usual, die_with_parent
from gguftool.errors import Bug
from gguftool.fleet.row import failed
from gguftool.fleet.want import Seen, Task, Want, seen
from gguftool.format import again

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

MOST = 61
"""Workers: Windows lets one process wait for no more."""
LONG = 0.05
"""Seconds that what is handed over at once should take."""
WAITING = 16
"""Times as long as the processor needs that a worker may take for what it was given, if it waits."""
LARGEST = 32
"""Paths handed over at once."""
WIDEST = 1 << 15
"""Characters of the paths handed over at once."""
TRIES = 2
"""Times a path is tried that ends its worker."""
VOCABULARIES = 12 << 20
"""Bytes of vocabularies that a worker remembers: two large ones with their merges."""
SWEEP = 32
"""Models after which what lies in circles is collected."""


class Hands(Protocol):
    """Something that looks at models: it is given tasks as long as it has room, and gives back what was seen."""

    @property
    def room(self) -> bool:
        """Whether it takes another task."""

    @property
    def busy(self) -> bool:
        """Whether something is still to come back."""

    def give(self, task: Task) -> None:
        """One more task."""

    def take(self) -> Sequence[Seen]:
        """What was seen since; waits until there is something."""

    def close(self) -> None:
        """End it, whatever it does."""


class Here:
    """This process looks itself."""

    def __init__(self, want: Want) -> None:
        self._want = want
        self._task: Task | None = None
        self._done = 0
        again.remember(VOCABULARIES)

    @property
    def room(self) -> bool:
        """Whether it takes another task."""
        return self._task is None

    @property
    def busy(self) -> bool:
        """Whether something is still to come back."""
        return self._task is not None

    def give(self, task: Task) -> None:
        """One more task."""
        self._task = task

    def take(self) -> Sequence[Seen]:
        """Look at it."""
        task, self._task = self._task, None
        self._done += 1
        if self._done % SWEEP == 0:
            _collect()
        return () if task is None else (seen(task, self._want),)

    def close(self) -> None:
        """Forget what was remembered."""
        again.remember(0)


class _Worker:
    """A process and what it was given and has not answered yet, in order."""

    def __init__(self, want: Want, bound: bool) -> None:
        from multiprocessing import Pipe, Process

        self.pipe, other = Pipe()
        self.process: BaseProcess = Process(target=_work, args=(other, self.pipe, want, bound), daemon=True)
        self.process.start()
        other.close()
        self.given: deque[Task] = deque()
        self.pace = LONG

    @property
    def several(self) -> int:
        """How many paths to hand over at once."""
        return max(1, min(LARGEST, int(LONG / self.pace)))

    def end(self) -> None:
        """End the process."""
        self.pipe.close()
        self.process.kill()
        self.process.join()


class Processes:
    """Several processes, begun at once; one that dies is replaced.

    Args:
        want: what rows shall hold.
        count: how many.
    """

    def __init__(self, want: Want, count: int) -> None:
        self._want = want
        # Another thread is what the kernel takes for the parent, and its end for the parent's.
        self._bound = threading.current_thread() is threading.main_thread()
        _ready(want)
        self._workers: list[_Worker] = []
        self._waiting: deque[Task] = deque()
        self._suspects: deque[Task] = deque()
        self._suspected: set[str] = set()
        self._tried: dict[str, int] = {}
        with _closed_on_error(self):
            for _ in range(min(count, MOST)):
                self._workers.append(_Worker(want, self._bound))

    @property
    def room(self) -> bool:
        """Whether it takes another task."""
        # What is handed over next for each, so that nobody waits for it.
        return len(self._waiting) < sum(worker.several for worker in self._workers)

    @property
    def busy(self) -> bool:
        """Whether something is still to come back."""
        return bool(self._waiting or self._suspects or any(worker.given for worker in self._workers))

    def give(self, task: Task) -> None:
        """One more task."""
        self._waiting.append(task)

    def take(self) -> Sequence[Seen]:
        """What was seen since; waits until there is something."""
        while True:
            self._hand_out()
            found: list[Seen] = []
            # mypy: on Windows the type is another.
            for pipe in wait([worker.pipe for worker in self._workers if worker.given]):
                worker = next(w for w in self._workers if w.pipe is pipe)
                try:
                    came, worker.pace = worker.pipe.recv()
                except (EOFError, OSError):
                    found += self._lost(worker)
                    continue
                for _ in came:
                    self._suspected.discard(worker.given.popleft().path)
                found += came
            if found or not self.busy:
                return found

    def _hand_out(self) -> None:
        for worker in self._workers:
            if not worker.given and self._suspects:
                self._send(worker, [self._suspects.popleft()])
            elif len(worker.given) <= worker.several // 2 and self._waiting and not self._alone(worker):
                self._send(worker, self._some(worker.several))

    def _some(self, most: int) -> list[Task]:
        """The next few; long paths fewer at once, so that what is sent never waits for somebody who waits for us."""
        out, size = list[Task](), 0
        while self._waiting and len(out) < most and size < WIDEST:
            out.append(self._waiting.popleft())
            size += len(out[-1].path)
        return out

    def _alone(self, worker: _Worker) -> bool:
        """Whether it has one in hand that may have ended another: beside that nothing else, or nobody knew which."""
        return any(task.path in self._suspected for task in worker.given)

    def _send(self, worker: _Worker, tasks: list[Task]) -> None:
        worker.given.extend(tasks)
        # One that died is told of when its answer is waited for.
        with contextlib.suppress(OSError):
            worker.pipe.send(tasks)

    def _lost(self, worker: _Worker) -> Iterator[Seen]:
        """A worker died: by the kernel, when memory ran out. What it had alone in hand is to blame."""
        given = list(worker.given)
        worker.end()
        self._workers.remove(worker)
        self._workers.append(_Worker(self._want, self._bound))
        for task in given:
            if len(given) == 1:
                self._tried[task.path] = self._tried.get(task.path, 0) + 1
            if self._tried.get(task.path, 0) >= TRIES:
                row = failed(task.path, Bug("the process that looked at it died", task.path), self._want.build)
                yield Seen(task.path, row)
            else:
                self._suspected.add(task.path)
                self._suspects.append(task)

    def close(self) -> None:
        """End them all."""
        for worker in self._workers:
            worker.end()
        self._workers.clear()


@contextlib.contextmanager
def _closed_on_error(hands: Hands) -> Iterator[None]:
    try:
        yield
    except BaseException:
        hands.close()
        raise


def _work(pipe: Connection, parents: Connection, want: Want, bound: bool) -> None:
    """A worker: it ends with the command, however that ends."""
    as_usual()
    if bound:
        die_with_parent()
    again.remember(VOCABULARIES)
    import gc

    # What was there before the copy is shared with it, and never garbage.
    gc.freeze()
    # Else this copy of it would keep the pipe open when the command is gone.
    parents.close()
    since = 0
    with contextlib.suppress(EOFError, OSError):
        while True:
            tasks: list[Task] = pipe.recv()
            begun, cpu, found = time.monotonic(), time.process_time(), list[Seen]()
            for task in tasks:
                found.append(seen(task, want))
                since += 1
                if since >= SWEEP:
                    _collect()
                    since = 0
                spent = time.monotonic() - begun
                if spent > 2 * LONG and found:
                    pipe.send((found, _pace(begun, cpu, len(found))))
                    begun, cpu, found = time.monotonic(), time.process_time(), []
            if found:
                pipe.send((found, _pace(begun, cpu, len(found))))


def _pace(begun: float, cpu: float, n: int) -> float:
    """Seconds that a model takes: of the processor, unless most of the time goes by with waiting for the disk."""
    return max(time.process_time() - cpu, (time.monotonic() - begun) / WAITING) / n


def _ready(want: Want) -> None:
    """Import what every worker needs before they are made of this process."""
    from gguftool.model import overview
    from gguftool.verify import modelcheck

    if want.lint:
        from gguftool.facts.data import load
        from gguftool.lint import run
        from gguftool.run import lying

        run.selected(want.select, want.ignore)
        for name in ("load_maps.json", "architectures.json", "vocabulary.json"):
            load(name)
        del run, lying
    del overview, modelcheck


def _collect() -> None:
    import gc

    # Of the young: the modules, which are old, are no garbage, and to walk them takes as long as fifty models.
    gc.collect(1)
