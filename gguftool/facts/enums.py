"""Values that a key may have where llama.cpp looks at it long after it has read it (`scripts/facts/load_map.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from gguftool.facts.data import load


def numbers(key: str) -> Mapping[str, int]:
    """Names and numbers of ``pooling_type`` or ``expert_gating_func``; -1 stands for a key that is not there."""
    found: dict[str, int] = load("load_maps.json")["enums"][key]
    return found


def words(key: str) -> Mapping[str, str]:
    """Texts of ``rope.scaling.type`` or ``hidden_activation`` and what each stands for."""
    found: dict[str, str] = load("load_maps.json")["enums"][key]
    return found
