"""What options of a command mean in another build of llama.cpp: gone, renamed, with other values or another default."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gguftool.brief import short_repr
from gguftool.quantity import is_number
from gguftool.records import dataclass
from gguftool.regex import regex
from gguftool.run.capabilities import Capabilities, Option
from gguftool.run.flags import normal, substitutes
from gguftool.run.options.behind import listed
from gguftool.run.options.table import options

GONE, RENAMED, VALUES, DEFAULT, LATER = "gone", "renamed", "values", "default", "later"
_FIRST = regex(r"[^,;\s(]+")


@dataclass(frozen=True, slots=True)
class OptionChange:
    """One option that is not the same in both.

    Attributes:
        option: as the command spells it; of one that it does not say, its long name.
        kind: ``gone``, ``renamed``, ``values`` (it takes others, or takes one at all), ``default``, or ``later`` (the
            older build does not have it yet).
        was, becomes: what the option was, its values or its default, and what takes its place; "" for nothing.
        why: what it comes to, as a sentence.
        said: the command says it.
    """

    option: str
    kind: str
    was: str
    becomes: str
    why: str
    said: bool = True

    __repr__ = short_repr


def changes(words: Sequence[str], old: Capabilities, new: Capabilities) -> list[OptionChange]:
    """What differs for a command between two builds.

    Args:
        words: the arguments of llama-server.
        old: the build it runs with.
        new: the build it is to run with.
    """
    out: list[OptionChange] = []
    said: set[str] = set()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or is_number(word):
            continue
        given, has_value, value = word.partition("=")
        name = normal(given)
        was, now = old.by_name.get(name), new.by_name.get(name)
        of = was or now
        if of is not None:
            said.update(of.names)
            if of.value and not has_value and rest:
                value = rest.pop(0)
        change = _change(given, value, was, now, new)
        if change is not None and all(c.option != given for c in out):
            out.append(change)
    return [*out, *_unsaid(said, old, new)]


def _change(given: str, value: str, was: Option | None, now: Option | None, new: Capabilities) -> OptionChange | None:
    name = normal(given)
    if was is None or was.removed:
        if now is None or now.removed:
            return None
        return OptionChange(given, LATER, "", given, "the older build does not take it, and does not start with it")
    if now is None or now.removed:
        other = _renamed(was, name, value, new)
        if other is None:
            return OptionChange(given, GONE, given, "", "the newer build does not start with it, or ignores it")
        return OptionChange(given, RENAMED, given, other, "the newer build takes the other name alone")
    if bool(was.value) != bool(now.value):
        takes = f"takes a value: {now.value}" if now.value else "takes no value any more"
        return OptionChange(given, VALUES, was.value, now.value, f"it {takes}")
    before, after = listed(was), listed(now)
    if before and after and value in before and value not in after:
        text = f"{value} is no longer taken: {', '.join(after)}"
        return OptionChange(given, VALUES, ", ".join(before), ", ".join(after), text)
    if _default(was) != _default(now) and _default(now):
        why = "the command says its own value, so nothing changes"
        return OptionChange(given, DEFAULT, _default(was), _default(now), why)
    return None


def _renamed(was: Option, name: str, value: str, new: Capabilities) -> str | None:
    """What says the same in the newer build; None: nothing does."""
    same = new.spelling(was.names) or next((o.names[-1] for o in new.options if was.env and o.env == was.env), None)
    if same is not None:
        return same
    wrong = next((substitutes()[n] for n in (name, *was.names) if n in substitutes()), None)
    if wrong is None or not wrong.becomes or wrong.owner:
        return None
    words = wrong.becomes.replace("{value}", value or "VALUE")
    return words if new.takes(words.split(" ")[0]) else None


def _default(o: Option) -> str:
    """A default without the words around it; ``-1, -1 = auto`` is -1."""
    found = _FIRST.match(o.default.strip("'\" "))
    text = found[0].strip("'\"") if found else ""
    return {"enabled": "on", "disabled": "off", "true": "on", "false": "off"}.get(text, text)


def _unsaid(said: set[str], old: Capabilities, new: Capabilities) -> Iterator[OptionChange]:
    """Defaults that changed under a command that leaves them to the build: those that a plan rests on."""
    for o in options():
        if not o.plan or said & {
            *o.names,
            *(n for c in o.constants for n in c.names),
            *(n for s in o.sides for n in s),
        }:
            continue
        for names in o.sides or (o.names,):
            was, now = old.spelling(names), new.spelling(names)
            if was is None or now is None:
                continue
            before, after = _default(old.by_name[was]), _default(new.by_name[now])
            if before != after and before and after:
                long = next((n for n in names if n.startswith("--")), names[0])
                why = "the command does not say it, so the newer build does otherwise"
                yield OptionChange(long, DEFAULT, before, after, why, said=False)
