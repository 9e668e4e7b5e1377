"""The metadata of a model: each key with what it means and who reads it."""

from __future__ import annotations

from gguftool.brief import short_repr
from gguftool.errors import UsageError
from gguftool.format.header import NAME, Field
from gguftool.format.types import STR
from gguftool.lint.explain import Explanation, explain
from gguftool.model import Model
from gguftool.records import dataclass

LONG = 300
"""Characters of a text that are shown."""
MOST = 2000
"""Keys that are listed; real files have a few dozen."""


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One field.

    Attributes:
        key: as in the file.
        type: ``u32``, ``[str]``.
        count: length of an array; None: it is none.
        value: in a few words.
        about: what is known of the key; None: nothing.
    """

    key: str
    type: str
    count: int | None
    value: str
    about: Explanation | None

    __repr__ = short_repr


def key_rows(m: Model) -> tuple[KeyRow, ...]:
    """The fields of the first file, in their order, at most `MOST`."""
    return tuple(KeyRow(f.key, f.type_name, f.count, _value(f), _about(f.key)) for f in m.header.fields[:MOST])


def _value(f: Field) -> str:
    """A text as it is, without quotes, its beginning; all else in a few words."""
    if f.type != STR:
        return f.shown()
    text = str(f.beginning(4 * LONG))
    return text if len(text) <= LONG and not f.untold and len(f.value_bytes) <= 4 * LONG else f"{text[:LONG]}…"


def _about(key: str) -> Explanation | None:
    if len(key) > NAME:
        return None
    try:
        return explain(key)
    except UsageError:
        return None
