"""Tensors: names, shapes and types against what the architecture asks for (`gguftool.lint.load`, llama.cpp b11434)."""

from __future__ import annotations

from gguftool.lint.rules.tensors import names, shapes, types

__all__ = ["names", "shapes", "types"]
