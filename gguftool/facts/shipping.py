"""When builds of llama.cpp were made, and which packages carry them.

`scripts/facts/builds/shipping.py` writes the data from what the registries and the tags of llama.cpp say.
"""

from __future__ import annotations

import datetime
from bisect import bisect_right
from functools import cache
from itertools import accumulate

from gguftool.brief import short_repr
from gguftool.facts.data import load
from gguftool.records import dataclass

FILE = "builds/shipping.json"


@dataclass(frozen=True, slots=True)
class Shipped:
    """One version of a package that carries llama.cpp.

    Attributes:
        package: its name in its registry.
        version: its version.
        date: day of its release; of node-llama-cpp the day of the llama.cpp inside.
        since: the build it carries, or the first that it can be.
        last: the last that it can be; ``since`` where the build is known.
    """

    package: str
    version: str
    date: str
    since: int
    last: int

    __repr__ = short_repr


def date(build: int) -> str:
    """The day a build was made (of its commit, UTC); "" for one that is older or newer than those that are known."""
    known = _firsts()
    at = bisect_right(known, build) - 1
    if at < 0 or build > known[-1]:
        return ""
    # Days on which nothing was built have the number of the day before.
    while at and known[at - 1] == known[at]:
        at -= 1
    start = datetime.date.fromisoformat(load(FILE)["days"]["from"])
    return (start + datetime.timedelta(at)).isoformat()


@cache
def _firsts() -> tuple[int, ...]:
    """First build of each day from the first on."""
    return tuple(accumulate(load(FILE)["days"]["builds"]))


@cache
def shipped() -> tuple[Shipped, ...]:
    """All versions whose build is known, or between which builds it is; by package, older ones first."""
    return tuple(
        Shipped(package, version, day, since, rest[0] if rest else since)
        for package, rows in load(FILE)["shipped"].items()
        for version, day, since, *rest in rows
    )
