"""Where in llama.cpp's sources a message stands, and how it was judged: what no row of the table knows by its text.

`facts/data/messages.json` lists every message of the sources; `facts/data/judged.json` says of whole files, or of some
of their messages, which row of the table explains them, or why no user can meet them.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from gguftool.facts.data import load
from gguftool.records import dataclass
from gguftool.regex import regex
from gguftool.run.messages import WORD, KnownError, anchor, table, values

LETTERS = 12
"""A message with fewer letters of its own says nothing about where it comes from."""
_NO_LETTERS = regex(r"\{\}|\W|\d")


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the sources.

    Attributes:
        file: where it stands in llama.cpp's tree.
        level: error, throw, abort, assert, stderr, or answer (to a request).
        text: with ``{}`` for values.
    """

    file: str
    level: str
    text: str


@dataclass(frozen=True, slots=True)
class Rule:
    """How messages were judged: by a row (``kind``), or as internal (``reason``).

    Attributes:
        files, levels, says: which messages, as patterns of names; empty: all.
        count: how many of them are left to this rule by the rows and the rules before it.
    """

    files: tuple[str, ...]
    levels: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    kind: str = ""
    reason: str = ""
    count: int = 0

    def fits(self, said: Said) -> bool:
        """True when the message is one of those."""
        return (
            any(fnmatchcase(said.file, x) for x in self.files)
            and (not self.levels or said.level in self.levels)
            and (not self.says or any(fnmatchcase(said.text, x) for x in self.says))
        )


def messages() -> list[Said]:
    """All messages of the sources."""
    files: dict[str, dict[str, list[str]]] = load("messages.json")["files"]
    return [
        Said(file, level, text) for file, levels in files.items() for level, said in levels.items() for text in said
    ]


@cache
def rules() -> tuple[Rule, ...]:
    """In the order in which they are asked."""

    def rule(entry: dict[str, Any]) -> Rule:
        lists = {name: tuple(entry.get(name, ())) for name in ("files", "levels", "says")}
        return Rule(**lists, kind=entry.get("kind", ""), reason=entry.get("reason", ""), count=entry["count"])

    return tuple(rule(entry) for entry in load("judged.json")["rules"])


def reasons() -> dict[str, str]:
    """What the reasons for which a message is internal mean."""
    found: dict[str, str] = load("judged.json")["reasons"]
    return found


def judged(said: Said) -> Rule | None:
    """The first rule that fits a message."""
    return next((rule for rule in rules() if rule.fits(said)), None)


@cache
def _index() -> dict[str, list[Said]]:
    out: dict[str, list[Said]] = {}
    for said in messages():
        out.setdefault(anchor(said.text), []).append(said)
    return out


def _telling(text: str) -> bool:
    return len(_NO_LETTERS.sub("", text)) >= LETTERS


def where(text: str) -> Said | None:
    """The message of the sources that a line is; the longest of several. None when it is none."""
    index = _index()
    found = (
        said
        for word in set(WORD.findall(text.lower()))
        for said in index.get(word, ())
        if _telling(said.text) and values(said.text.removeprefix("{}"), text) is not None
    )
    return max(found, key=lambda said: len(said.text), default=None)


def row_of(kind: str) -> KnownError:
    """The row that stands for a kind: the one without a text of its own, else the first."""
    rows = [row for row in table() if row.kind == kind]
    return next((row for row in rows if not row.pattern and not row.says), rows[0])
