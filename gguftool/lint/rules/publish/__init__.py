"""Publish: what a file and its folder must have before an upload (`gguftool push-check`); silent elsewhere."""

from __future__ import annotations

from gguftool.lint.rules.publish import card, files, keys, names, scanners

__all__ = ["card", "files", "keys", "names", "scanners"]
