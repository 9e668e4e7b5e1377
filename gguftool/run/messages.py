"""The table of messages (`gguftool/facts/data/errors.json`), found by one word of each: no pattern is compiled in vain.

A row says what it is for as patterns (``pattern``, with ``words``: any line that it fits holds one of them) or as plain
texts (``says``) with ``{name}`` or ``{}`` where llama.cpp prints a value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache

from gguftool.facts.data import load
from gguftool.records import dataclass
from gguftool.regex import regex

WORD = regex(r"\w+")
ANY = "*"
"""In place of a word: any line may fit. Only for what needs something before it."""
_HOLE = regex(r"\{(\w*)\}")
_WHOLE = regex(r"(?<![\w\0])\w+(?![\w\0])")
"""A word, where each value is a NUL."""


@dataclass(frozen=True, slots=True)
class KnownError:
    """One row of the table.

    Attributes:
        kind: short kebab-case name.
        cause, remedy: for people; ``{name}`` stands for a value in the line.
        pattern: what the line looks like, "" where ``says`` tells.
        says: what the line holds.
        words: words of which the line holds one, when it fits ``pattern``.
        fatal: the program ends with it.
        program: the program that says it, "" for llama.cpp's own.
        lookup: a table that knows more: ``flag`` of the group ``argument``, ``tensor-type``, ``architecture``.
        symptom: the reason stands in another line.
        undone: the program goes on without something that was asked for.
        after: what must have been said before, for it means nothing by itself; "": nothing.
        request: a request failed, the program goes on.
        quiet: said of sound models, too: an answer to who asks, no notice.
        off: the feature (`gguftool.run.features`) or option that is off with it: a difference where it was asked for.
        harmless: llama.cpp may print it as an error, and nothing that was planned is missing.
    """

    kind: str
    cause: str
    remedy: str
    pattern: str = ""
    says: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    fatal: bool = True
    program: str = ""
    lookup: str = ""
    symptom: bool = False
    undone: bool = False
    after: str = ""
    request: bool = False
    quiet: bool = False
    off: str = ""
    harmless: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """A row that fits a line, its place in the table, and the values in the line."""

    place: int
    row: KnownError
    details: Mapping[str, str]


@cache
def table() -> tuple[KnownError, ...]:
    """All rows, from the root cause to its consequences."""
    rows = load("errors.json")["errors"]
    return tuple(
        KnownError(**{**row, "says": tuple(row.get("says", ())), "words": tuple(row.get("words", ()))}) for row in rows
    )


@cache
def _index() -> dict[str, tuple[tuple[int, str], ...]]:
    """Word in small letters -> places of rows that a line with it may fit, each with its text ("": the pattern)."""
    out: dict[str, list[tuple[int, str]]] = {}
    for place, row in enumerate(table()):
        for word in row.words:
            out.setdefault(word.lower(), []).append((place, ""))
        for text in row.says:
            out.setdefault(anchor(text), []).append((place, text))
    return {word: tuple(found) for word, found in out.items()}


def anchor(text: str) -> str:
    """The longest whole word of a text, in small letters; a word that touches a value is none."""
    return max(_WHOLE.findall(_HOLE.sub("\0", text)), key=len, default="").lower()


@cache
def _compiled(place: int) -> re.Pattern[str]:
    row = table()[place]
    return re.compile(row.pattern, re.IGNORECASE if row.program else 0)


def find(text: str, heard: Collection[str] | None = None) -> Found | None:
    """The first row of the table that the line fits.

    Args:
        text: one line.
        heard: which ``after`` have been said before; None: unknown, then they count where nothing else does.
    """
    if heard is None:
        return find(text, ()) or find(text, {row.after for row in table()})
    index = _index()
    places = {p for word in {*WORD.findall(text.lower()), ANY} if word in index for p in index[word]}
    for place, said in sorted(places):
        row = table()[place]
        if row.after and row.after not in heard:
            continue
        details = values(said, text) if said else _groups(place, text)
        if details is not None:
            return Found(place, row, details)
    return None


def values(said: str, text: str) -> dict[str, str] | None:
    """What stands in the line in place of the values of a text; None when the text is not in the line."""
    pieces = _HOLE.split(said)
    at = text.find(pieces[0])
    if at < 0:
        return None
    at += len(pieces[0])
    out: dict[str, str] = {}
    for name, piece in zip(pieces[1::2], pieces[2::2], strict=True):
        end = text.find(piece, at) if piece else len(text)
        if end < 0:
            return None
        if name:
            out[name] = text[at:end].strip()
        at = end + len(piece)
    return out


def _groups(place: int, text: str) -> dict[str, str] | None:
    match = _compiled(place).search(text)
    return None if match is None else {k: v.strip() for k, v in match.groupdict().items() if v is not None}
