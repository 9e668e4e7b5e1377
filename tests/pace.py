"""Limits of time that do not depend on what else the machine does: CPU time, held against a loop timed beside it.

``with within(5): render(bomb)`` fails when the block took more than five seconds of CPU of this process, as many as a
quiet machine of today would have given it: a slow machine, or one whose cores are shared, gets as much more as its
loop takes longer. A block that waits for ever is ended by pytest's own limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LOOP = 40_000
QUIET = 0.001
"""Seconds of CPU the loop takes on a quiet machine of 2 GHz and more with Python 3.11."""


def _loop() -> float:
    start = time.thread_time()
    total = 0
    for i in range(LOOP):
        total += i & 7
    return time.thread_time() - start


def slowness() -> float:
    """How many times longer this machine takes just now than a quiet one; never less than 1."""
    return max(1.0, min(_loop() for _ in range(5)) / QUIET)


@contextmanager
def within(seconds: float, clock: Callable[[], float] = time.process_time) -> Iterator[None]:
    """The block takes no more CPU time than that, on a quiet machine."""
    before, start = slowness(), clock()
    yield
    spent = clock() - start
    factor = max(before, slowness())
    assert spent < seconds * factor, f"{spent:.2f} s of CPU, {seconds} allowed, machine {factor:.1f} times slower"
