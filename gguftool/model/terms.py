"""The licence of a source folder: what its card says, else the text that lies in it."""

from __future__ import annotations

import os
import re

from gguftool.errors import GgufToolError
from gguftool.facts.licences import OTHER, names, of_text
from gguftool.model.card import NAME, Card
from gguftool.reading import file_bytes
from gguftool.records import dataclass, replace
from gguftool.regex import regex

HUB = "https://huggingface.co/"
_FILES = regex(r"(?:LICEN[CS]E|COPYING)(?:[-_.](?!pdf|html?$)[\w.-]+)?", re.I)
_LARGEST = 1 << 20
_LONGEST = 100
"""Characters of a first line that serves as the name of a licence."""


@dataclass(frozen=True, slots=True)
class Terms:
    """A licence, as the keys `general.license`, `.name` and `.link` take it; "" for what is not known.

    Attributes:
        license: an identifier of the Hub, several with commas, or ``other``.
        name: of one that is ``other``.
        link: where its text stands.
        told_by: the file that says it.
    """

    license: str
    name: str = ""
    link: str = ""
    told_by: str = ""


def terms_of(folder: str, card: Card | None, repo: str = "") -> Terms | None:
    """The licence of a folder; None where nothing in it says one.

    Args:
        folder: the source.
        card: its README.md.
        repo: ``owner/name`` of the folder on the Hub, for the link to the text.
    """
    text = licence_file(folder)
    link = f"{HUB}{repo}/blob/main/{text}" if text and repo else text
    if (said := of_card(card)) is not None:
        if said.license.lower() not in OTHER:
            return said
        name = said.name or (_name(folder, text) if text else "")
        return replace(said, name=name, link=said.link or link)
    if not text:
        return None
    name = _name(folder, text)
    return Terms(name, "", "", text) if name in names() else Terms("other", name, link, text)


def of_card(card: Card | None) -> Terms | None:
    """The licence that a card says; None where it says none."""
    said = card.license.replace(", ", ",") if card is not None else ""
    if card is None or not (said or card.said("license_name")):
        return None
    return Terms(said or "other", card.said("license_name"), card.said("license_link"), NAME)


def licence_file(folder: str) -> str:
    """The name of the licence's text in a folder; "" without one."""
    try:
        found = sorted(n for n in os.listdir(folder) if _FILES.fullmatch(n) and os.path.isfile(os.path.join(folder, n)))
    except OSError:
        return ""
    plain = [n for n in found if os.path.splitext(n)[0].upper() in ("LICENSE", "LICENCE")]
    return next(iter([*plain, *found]), "")


def _name(folder: str, file: str) -> str:
    """What a text says it is: a name that is known, else its first line."""
    try:
        text = file_bytes(os.path.join(folder, file), _LARGEST).decode("utf-8", "replace")
    except GgufToolError:
        return ""
    first = next((line for line in (" ".join(x.split()) for x in text.splitlines()) if line), "")
    return of_text(text) or first.strip("#*= ")[:_LONGEST]
