"""`converters.json`: the names of models that llama.cpp's converter takes, of the release and of the packaged one.

The packaged converter (`gguftool/build/converter.py:PACKAGE`) is read from the environment that
``gguftool convert --setup`` makes; where there is none, what was read before is taken over.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gguftool.facts.converters import Registry, read

HERE = Path(__file__).resolve().parents[2] / "gguftool" / "facts" / "data" / "converters.json"


def converters(root: Path, build: str) -> tuple[dict[str, Any], list[str]]:
    """The data file, and what could not be read."""
    from gguftool.build.converter import PACKAGE, package_folder

    found, folder = read(root), package_folder()
    if found is None:
        return {}, ["converters: no names of models in conversion/__init__.py"]
    release = _rows(found)
    gaps = [f"converters: {part} is empty" for part, names in release.items() if not names and part != "broken"]
    beside = read(folder) if folder else None
    packaged = _rows(beside) if beside else json.loads(HERE.read_text(encoding="utf-8"))["packaged"]
    if beside is None:
        print(f"taken over: what {PACKAGE} takes (gguftool convert --setup brings it)")
    return {"source": build, "package": PACKAGE, "release": release, "packaged": packaged}, gaps


def _rows(found: Registry) -> dict[str, list[str]]:
    return {part: sorted(getattr(found, part)) for part in Registry.__slots__}
