"""Safety: what the file is, what its text hides, and what the user's own policy demands."""

from __future__ import annotations

from gguftool.lint.rules.safety import content, policy

__all__ = ["content", "policy"]
