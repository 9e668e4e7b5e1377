"""Licences as models name them: SPDX identifiers, those of the Hub, and names that neither list has.

The table is `facts/data/licences.json`. What a licence forbids is told in one word (`USES`), read in its text; it is no
legal advice, it says where to read.
"""

from __future__ import annotations

import re
from functools import cache

from gguftool.facts.data import load
from gguftool.records import dataclass
from gguftool.regex import regex

USES = {
    "non-commercial": "forbids commercial use",
    "research": "allows research only",
    "no-derivatives": "allows no changed copies, which a quantised file may be",
    "acceptable-use": "restricts what the model may be used for, and goes with every copy",
}
"""What a licence restricts, worst first -> in words."""
OTHER = frozenset({"other", "unknown", ""})
"""What a card says of a licence that is named elsewhere, or nowhere."""
LONGEST = 400
"""Characters of an expression; a longer text is no name of a licence."""
_TEXT = 4000
"""Characters of a text that are looked at: what it is stands at its beginning."""
_TOKEN = regex(r"[()]|[^\s()]+")
_JOINED = regex(r"\s*,\s*")
_NOT_IN_A_REF = regex(r"[^A-Za-z0-9.-]+")
_GNU = regex(r"(?<=\d)(?:-only|-or-later|\+)\Z")
_NON_COMMERCIAL = regex(r"(?:^|[-_ .])nc(?:$|[-_ .])|non-?commercial", re.I)
_RESEARCH = regex(r"(?:^|[-_ .])research(?:$|[-_ .])", re.I)
_NO_CHANGES = regex(r"^cc-by-(?:nc-)?nd-", re.I)


@dataclass(frozen=True, slots=True)
class Part:
    """One licence in an expression.

    Attributes:
        said: as it was written.
        id: its SPDX identifier, or a ``LicenseRef-`` made of what was written.
        listed: it is on SPDX's list.
        known: it is on SPDX's list or the Hub's.
        name: in words.
        use: a key of `USES`; "" where nothing is known to be restricted.
        link: where its text stands, "" when that is not known.
    """

    said: str
    id: str
    listed: bool
    known: bool
    name: str
    use: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class Licence:
    """What a text says of the licence; ``expression`` is SPDX's."""

    said: str
    expression: str
    parts: tuple[Part, ...]

    @property
    def known(self) -> bool:
        """Whether every licence in it is on a list."""
        return all(part.known for part in self.parts)

    @property
    def use(self) -> str:
        """The worst of what it restricts; of a choice (OR) only what no choice avoids."""
        uses = [part.use for part in self.parts]
        if " OR " in self.expression and not all(uses):
            return ""
        return next((use for use in USES if use in uses), "")

    def same(self, other: Licence) -> bool:
        """Whether both name the same licences, however they are written."""
        return self._ids == other._ids

    def holds(self, other: Licence) -> bool:
        """Whether all that the other names is among what this one does."""
        return other._ids <= self._ids

    @property
    def _ids(self) -> frozenset[str]:
        # Of the GNU licences `only` and `or later` are often left out, and then either may be meant.
        return frozenset(_GNU.sub("", part.id.lower()) for part in self.parts)


def licence(text: str) -> Licence | None:
    """What a value of ``general.license``, of a card or of a policy names.

    Args:
        text: an identifier of SPDX or the Hub in any case, an SPDX expression, several with commas as the converter
            joins them, or a name.

    Returns:
        None where it names none: ``other``, ``unknown``, nothing.
    """
    said = " ".join(text.split())
    if said.lower() in OTHER:
        return None
    joined = _JOINED.sub(" AND ", said)
    tokens = _TOKEN.findall(joined) if len(joined) <= LONGEST else []
    if not _is_expression(tokens):
        one = _part(said[:LONGEST])
        return Licence(said, one.id, (one,))
    parts = [_part(token) for token in tokens if not _is_mark(token)]
    ids = iter(parts)
    words = [token.upper() if _is_mark(token) else next(ids).id for token in tokens]
    return Licence(said, " ".join(words).replace("( ", "(").replace(" )", ")"), tuple(parts))


def of_base(repository: str) -> Licence | None:
    """The licence of an official repository whose terms go with every model made of it; None: not known here."""
    for pattern, name in _bases():
        if pattern.fullmatch(repository):
            return licence(name)
    return None


def of_link(link: str) -> Licence | None:
    """The licence whose text stands at an address; None: not known here."""
    folded = link.casefold()
    for pattern, name in load("licences.json")["links"]:
        # Most begin with a plain word, and most words are not there.
        word = pattern.partition("\\")[0]
        if "(" not in word and word not in folded:
            continue
        if found := re.match(rf"https?://(?:www\.)?{pattern}", link, re.I):
            return licence(name.format(*found.groups()).lower())
    return None


def of_text(text: str) -> str:
    """The name of the licence whose text this is, as the Hub or its publishers write it; "" for one not known here.

    A name that is on no list stands under ``license: other``, as ``license_name``.
    """
    plain = " ".join(text[:_TEXT].lower().split())
    return next((name for pattern, name in _texts() if pattern.search(plain)), "")


def names() -> tuple[str, ...]:
    """Every identifier there is: the Hub's, then SPDX's."""
    table = load("licences.json")
    return (*table["hub"], *table["spdx"])


def for_card(found: Licence) -> str | None:
    """The one identifier of the Hub's list that means the same; None where a card must say ``other``."""
    if len(found.parts) != 1:
        return None
    wanted = found.parts[0]
    for name, row in load("licences.json")["hub"].items():
        if wanted.id == row.get("spdx") or wanted.said.lower() == name:
            return str(name)
    return None


def _is_mark(token: str) -> bool:
    return token in ("(", ")") or token.upper() in ("AND", "OR", "WITH")


def _is_expression(tokens: list[str]) -> bool:
    """Licences with AND, OR, WITH between them, brackets closed."""
    depth, wants_name = 0, True
    for token in tokens:
        if token == "(":
            depth += 1
            if not wants_name:
                return False
        elif token == ")":
            depth -= 1
            if wants_name or depth < 0:
                return False
        elif _is_mark(token):
            if wants_name:
                return False
            wants_name = True
        elif not wants_name:
            return False
        else:
            wants_name = False
    return bool(tokens) and depth == 0 and not wants_name


def _part(said: str) -> Part:
    table = load("licences.json")
    low = said.lower()
    row = table["hub"].get(low, {})
    spdx = row.get("spdx") or _spdx().get(low)
    bare = said.removeprefix("LicenseRef-")
    ref = spdx or "LicenseRef-" + (_NOT_IN_A_REF.sub("-", bare).strip("-.")[:100] or "unnamed")
    use = row.get("use") or table["named"].get(low) or _use(said)
    return Part(said, ref, spdx is not None, bool(row or spdx), row.get("name", said), use, row.get("link", ""))


def _use(said: str) -> str:
    """What a name says by itself."""
    if _NON_COMMERCIAL.search(said):
        return "non-commercial"
    if _NO_CHANGES.search(said):
        return "no-derivatives"
    return "research" if _RESEARCH.search(said) else ""


@cache
def _spdx() -> dict[str, str]:
    return {name.lower(): name for name in load("licences.json")["spdx"]}


@cache
def _bases() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern, re.I), name) for pattern, name in load("licences.json")["bases"])


@cache
def _texts() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern), name) for pattern, name in load("licences.json")["texts"])
