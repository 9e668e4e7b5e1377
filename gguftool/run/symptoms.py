"""What people say of a model that does not do well, and what it usually comes from (`symptoms.json`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from gguftool.brief import short_repr
from gguftool.facts.data import load
from gguftool.near import near_names
from gguftool.records import dataclass
from gguftool.regex import regex

_WORD = regex(r"[^\W_]+(?:'[^\W_]+)?")
_ONE_SIGN = regex(r"(\S)\1{3,}")
NEAR = 0.8
_FILLERS = frozenset("a an the it is its my model of in to and with does do just i me on at this that llm gguf".split())


@dataclass(frozen=True, slots=True)
class Usual:
    """A cause that no file shows.

    Attributes:
        name: its name.
        says: what it is.
        when: what must be there for it: ``device``, ``devices`` (two), "" nothing.
        next: words of the command behind ``gguftool``; ``MODEL`` stands for the model.
        source: public reports of it.
    """

    name: str
    says: str
    when: str
    next: tuple[str, ...]
    source: str

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Symptom:
    """One thing that people see.

    Attributes:
        name: short kebab-case name.
        title: what it is, in words.
        words: what people call it.
        rules: rules and families of lint whose findings cause it, the likeliest first.
        common: causes that no file shows.
    """

    name: str
    title: str
    words: tuple[str, ...]
    rules: tuple[str, ...]
    common: tuple[Usual, ...]

    __repr__ = short_repr

    def place(self, rule: str, family: str) -> int | None:
        """Where a rule stands among the causes, 0 is the likeliest; None: it is none."""
        return next((i for i, name in enumerate(self.rules) if name in (rule, family)), None)


@cache
def symptoms() -> tuple[Symptom, ...]:
    """All that are known."""
    table = load("symptoms.json")
    common = {
        name: Usual(name, row["says"], row["when"], tuple(row["next"]), row["source"])
        for name, row in table["common"].items()
    }
    return tuple(
        Symptom(
            row["name"], row["title"], tuple(row["words"]), tuple(row["rules"]), tuple(common[n] for n in row["common"])
        )
        for row in table["symptoms"]
    )


def match(text: str) -> Symptom | None:
    """The symptom that somebody describes, None when it is like none."""
    best = max(symptoms(), key=lambda s: _likeness(text, s))
    return best if _likeness(text, best) > 0 else None


def _likeness(text: str, s: Symptom) -> float:
    """Phrases that stand in the text count by their length, single words that resemble one of ours a little."""
    plain = text.casefold()
    if plain in (s.name, s.title.casefold()):
        return 1000.0
    found = float(sum(len(w) for w in s.words if w.casefold() in plain))
    if s.name == "one-sign" and _ONE_SIGN.search(text):
        found += 20
    known = _words(" ".join((s.name.replace("-", " "), s.title, *s.words)))
    return found + sum(0.5 * len(w) for w in _words(plain) if near_names(w, known, 1, NEAR))


def _words(text: str) -> Sequence[str]:
    return [w for w in _WORD.findall(text.casefold()) if w not in _FILLERS and len(w) > 2]
