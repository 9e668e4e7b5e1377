"""How an object of the library shows itself: one short line, and a table in a notebook.

A model has hundreds of thousands of values; a prompt that prints them all is of no use to anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from gguftool.records import fields, is_dataclass

LONGEST = 160
"""Characters of a line."""
_TEXT = 48


def short_repr(self: object) -> str:
    """``Name(field=value, …)`` for a dataclass, each value shortened: to be set as its ``__repr__``."""
    parts = []
    for f in fields(self):  # type: ignore[arg-type]
        if not f.name.startswith("_") and f.repr:
            parts.append(f"{f.name}={shown(getattr(self, f.name))}")
    return line(type(self).__name__, parts)


def named_repr(self: object) -> str:
    """``Name()`` for an object of which no field says what it is."""
    return f"{type(self).__name__}()"


def line(name: str, parts: Sequence[str]) -> str:
    """``Name(part, part, …)``, with as many parts as a line holds."""
    out = f"{name}("
    for i, part in enumerate(parts):
        more = f"{', ' if i else ''}{part}"
        if len(out) + len(more) > LONGEST:
            return f"{out}{', ' if i else ''}…)"
        out += more
    return out + ")"


def shown(value: object) -> str:
    """One value in a few words: text cut, a container as its length, an object as its kind."""
    if value is None or isinstance(value, (bool, int, float)):
        text = repr(value)
        return text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"
    if isinstance(value, str):
        return repr(value if len(value) <= _TEXT else f"{value[: _TEXT - 1]}…")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"<{len(value):,} bytes>"
    if isinstance(value, tuple) and len(value) <= 4 and all(v is None or isinstance(v, (bool, int)) for v in value):
        return repr(value)
    if isinstance(value, (Mapping, Sequence, set, frozenset)) and not is_dataclass(value):
        return f"<{len(value):,}>" if value else repr(value)[:_TEXT]
    return f"<{type(value).__name__}>"


V = TypeVar("V")


class Named(dict[str, V]):
    """A dictionary of many things by name that shows how many there are."""

    def __repr__(self) -> str:
        return line("Named", [f"{len(self):,}: {', '.join(shown(key) for key in islice(self, 3))}"])


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]], *, most: int = 200) -> str:
    """A table of a notebook, everything in it escaped.

    Args:
        title: line above it.
        head: names of the columns; none when empty.
        rows: cells, shown as text.
        most: rows beyond which the rest is only counted.
    """
    from html import escape

    body = [f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows]
    left = len(body) - most
    if left > 0:
        body[most:] = [f"<tr><td colspan={max(1, len(head))}>… {left:,} more</td></tr>"]
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    top = f"<thead><tr>{names}</tr></thead>" if head else ""
    return f"<table><caption>{escape(title)}</caption>{top}<tbody>{''.join(body)}</tbody></table>"
