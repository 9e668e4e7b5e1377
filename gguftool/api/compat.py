"""Which llama.cpp loads a file: what it needs, who ships that, and what a build at hand does with it."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from functools import cache
from typing import TYPE_CHECKING

from gguftool.brief import short_repr
from gguftool.errors import GgufToolError, of_one
from gguftool.facts import editions, shipping, timeline
from gguftool.facts import llama_cpp as named
from gguftool.hub import opened
from gguftool.model import with_header
from gguftool.model.unreadable import unreadable
from gguftool.predict import Prediction, predict
from gguftool.predict.by_build import by_build
from gguftool.predict.needs import CODE, Need, needs, newest_of
from gguftool.predict.verdict import UNKNOWN
from gguftool.records import dataclass, replace

if TYPE_CHECKING:
    from gguftool.facts.shipping import Shipped
    from gguftool.hub.repo import Collection
    from gguftool.model import Model
    from gguftool.run.target import Target

CUT, BIG_ENDIAN = "cut", "big-endian"
Code = dict[str, tuple[int, tuple["Need", ...]]]
"""What stored loading code asks of models of one kind, and the build from which on it was looked at."""
FIRST_DAY, APART = "2024-01-01", timedelta(58)
"""Where the row of builds begins, and how far apart its builds are at least."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One build of the row.

    Attributes:
        build: its number.
        date: when it was made; "" where that is not known.
        load: what it does with the file.
    """

    build: int
    date: str
    load: Prediction

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Which builds load a file.

    Attributes:
        path: the model as it was named.
        needs: names that a build must know, and since when builds know them.
        since: the first build that is known to know all of them; None: every build does, or none.
        shipped: packages that carry such builds, the oldest and the newest version of each.
        asked: the llama.cpp that was asked about; None: none was.
        load: what that does with the file; None: none was asked about.
        row: builds from 2024 to now; empty where one build was asked about.
        cut: the file lacks data that its header promises, and the row is judged as if it were there.
        unread: ``cut`` where its header cannot be read to the end, ``big-endian``; "": it is read.
    """

    path: str
    needs: tuple[Need, ...]
    since: int | None
    shipped: tuple[Shipped, ...]
    asked: Target | None
    load: Prediction | None
    row: tuple[Judged, ...]
    cut: bool = False
    unread: str = ""

    __repr__ = short_repr

    @property
    def ok(self) -> bool:
        """False where the build that was asked about, else the newest of the row, refuses the file or dies of it."""
        load = self.load or (self.row[-1].load if self.row else None)
        return load is None or not (load.ends or load.skipped)


def compat(
    model: Model | str | os.PathLike[str],
    *,
    build: str | int | None = None,
    llama_cpp: str | None = None,
    llama_cpp_python: str | None = None,
    row: Sequence[int] | None = None,
    code: Code | None = None,
) -> Compatibility:
    """Which builds of llama.cpp load a file; or what one build does with it.

    Args:
        model: a path, an address, or a model opened with ``strict=False``.
        build: number of the build, ``b8179`` or ``8179``.
        llama_cpp: a program of llama.cpp, or its folder.
        llama_cpp_python: version of that package.
        row: builds to judge; None: a row from 2024 to now, or none where one build is asked about.
        code: what stored loading code says of models of one kind, for many calls: see `asked_code`.

    Raises:
        UsageError: two builds are named, or one that is none.
        MissingFile, ToolFailed: the program is not there, or does not run.
    """
    asked = _target(build, llama_cpp, llama_cpp_python)
    with opened(model) as m:
        whole = as_if_whole(m)
        found = needs(m, ignored=True)
        by = cache(by_build(whole or m))

        if asked is None:
            found = (*asked_code(m, by, found, code), *found)
        load = judged(m, asked) if asked is not None else None
        which = row if row is not None else () if asked is not None else builds_of_row()
        judgements = tuple(Judged(n, shipping.date(n), by(n)) for n in which)
        unread = CUT if not m.header.complete else BIG_ENDIAN if m.header.big_endian else ""
        cut = whole is not None and bool(judgements)
        return Compatibility(m.name, found, newest_of(found), shippers(found), asked, load, judgements, cut, unread)


def _target(build: str | int | None, llama_cpp: str | None, llama_cpp_python: str | None) -> Target | None:
    if build is llama_cpp is llama_cpp_python is None:
        return None
    from gguftool.run.target import target

    return target(build, llama_cpp, llama_cpp_python)


@dataclass(frozen=True, slots=True)
class OfMany:
    """One file of many: which builds load it, or why that cannot be told.

    Attributes:
        spec: path or address of the file.
        name: of it, inside the repository or the folder.
        found: the answer; None: the file could not be opened.
        error: why it could not be read, or not to the end of its header.
    """

    spec: str
    name: str
    found: Compatibility | None
    error: GgufToolError | None = None

    __repr__ = short_repr

    @property
    def exit_code(self) -> int:
        """What this file alone would make the program end with."""
        if self.error is not None:
            return self.error.exit_code
        return 0 if self.found is None or self.found.ok else 1


