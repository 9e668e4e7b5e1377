"""Names of the raw pieces that a file was cut into (`split -b`, upload limits): no shards, only the first is a GGUF."""

from __future__ import annotations

import os
import re

from gguftool.quantity import whole
from gguftool.regex import regex

# Groups: name of the whole file, number, count. Whether numbers start at 0 or 1 is found by looking.
PATTERNS = (
    regex(r"^(?P<base>.+\.gguf)[.-](?:split|part)[-_]?(?P<no>\d{1,9})of(?P<count>\d{1,9})$", re.I),
    regex(r"^(?P<base>.+\.gguf)[.-](?:split|part)[-_.]?(?P<no>\d{1,9})$", re.I),
    regex(r"^(?P<base>.+\.gguf)[.-](?:split|part)[-_.]?(?P<no>[a-z]{1,3})$", re.I),
    regex(r"^(?P<base>.+\.gguf)[.-]?(?P<no>\d{2,4})$", re.I),
    regex(r"^(?P<base>.+\.gguf)[.-]?(?P<no>[a-z]{2,3})$"),
)
SURE = 3
"""So many of them say it themselves; the others may be other endings."""


def piece_name(path: str) -> tuple[re.Pattern[str], str, str] | None:
    """Pattern, base and number of a name that a raw piece may have."""
    for pattern in PATTERNS:
        m = pattern.match(os.path.basename(path))
        if m:
            return pattern, m["base"], m["no"]
    return None


def number(text: str) -> int:
    """``07`` is 7; ``ab`` is 1 and ``aa`` 0, as split counts."""
    value = whole(text)
    if value is not None:
        return value
    value = 0
    for char in text.lower():
        value = value * 26 + ord(char) - ord("a")
    return value


def of_sure_name(path: str) -> tuple[str, int, int] | None:
    """The whole file, the number and the count (0: not said) of a name that says itself that it is a piece."""
    for pattern in PATTERNS[:SURE]:
        if m := pattern.match(os.path.basename(path)):
            base = os.path.join(os.path.dirname(path), m["base"])
            return base, number(m["no"]), int(m.groupdict().get("count") or 0)
    return None
