"""Checks and words that came with some build: what the build that is asked about has of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from gguftool.facts.data import INSTEAD, load

T = TypeVar("T")

SINCE = {"key-twice": 4436, "empty-key": 9975}
"""Since which build a mark is there, where the commit is known: between two stored builds it tells which one speaks."""


def bears(mark: str) -> bool:
    """Whether the build has it; the newest has all (`scripts/facts/builds/marks.py` lists them)."""
    marks = load("load_maps.json").get("marks")
    return marks is None or mark in marks


def borne() -> frozenset[str] | None:
    """All marks of the build; None for the newest, which has all there are."""
    marks = load("load_maps.json").get("marks")
    return None if marks is None else frozenset(marks)


def told(name: Any, question: Callable[[], T]) -> T:
    """The answer to a part of a larger question, made once for builds that agree in it (`watched.noted`).

    Args:
        name: of the question, inside the larger one.
        question: depends on nothing that changes but the facts that `load` gives.
    """
    if INSTEAD.get() is None:
        return question()
    from gguftool.facts.watched import noted

    return noted(name, question)
