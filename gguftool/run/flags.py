"""What an option means, and what a wrong one was meant to be (`gguftool/facts/data/flag_notes.json`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from gguftool.brief import short_repr
from gguftool.facts.data import load
from gguftool.run.capabilities import Capabilities, known


@dataclass(frozen=True, slots=True)
class Substitute:
    """What to write in place of a wrong option.

    Attributes:
        becomes: the right words with ``{value}`` in them, None: nothing takes its place.
        takes: a value follows the wrong option.
        why: one sentence or two.
        lost: nothing does what it did.
        values: what its values are called in llama.cpp; "" for one that says the default.
        many: all words that follow are its values.
        owner: the program whose option it is, "" for a wrong or old one of llama.cpp.
    """

    becomes: str | None
    takes: bool
    why: str
    lost: bool = False
    values: Mapping[str, str] = field(default_factory=dict)
    many: bool = False
    owner: str = ""


@dataclass(frozen=True, slots=True)
class FlagAnswer:
    """What there is to say about an option.

    Attributes:
        flag: as it was asked for.
        exists: this build takes it.
        names, value, env, default: of the option that exists, its own or the one to use.
        meaning: what it does, "" when there is no note.
        becomes: for a wrong option: what to write instead, "" for nothing.
        why: for a wrong option: what it was meant to be.
        near: spellings that resemble it.
        build: the build that was asked, None for our table.
    """

    flag: str
    exists: bool
    names: tuple[str, ...] = ()
    value: str = ""
    env: str = ""
    default: str = ""
    meaning: str = ""
    becomes: str = ""
    why: str = ""
    near: tuple[str, ...] = ()
    build: str = ""

    __repr__ = short_repr


@cache
def notes() -> Any:
    """The table."""
    return load("flag_notes.json")


@cache
def substitutes() -> dict[str, Substitute]:
    """What to write instead, by wrong or foreign option (with dashes, never underscores)."""
    out: dict[str, Substitute] = {}
    for row in notes()["wrong"]:
        out.update(dict.fromkeys(map(normal, row["flags"]), _substitute(row)))
    for row in foreign()["names"]:
        if "becomes" in row and row["kind"] in ("option", "parameter"):
            made = _substitute(row, foreign()["owners"][row["of"]]["name"])
            for name in row["names"]:
                out.setdefault(normal(name if name.startswith("-") else f"--{name}"), made)
    return out


def _substitute(row: Any, owner: str = "") -> Substitute:
    takes = row.get("takes", "{value}" in (row["becomes"] or ""))
    why = f"An option of {owner}. {row.get('why', '')}".rstrip() if owner else row["why"]
    return Substitute(
        row["becomes"], takes, why, row.get("lost", False), row.get("values", {}), row.get("many", False), owner
    )


@cache
def foreign() -> Any:
    """Names of other programs: whose, and what says the same here."""
    return load("foreign_names.json")


def normal(flag: str) -> str:
    """A long option as llama.cpp normalises it: underscores become dashes."""
    return flag.replace("_", "-") if flag.startswith("--") else flag


def meaning_of(names: tuple[str, ...]) -> str:
    """Our note on an option, by any of its spellings."""
    return next((notes()["known"][n] for n in names if n in notes()["known"]), "")


def explain_flag(flag: str, build: Capabilities | None = None) -> FlagAnswer:
    """What an option does in this build, or what a wrong one was meant to be.

    Args:
        flag: with its dashes; a value after ``=`` is ignored.
        build: the build to ask; None: the one our facts are from.
    """
    build = build or known()
    label = f"b{build.build}" if build.build else build.commit
    typed = flag.strip().partition("=")[0]
    if not typed.startswith("-"):
        typed = f"--{typed}" if len(typed) > 3 else f"-{typed}"
    name = normal(typed)
    option = build.by_name.get(name)
    if option is not None and not option.removed:
        meaning = meaning_of(option.names)
        if name in substitutes() and option.deprecated:
            meaning = f"Still taken, but on its way out. {substitutes()[name].why}"
        return FlagAnswer(flag, True, option.names, option.value, option.env, option.default, meaning, build=label)
    wrong = substitutes().get(name)
    if wrong is not None:
        instead = (wrong.becomes or "").replace("{value}", "VALUE")
        target = build.by_name.get(instead.split(" ")[0]) if instead else None
        names = target.names if target else ()
        return FlagAnswer(
            flag, False, names, target.value if target else "", target.env if target else "",
            target.default if target else "", meaning_of(names), instead, wrong.why, build=label,
        )  # fmt: skip
    why = "It has been removed." if option is not None else "llama.cpp has no such option."
    return FlagAnswer(flag, False, why=why, near=tuple(build.nearest(name)), build=label)
