"""Checks and words that came with some build: what the build that is asked about has of them."""

from __future__ import annotations

from gguftool.facts.data import load

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
