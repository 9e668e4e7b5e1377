"""Constants: numbers that the graph computes with, which llama.cpp loads a file without, or with any value."""

from __future__ import annotations

from gguftool.lint.rules.constants import gates, lost, ranges

__all__ = ["gates", "lost", "ranges"]
