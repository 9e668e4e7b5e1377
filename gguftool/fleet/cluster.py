"""A scan's work on the workers of a Dask cluster: the same rows, from other machines.

The scheduler gives work to whoever is idle and gives that of a worker that died to another; here only so much is handed
over at once that nobody waits, so that a million files are never a million futures. What ends one worker after the
other is handed over by itself, and is then a row that says so.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from gguftool.errors import Bug, GgufToolError, ToolFailed, UsageError
from gguftool.facts import BUILD
from gguftool.fleet.row import failed
from gguftool.fleet.want import Seen, Task, Want, seen
from gguftool.fleet.work import LARGEST, VOCABULARIES
from gguftool.format import again
from gguftool.hub import is_remote
from gguftool.version import __version__

EXTRA = "pip install 'gguftool[cluster]'"
PATIENCE = 60
"""Seconds that the first worker gets to come."""
LONG = 0.25
"""Seconds that what is handed over at once should take: it goes over a network."""
AHEAD = 3
"""Times as much as can be looked at now is handed over."""
AGAIN = 2.0
"""Seconds after which the workers are counted anew."""
TRIES = 2
"""Times a path is handed over alone that the scheduler gave up."""
PROBED = 20
"""Paths that every worker is asked for before the work begins."""

_ONE = threading.Lock()
"""Of a worker with several threads one looks at a time: what is remembered between models is not for several."""


def told() -> tuple[str, str]:
    """What a worker runs: versions of gguftool, and of the facts in it."""
    return __version__, BUILD


def unseen(paths: Sequence[str]) -> list[str]:
    """Of some paths those that are not there, for a worker to say."""
    return [path for path in paths if not os.path.lexists(path)]


def work(tasks: Sequence[Task], want: Want, version: tuple[str, str]) -> tuple[list[Seen], float]:
    """What a worker does: look at some paths; also says how many seconds each took.

    Raises:
        ToolFailed: it runs another gguftool than the one that asks.
    """
    if version != told():
        raise ToolFailed(_other(os.uname().nodename if hasattr(os, "uname") else "it", told()), _SAME)
    with _ONE:
        again.remember(VOCABULARIES)
        begun = time.monotonic()
        found = [seen(task, want) for task in tasks]
        return found, (time.monotonic() - begun) / max(1, len(tasks))


_SAME = "install the same gguftool on every worker, and the same here"


def _other(worker: str, has: tuple[str, str]) -> str:
    return f"worker {worker} runs gguftool {has[0]} ({has[1]}), here it is {__version__} ({BUILD})"


class Cluster:
    """The workers of a scheduler.

    Args:
        address: of the scheduler: ``tcp://host:8786``, or ``tls://`` with the certificates that Dask's configuration
            names.
        want: what rows shall hold.
        paths: what was asked for; every worker must see it.

    Raises:
        ToolFailed: the package is missing, nobody answers, a worker is of another version or does not see the paths.
        UsageError: it is no address.
    """

    def __init__(self, address: str, want: Want, paths: Sequence[str]) -> None:
        try:
            import distributed
        except ImportError:
            raise ToolFailed("--scheduler needs Dask distributed, which is not installed", EXTRA) from None
        if "://" not in address:
            raise UsageError(f"{address}: is no address of a scheduler", "tcp://HOST:8786 or tls://HOST:8786")
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        self._address = address
        self._want = want
        self._waiting: list[Task] = []
        self._given: dict[Any, list[Task]] = {}
        self._alone: Counter[str] = Counter()
        self._suspects: list[Task] = []
        self._pace = LONG
        self._threads, self._counted = 1, 0.0
        try:
            self._client = distributed.Client(address, timeout=10, set_as_default=False)
        except (OSError, TimeoutError, ValueError, TypeError, RuntimeError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ToolFailed(
                f"{address}: no scheduler of Dask answers: {why[:300]}", "dask scheduler starts one"
            ) from None
        try:
            self._check(paths)
        except BaseException:
            self.close()
            raise
        self._done = distributed.as_completed(loop=self._client.loop)

    def _check(self, paths: Sequence[str]) -> None:
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise ToolFailed(
                f"{self._address}: has no worker, and none came within {PATIENCE} seconds",
                f"on each machine: dask worker --nthreads 1 {self._address}",
            ) from None
        for worker, has in sorted(self._client.run(told, on_error="return").items()):
            if isinstance(has, BaseException):
                raise ToolFailed(f"worker {worker} has no gguftool {__version__}: {str(has)[:200]}", _SAME)
            if has != told():
                raise ToolFailed(_other(worker, has), _SAME)
        here = [path for path in paths if not is_remote(path)][:PROBED]
        for worker, lacks in sorted(self._client.run(unseen, here, on_error="return").items()):
            if lacks:
                said = lacks[0] if isinstance(lacks, list) else str(lacks)[:200]
                raise ToolFailed(
                    f"worker {worker} does not see {said}",
                    "mount the models at the same place on this machine and on every worker",
                )

    @property
    def room(self) -> bool:
        """Whether it takes another task."""
        if time.monotonic() - self._counted > AGAIN:
            self._counted = time.monotonic()
            self._threads = max(1, sum(self._client.nthreads().values()))
        return len(self._given) < AHEAD * self._threads

    @property
    def busy(self) -> bool:
        """Whether something is still to come back."""
        return bool(self._given or self._waiting or self._suspects)

    def give(self, task: Task) -> None:
        """One more task."""
        self._waiting.append(task)
        if len(self._waiting) >= max(1, min(LARGEST, int(LONG / max(self._pace, 1e-4)))):
            self._hand_over(self._waiting)
            self._waiting = []

    def _hand_over(self, tasks: list[Task]) -> None:
        future = self._client.submit(work, tasks, self._want, told(), pure=False, key=None)
        self._given[future] = tasks
        self._done.add(future)

    def take(self) -> Sequence[Seen]:
        """What was seen since; waits until there is something."""
        if self._waiting:
            self._hand_over(self._waiting)
            self._waiting = []
        for task in self._suspects:
            self._hand_over([task])
        self._suspects = []
        found: list[Seen] = []
        while not found and self._given:
            try:
                batch = self._done.next_batch(block=True)
            except Exception as error:
                raise self._gone(error) from None
            for future in batch:
                found += self._taken(future, self._given.pop(future))
            for task in self._suspects:
                self._hand_over([task])
            self._suspects = []
        return found

    def _taken(self, future: Any, tasks: list[Task]) -> Sequence[Seen]:
        from distributed.scheduler import KilledWorker

        try:
            found, self._pace = future.result()
        except KilledWorker:
            return self._blamed(tasks)
        except GgufToolError:
            raise
        except Exception as error:
            # Nothing that a file causes comes so far: the cluster itself failed.
            raise self._gone(error) from None
        finally:
            with contextlib.suppress(Exception):
                future.release()
        return [self._visible(one) for one in found]

    def _blamed(self, tasks: list[Task]) -> Sequence[Seen]:
        """Workers died again and again with these in hand; one that does so alone is to blame."""
        found = []
        for task in tasks:
            self._alone[task.path] += len(tasks) == 1
            if self._alone[task.path] >= TRIES:
                row = failed(task.path, Bug("every worker that looked at it died", task.path), self._want.build)
                found.append(Seen(task.path, row))
            else:
                self._suspects.append(task)
        return found

    def _visible(self, one: Seen) -> Seen:
        """A file that is here and not there is told as what it is: a mount that a worker lacks."""
        error = one.row["error"] if one.row is not None else None
        if error is not None and error["code"] == "missing-file" and os.path.exists(one.path):
            error["hint"] = "it is here: a worker does not see it; mount the models at the same place on every worker"
        return one

    def _gone(self, error: Exception) -> ToolFailed:
        why = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        return ToolFailed(
            f"{self._address}: the cluster failed: {why}", "with --resume FILE the next scan goes on here"
        )

    def close(self) -> None:
        """Let go of what is still to be done; scheduler and workers stay."""
        with contextlib.suppress(Exception):
            self._client.close(timeout=5)
