"""Tensors: names, shapes and types against what the architecture asks for (`gguftool.predict`, llama.cpp b11434)."""

from __future__ import annotations

from gguftool.lint.rules.tensors import names, shapes, types

__all__ = ["names", "shapes", "types"]
