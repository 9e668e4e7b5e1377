"""Metadata: keys that must be there, with the right type and a value that makes sense."""

from __future__ import annotations

from gguftool.lint.rules.metadata import architecture, blocks, keys, name, values

__all__ = ["architecture", "blocks", "keys", "name", "values"]
