"""The records of real loads: recipes, and what the libraries of many builds did with each.

``tests/data/builds/recipes.jsonl.gz`` holds the recipes, ``loads.jsonl.gz`` one line for each of them: for every build
in the order of its first line an index into the lines said, ``[verdict, first error line, warnings]``.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[1] / "data" / "builds"
HELD_OUT = frozenset({5772, 9713})
"""Builds that nobody looked at while the maps were made."""


@dataclass(frozen=True, slots=True)
class Record:
    """One load. ``recipe``: base and operations; ``verdict``: loads, refused, aborts, hangs; ``error``: its first
    line, of an abort the last words."""

    kind: str
    recipe: dict[str, Any]
    build: int
    verdict: str
    error: str
    warnings: tuple[str, ...]

    @property
    def held_out(self) -> bool:
        """True for a build or a recipe that was kept aside."""
        return self.build in HELD_OUT or set_aside(self.recipe)


def set_aside(recipe: dict[str, Any]) -> bool:
    """A third of the recipes, by their hash."""
    text = json.dumps([recipe["base"], recipe["ops"]], sort_keys=True)
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) % 3 == 0


def records(folder: str | None = None) -> Iterator[Record]:
    """The committed records, or raw ones: ``bN.jsonl``, one load a line."""
    if folder is None:
        yield from _committed()
        return
    for path in sorted(Path(folder).glob("b*.jsonl"), key=lambda p: int(p.stem[1:])):
        for line in path.read_text(encoding="utf-8").splitlines():
            r = json.loads(line)
            recipe = {"base": r["base"], "ops": r["ops"]}
            yield Record(r["class"], recipe, r["build"], r["verdict"], r["error"], tuple(r["warnings"]))


def _lines(name: str) -> list[Any]:
    with gzip.open(DATA / name, "rt", encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def _committed() -> Iterator[Record]:
    builds, *answers = _lines("loads.jsonl.gz")
    said = answers.pop()
    for recipe, answer in zip(_lines("recipes.jsonl.gz"), answers, strict=True):
        bare = {"base": recipe["base"], "ops": recipe["ops"]}
        for build, index in zip(builds, answer, strict=True):
            verdict, error, warnings = said[index]
            yield Record(recipe["class"], bare, build, verdict, error, tuple(warnings))
