"""Open many models, some ahead of whoever takes them: what a server answers slowly is asked for side by side."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING

from gguftool.hub import is_remote, open_any
from gguftool.model import Model

if TYPE_CHECKING:
    from concurrent.futures import Future

WORKERS = 8
"""Headers that are fetched at a time; more would be taken for an attack, and there is one line to the server."""


def lenient(spec: str) -> Model:
    """One model, what is wrong with it kept."""
    return open_any(spec, strict=False)


class Ahead:
    """An opener of models in the order in which they are listed; each is opened once, whoever takes it closes it.

    Threads are those of a daemon, so that a server which answers nothing does not hold up the end of the program.

    Args:
        specs: paths and addresses; those of this machine are opened when they are asked for.
        open: opens one.
        workers: how many at a time; as many wait to be taken.
    """

    def __init__(self, specs: Iterable[str], open: Callable[[str], Model] = lenient, workers: int = WORKERS) -> None:
        self._open = open
        self._rest = deque(dict.fromkeys(s for s in specs if is_remote(s)))
        self._there: dict[str, Future[Model]] = {}
        self._free = threading.Semaphore(2 * workers)
        self._lock = threading.Lock()
        self._over = False
        for _ in range(min(workers, len(self._rest)) if len(self._rest) > 1 else 0):
            threading.Thread(target=self._work, name="header", daemon=True).start()

    def __call__(self, spec: str) -> Model:
        """The model of ``spec``, opened already or now; raises what opening it raised."""
        with self._lock:
            found = self._there.pop(spec, None)
            if found is None and spec in self._rest:
                self._rest.remove(spec)
        if found is None:
            return self._open(spec)
        try:
            return found.result()
        finally:
            self._free.release()

    def _work(self) -> None:
        from concurrent.futures import Future

        while True:
            self._free.acquire()
            with self._lock:
                if self._over or not self._rest:
                    return
                spec = self._rest.popleft()
                mine = self._there[spec] = Future[Model]()
            try:
                mine.set_result(self._open(spec))
            except BaseException as error:
                mine.set_exception(error)

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        with self._lock:
            self._over = True
            self._rest.clear()
            left = list(self._there.values())
        self._free.release(2 * WORKERS)
        for one in left:
            one.add_done_callback(_close)


def _close(one: Future[Model]) -> None:
    """Close a model that nobody took."""
    if one.exception() is None:
        one.result().close()
