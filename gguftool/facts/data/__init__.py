"""Facts as data: JSON files that ship with the package."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from typing import Any

INSTEAD: ContextVar[Callable[[str], Any] | None] = ContextVar("INSTEAD", default=None)
"""Where the facts are taken from while those of another build are asked for (`facts/editions.py`)."""


def path(name: str) -> str:
    """Where the file ``name`` of this folder lies."""
    # Not importlib.resources: its import alone costs 7 ms, and the package is never run from a zip file.
    return os.path.join(os.path.dirname(__file__), name)


@cache
def newest(name: str) -> Any:
    """The parsed JSON file ``name`` of this folder; read once."""
    with open(path(name), "rb") as file:
        return json.loads(file.read())


def load(name: str) -> Any:
    """As `newest`, but what the build that is asked about has in its place."""
    instead = INSTEAD.get()
    return newest(name) if instead is None else instead(name)
