"""The rules as they are documented, without the modules that they live in: loading those takes a tenth of a second.

`catalogue.json` is written by `scripts/rule_reference.py` (`./dev docs`) from the decorators and docstrings, which are
its one home; a test holds it equal to them.
"""

from __future__ import annotations

import os
from functools import cache

from gguftool.brief import short_repr
from gguftool.errors import UsageError
from gguftool.facts.data import parsed
from gguftool.lint.rule import Scope, Severity, sections_of, title_of
from gguftool.lint.rules import FAMILIES
from gguftool.near import near_names
from gguftool.records import dataclass

FILE = "catalogue.json"


@dataclass(frozen=True, slots=True)
class Described:
    """What is said of one rule: attributes as those of `gguftool.lint.rule.Rule`."""

    id: str
    family: str
    severity: Severity
    scope: Scope
    since: str
    changes_run: bool
    text: str

    __repr__ = short_repr

    @property
    def title(self) -> str:
        """First line of the documentation."""
        return title_of(self.text)

    @property
    def sections(self) -> dict[str, str]:
        """The parts of the documentation by name: why, evidence, example, fix (those that are there)."""
        return sections_of(self.text)


@cache
def described() -> dict[str, Described]:
    """All rules by id, family by family."""
    with open(os.path.join(os.path.dirname(__file__), FILE), "rb") as file:
        rows = parsed(file.read())
    return {row[0]: Described(row[0], row[1], Severity(row[2]), Scope(row[3]), *row[4:]) for row in rows}


def of_family(name: str) -> tuple[Described, ...]:
    """The rules of one family in the order they are written."""
    return tuple(r for r in described().values() if r.family == name)


def check_name(name: str) -> None:
    """Raise `UsageError` with the nearest names when ``name`` is neither a rule nor a family."""
    if name in FAMILIES or name in described():
        return
    near = near_names(name.lower().replace("_", "-"), [*described(), *FAMILIES], 3, 0.5)
    guess = f"did you mean {' or '.join(near)}?" if near else "`gguftool rules` lists them"
    raise UsageError(f"there is no rule or family {name!r}", guess)
