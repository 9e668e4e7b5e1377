"""Facts as data: JSON files that ship with the package."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any


@cache
def load(name: str) -> Any:
    """The parsed JSON file ``name`` of this folder; read once."""
    # Not importlib.resources: its import alone costs 7 ms, and the package is never run from a zip file.
    with open(os.path.join(os.path.dirname(__file__), name), "rb") as file:
        return json.loads(file.read())
