"""Facts as data: JSON files that ship with the package."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any


def path(name: str) -> str:
    """Where the file ``name`` of this folder lies."""
    # Not importlib.resources: its import alone costs 7 ms, and the package is never run from a zip file.
    return os.path.join(os.path.dirname(__file__), name)


@cache
def load(name: str) -> Any:
    """The parsed JSON file ``name`` of this folder; read once."""
    with open(path(name), "rb") as file:
        return json.loads(file.read())
