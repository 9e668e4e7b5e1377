"""Facts as data: JSON files that ship with the package."""

from __future__ import annotations

import json
from functools import cache
from typing import Any


@cache
def load(name: str) -> Any:
    """The parsed JSON file ``name`` of this folder; read once."""
    from importlib.resources import files

    return json.loads(files(__name__).joinpath(name).read_bytes())
