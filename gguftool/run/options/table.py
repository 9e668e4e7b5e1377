"""The table of options, and what a spelling means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from gguftool.records import dataclass, fields, replace
from gguftool.run.options.row import Option
from gguftool.run.wishes import Wishes


@dataclass(frozen=True, slots=True)
class Spelling:
    """What one spelling says.

    Attributes:
        option: the option.
        takes: a value follows.
        value: what it stands for when none follows.
        side: 0 or 1: it says one half of a pair; None: all of it.
    """

    option: Option
    takes: bool
    value: Any = None
    side: int | None = None


@cache
def options() -> tuple[Option, ...]:
    """All options, in the order in which a command says them."""
    out = []
    for f in fields(Wishes):
        made = f.metadata.get("option")
        if isinstance(made, Option):
            ours = made.ours or next((n for n in made.names if n.startswith("--")), "")
            out.append(replace(made, field=f.name, ours=ours))
    return tuple(out)


@cache
def by_field() -> Mapping[str, Option]:
    """Option by the name of its field."""
    return {o.field: o for o in options()}


@cache
def by_name() -> Mapping[str, Spelling]:
    """What each spelling means, llama.cpp's and ours, former ones too."""
    return dict(_spellings())


def _spellings() -> Iterator[tuple[str, Spelling]]:
    for o in options():
        switch = not o.kind.metavar
        for name in o.spellings:
            yield name, Spelling(o, not switch, True if switch else None)
        for c in o.constants:
            for name in c.names:
                yield name, Spelling(o, False, c.value)
        for side, names in enumerate(o.sides):
            for name in names:
                yield name, Spelling(o, True, side=side)


def normal(name: str) -> str:
    """A long option as llama.cpp reads it: underscores become dashes."""
    return name.replace("_", "-") if name.startswith("--") else name


def with_value(wishes: Wishes, found: Spelling, text: str) -> Wishes:
    """The wishes with what a spelling and its text say.

    Raises:
        UsageError: the text is not what the option takes.
    """
    return with_this(wishes, found, read(found, text) if found.takes else found.value)


def with_this(wishes: Wishes, found: Spelling, value: Any) -> Wishes:
    """The same for a value that has been read."""
    o = found.option
    before = getattr(wishes, o.field)
    if found.side is not None:
        value = paired(before, found.side, value)
    elif o.kind.many and before:
        value = (*before, *value)
    return replace(wishes, **{o.field: value})


def read(found: Spelling, text: str) -> Any:
    """The value in a text; of `cache_type` as a whole the pair."""
    o = found.option
    if o.sides and found.side is None:
        from gguftool.facts.cachetypes import parse

        return parse(text)
    return o.kind.parse(text)


def paired(before: tuple[str, str] | None, side: int, value: str) -> tuple[str, str]:
    """A pair of cache types with one half said; the other is llama.cpp's default until it is said."""
    from gguftool.facts.cachetypes import DEFAULT

    k, v = before or (DEFAULT, DEFAULT)
    return (value, v) if side == 0 else (k, value)


def shown(o: Option, value: Any) -> str:
    """The text that gives an option this value."""
    if o.sides:
        from gguftool.facts.cachetypes import shown as shown_pair

        return shown_pair(*value)
    return o.kind.show(value)
