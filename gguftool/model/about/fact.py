"""One fact about a file, as data: for the first screen and for JSON alike."""

from __future__ import annotations

Value = str | int | float | bool | tuple[str, ...] | tuple[int, ...]
"""What is known: a number, a text, or several of either. Numbers keep their unit in the label."""
Fact = tuple[str, Value]
"""Label and value. A label is words in lower case ("tokens an image"); it is the key in JSON, too, so it stays."""
Facts = tuple[Fact, ...]


def facts_of(*pairs: tuple[str, Value | None]) -> Facts:
    """The facts that are known: without those that are None, an empty text or an empty tuple. 0 and False stay."""
    return tuple((label, value) for label, value in pairs if value is not None and value not in ("", ()))
