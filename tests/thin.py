"""A small process beside the test runner, for tests that fork: the runner holds what all tests before left in it.

``thin(function, *arguments)`` calls a function of a module there and gives what it returns, or raises what it raises.
A fork of the runner takes 60 ms of CPU once it holds a gigabyte, one of this process takes two.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest


def _begin() -> None:
    """As the runner has it (tests/conftest.py): a sync does not wait for the disk."""
    os.fsync = lambda fd: os.fstat(fd if isinstance(fd, int) else fd.fileno()) and None  # type: ignore[assignment]
    import gc

    import gguftool.cli.main  # noqa: F401

    gc.freeze()


@pytest.fixture(scope="session")
def thin() -> Iterator[Callable[..., Any]]:
    """Calls functions in the small process, which starts when it is used first."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_begin) as pool:
        yield lambda function, *arguments: pool.submit(function, *arguments).result()
