"""What looks like a control token in a text."""

from __future__ import annotations

from gguftool.regex import regex

MARKER = regex(r"<[|｜/]?[^<>\s]{1,60}>|\[/?[A-Z_]{2,30}\]")
"""What may be one: anything in angle brackets, ``[INST]``."""
SURE = regex(r"<[|｜][^<>\s]{1,60}[|｜]>|<(?:start|end)_of_\w+>|<\|?/?(?:turn|eos|bos|EOT|pad)\|?>")
"""What can hardly be anything else; a whole marker is matched with it."""
