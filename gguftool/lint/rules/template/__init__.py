"""Template: the chat template is there, parses, renders, belongs to the vocabulary, and hides nothing.

It is rendered only in the sandbox of `gguftool.chat.sandbox`, and never when it reaches for code.
"""

from __future__ import annotations

from gguftool.lint.rules.template import code, dialect, engines, hidden, present, rendering

__all__ = ["code", "dialect", "engines", "hidden", "present", "rendering"]