def compat_all(
    there: Collection,
    *,
    build: str | int | None = None,
    llama_cpp: str | None = None,
    llama_cpp_python: str | None = None,
) -> Iterator[OfMany]:
    """As `compat` for all of a repository or a folder, headers side by side; the newest build stands for the row.

    Args:
        there: what lies there.
        build: as `compat`.
        llama_cpp: as `compat`.
        llama_cpp_python: as `compat`.

    Raises:
        UsageError, MissingFile, ToolFailed: as `compat`.
    """
    from gguftool.hub.ahead import Ahead

    asked = _target(build, llama_cpp, llama_cpp_python)
    row = builds_of_row()[-1:] if asked is None else ()
    code: Code = {}
    files = [x for x in there.every if x.has_header]
    with Ahead(x.spec for x in files) as opener:
        for x in files:
            try:
                with opener(x.spec) as m:
                    found = compat(
                        m, build=build, llama_cpp=llama_cpp, llama_cpp_python=llama_cpp_python, row=row, code=code
                    )
                    yield OfMany(x.spec, x.name, found, unreadable(m))
            except Exception as error:
                yield OfMany(x.spec, x.name, None, of_one(error, x.spec))


def loading(by: Callable[[int], Prediction], found: Sequence[Need]) -> tuple[Need, ...]:
    """What keys and tensors ask beside the names, as the stored loading code tells: the last build that refuses them.

    Nothing where names already say it, or where the newest build refuses the file, too.

    Args:
        by: what a build does with the file.
        found: the names in it.
    """
    first = newest_of(found) or 0
    code = [n for n in editions.builds() if n >= first]
    if (first == 0 and any(n.refuses and not n.always for n in found)) or not code or by(code[0]).ends:
        return ()
    later = code[0]
    for build in code[1:]:
        if by(build).ends:
            return (Need(CODE, "keys and tensors", later, build, evidence="loading code"),)
        later = build
    return ()


def asked_code(m: Model, by: Callable[[int], Prediction], found: Sequence[Need], code: Code | None) -> tuple[Need, ...]:
    """As `loading`, once for all quantisations of a model: types of tensors are names, which `needs` tells.

    Args:
        m: the model.
        by: what a build does with it.
        found: the names in it.
        code: what was found for others, which is added to; None: there are no others.
    """
    first = newest_of(found) or 0
    if code is None:
        asking = loading(by, found)
    else:
        mark = _mark(m)
        if mark not in code or first < code[mark][0]:
            code[mark] = first, loading(by, found)
        asking = code[mark][1]
    # What the names ask already is not said again.
    return tuple(n for n in asking if n.since is None or n.since > first)


def _mark(m: Model) -> str:
    """What loading code looks at beside the types of tensors: keys but for the descriptive ones, names and shapes."""
    from hashlib import blake2b

    hashed = blake2b()
    for f in m.fields.values():
        if not f.key.startswith(("general.", "quantize.", "split.")) or f.key == "general.architecture":
            hashed.update(repr(f.key).encode())
            hashed.update(f.value_bytes)
    for t in m.all_tensors():
        hashed.update(repr((t.name, t.info.shape)).encode())
    return hashed.hexdigest()


def as_if_whole(m: Model) -> Model | None:
    """The model with all the data that its header promises; None where it is there, or is not all that is missing."""
    end = m.header.data_end() if m.header.complete and m.shard_count == 1 else None
    return with_header(m, m.header, end) if end is not None and m.parts[0].source.size < end else None


def judged(m: Model, asked: Target) -> Prediction:
    """What the llama.cpp that is asked about does with a file; unknown where its range of builds is not of one mind."""
    first = predict(m, asked.build)
    if asked.last is None or asked.last == asked.build:
        return first
    last = predict(m, asked.last)
    if last.verdict == first.verdict:
        return first
    why = f"{named(asked.build)}: {first.verdict}, {named(asked.last)}: {last.verdict}"
    return replace(first, verdict=UNKNOWN, messages=(), not_evaluated=(why, *first.not_evaluated))


def builds_of_row() -> tuple[int, ...]:
    """Builds from 2024 to now, some two months apart; where loading code is stored, those that it is of."""
    stored = editions.builds()
    every = [*timeline.builds(below=min(stored)), *reversed(stored)]
    row: list[int] = []
    last, at = FIRST_DAY, 0
    while (at := bisect_left(every, last, at, key=shipping.date)) < len(every) and (made := shipping.date(every[at])):
        row.append(every[at])
        last = (date.fromisoformat(made) + APART).isoformat()
    return tuple(dict.fromkeys((*row, every[-1])))


def shippers(found: Sequence[Need]) -> tuple[Shipped, ...]:
    """Of each package the first version whose build knows all that is asked for, and the newest."""
    refusing = [n for n in found if n.refuses]
    out: list[Shipped] = []
    for package in dict.fromkeys(s.package for s in shipping.shipped()):
        fit = [s for s in shipping.shipped() if s.package == package and all(n.there(s.since) for n in refusing)]
        fit.sort(key=lambda s: (s.since, s.date))
        out += dict.fromkeys((*fit[:1], *fit[-1:]))
    return tuple(out)
