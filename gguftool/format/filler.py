"""Room in a header for later edits: the keys that hold nothing else."""

from __future__ import annotations

FILLER_KEY = "gguftool.pad"
"""The key whose string keeps room in the header; more room is in several, each short enough for every scanner."""


def is_filler(key: str) -> bool:
    """Whether a key holds nothing but room for later edits."""
    return key == FILLER_KEY or key.startswith(f"{FILLER_KEY}.")
