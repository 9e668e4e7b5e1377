"""Adapter: LoRA adapters, control vectors and importance matrices, by the checks of their own loaders in b11434."""

from __future__ import annotations

from gguftool.lint.rules.adapter import directions, keys, matrix, pairs

__all__ = ["directions", "keys", "matrix", "pairs"]
