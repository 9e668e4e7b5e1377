"""The card of a repository: ``README.md`` with its metadata in front, as the Hub reads it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from gguftool.brief import short_repr
from gguftool.facts.licences import Licence, licence
from gguftool.reading import Malformed, file_bytes, from_yaml
from gguftool.records import dataclass
from gguftool.regex import regex

NAME = "README.md"
LARGEST = 4 << 20
"""Bytes of a card that are read."""
LONGEST_FRONT = 256 << 10
_FRONT = regex(r"\A\ufeff?---[ \t]*\r?\n(?P<yaml>.*?)^---[ \t]*(?:\r?\n|\Z)", re.S | re.M)


BEGIN = "<!-- gguftool:begin {} (written by gguftool push-check --write; what stands outside is kept) -->"
END = "<!-- gguftool:end -->"
_MARK = regex(r"<!-- gguftool:begin (?P<digest>[0-9a-f]{16}) [^\n]{0,200}-->\r?\n")
_FRONT_MARK = "<!-- gguftool:begin "


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a card that we write: where it stands, its text, and the hash of that in its mark."""

    start: int
    end: int
    digest: str
    text: str


def parts(text: str) -> list[Part]:
    """The parts of a card that are ours, marks included."""
    found: list[Part] = []
    at = 0
    while (start := text.find(_FRONT_MARK, at)) >= 0 and (stop := text.find(END, start)) >= 0:
        end = stop + len(END)
        end += 2 if text.startswith("\r\n", end) else int(text.startswith("\n", end))
        if mark := _MARK.match(text, start, stop):
            found.append(Part(start, end, mark["digest"], text[mark.end() : stop]))
        at = end
    return found


@dataclass(frozen=True, slots=True)
class Card:
    """A card; "" and empty for what it does not say.

    Attributes:
        text: the whole file.
        body: what stands behind the metadata.
        front: the metadata as it stands there.
        fault: why the metadata cannot be read; "" when it can, or there is none.
    """

    text: str
    body: str
    front: Mapping[str, Any]
    fault: str = ""

    __repr__ = short_repr

    @property
    def ours(self) -> str:
        """The text of the part that we wrote; "" without one."""
        return "".join(part.text for part in parts(self.text))

    def said(self, name: str) -> str:
        """One value as text."""
        value = self.front.get(name)
        return str(value).strip() if isinstance(value, (str, int, float)) and not isinstance(value, bool) else ""

    def listed(self, name: str) -> tuple[str, ...]:
        """A value that may be one text or several."""
        value = self.front.get(name)
        several = value if isinstance(value, list) else [value]
        # `no` (Norwegian) is false to YAML 1.1.
        texts = ("no" if x is False else x for x in several)
        return tuple(str(x).strip() for x in texts if isinstance(x, (str, int, float)) and not isinstance(x, bool))

    @property
    def license(self) -> str:
        """The licence as written, several with commas."""
        return ", ".join(self.listed("license"))

    @property
    def licence(self) -> Licence | None:
        """The licence: ``license``, else ``license_name``."""
        return licence(self.license) or licence(self.said("license_name"))

    @property
    def bases(self) -> tuple[str, ...]:
        """``base_model``: names on the Hub."""
        return self.listed("base_model")


def card_of(folder: str) -> Card | None:
    """The card in a folder; None when there is none.

    Raises:
        Unreadable: the system refuses.
        UsageError: it is larger than 4 MiB.
    """
    path = os.path.join(folder, NAME)
    if not os.path.isfile(path):
        return None
    return read_card(file_bytes(path, LARGEST).decode("utf-8", "replace"))


def read_card(text: str) -> Card:
    """The card in the text of a README; metadata that cannot be read is told by its ``fault``."""
    found = _FRONT.match(text)
    if found is None:
        opened = text.lstrip("\ufeff").startswith("---\n")
        return Card(text, text, {}, "the metadata in front has no end (---)" if opened else "")
    yaml, body = found["yaml"], text[found.end() :]
    if len(yaml) > LONGEST_FRONT:
        return Card(text, body, {}, f"the metadata in front is longer than {LONGEST_FRONT >> 10} KiB")
    try:
        front = from_yaml(yaml)
    except Malformed as e:
        return Card(text, body, {}, f"the metadata in front {e}")
    if front is None:
        return Card(text, body, {})
    if not isinstance(front, dict):
        return Card(text, body, {}, "the metadata in front is no list of names and values")
    return Card(text, body, {str(key): value for key, value in front.items()})
