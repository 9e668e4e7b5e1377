"""Tables of options: what they mean, what wrong and foreign ones are here (`flag_notes.json`, `foreign_names.json`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from gguftool.facts.data import load
from gguftool.records import dataclass, field


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
