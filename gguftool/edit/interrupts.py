"""Ctrl-C and termination while a file is being edited."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
DONE = "interrupted, when the file was written already: the change is done"
_Handler = Callable[[int, FrameType | None], Any]


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Signals wait until the block is left (it takes less than a second), then take effect as they would have.

    A KeyboardInterrupt that comes of it says that the work was done: nobody should do it again for that.

    Python runs handlers in the main thread only; in another thread there is nothing to defer.
    """
    seen: list[int] = []
    with _handling(lambda number, frame: seen.append(number)):
        yield
    for number in seen[:1]:
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(DONE) from None


@contextlib.contextmanager
def cancelling() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt like Ctrl-C, so that the work is cleaned up."""

    def cancel(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handling(cancel):
        yield


@contextlib.contextmanager
def _handling(handler: _Handler) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {}
    try:
        for number in _SIGNALS:
            # What was ignored (nohup) stays ignored.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, handler)
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
