"""The options of llama-server in any build, without a program to ask: the newest help, held against the timeline."""

from __future__ import annotations

from collections.abc import Mapping

from gguftool.facts import NUMBER, timeline
from gguftool.records import replace
from gguftool.run.capabilities import Capabilities, Option, known
from gguftool.run.flags import normal, substitutes

_NOTHING = ("true", "false", '""')
"""Defaults that say nothing about a value."""


def of_build(number: int) -> Capabilities:
    """What the llama-server of a build takes; of a newer one than the newest known, what that takes.

    Args:
        number: of the build.

    Returns:
        Options with the spellings, listed values and defaults of that build. What a value is called, and variables of
        the environment, are the newest build's; an option that is gone has no name for its value.
    """
    if number >= NUMBER:
        return replace(known(), build=number)
    today = known().by_name
    rows = timeline.intervals("option")
    # One that the newest help lists did not go in between, whatever a reader of sources made of it.
    held = {n for n, row in rows.items() if (row.since <= number if n in today else row.holds(number) is not False)}
    then = (_by_option("option_value", number), _by_option("default", number))
    now = (_by_option("option_value", NUMBER), _by_option("default", NUMBER))
    out: list[Option] = []
    for o in known().options:
        if names := tuple(name for name in o.names if name in held):
            # One that only says that it is gone was an option where something held without it.
            gone = o.removed and not any(name in then[1] for name in names)
            out.append(_as_it_was(replace(o, names=names, removed=gone), then, now))
    for name in sorted(held - today.keys()):
        value = _words(then[0], (name,))
        out.append(Option((name,), f"[{'|'.join(value)}]" if value else "" if _switch(name, then[1]) else "VALUE"))
    return Capabilities(tuple(out), number, assumed=True)


Words = Mapping[str, list[str]]


def _by_option(kind: str, number: int) -> Words:
    """Words behind the name of an option, in that build."""
    out: dict[str, list[str]] = {}
    for text in sorted(timeline.names(kind, number)):
        name, _, word = text.partition(" ")
        out.setdefault(name, []).append(word)
    return out


def _words(of: Words, names: tuple[str, ...]) -> list[str]:
    return sorted(next((of[name] for name in names if name in of), []))


def _as_it_was(o: Option, then: tuple[Words, Words], now: tuple[Words, Words]) -> Option:
    """An option of today with the values and the default that it had, where they were others."""
    listed, default = (_words(of, o.names) for of in then)
    value, said = o.value, o.default
    if listed != _words(now[0], o.names):
        value = f"[{'|'.join(listed)}]" if listed else "" if o.value.startswith("[") else o.value
    if default != _words(now[1], o.names):
        said = "" if not default or default[0] in _NOTHING else default[0]
    return replace(o, value=value, default=said)


def _switch(name: str, defaults: Words) -> bool:
    """Whether an option that is gone took no value."""
    found = substitutes().get(normal(name))
    if found is not None:
        return not found.takes
    return name.startswith("--no-") or name not in defaults or defaults[name][0] in _NOTHING


def between(build: Capabilities) -> tuple[int, int] | None:
    """First and last build that a program can be of by its options, for one that does not say its number.

    None where its options are no build's, as of a fork, or where nothing says that it is older than the newest known.
    """
    today = known().by_name
    first, last = timeline.oldest(), NUMBER
    for name, row in timeline.intervals("option").items():
        if build.takes(name):
            first = max(first, row.since)
        elif name in today and not today[name].removed:
            last = min(last, row.since - 1)
    return (first, last) if first <= last < NUMBER else None
