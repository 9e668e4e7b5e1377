"""Which facts an answer was made of: what one build does, every build does of which those facts are the same.

While `Answers` makes an answer, the tables of the build (`facts/editions.py`) note entry by entry what is asked of
them. For another build the notes are asked again; where all of them come out the same, the answer does, too. An answer
has no other way to the facts of a build than `facts.data.load`, so nothing is left out. What an earlier part of the
work has left is noted in the same way (`Taken`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar
from weakref import ref

from gguftool.facts.data import INSTEAD, newest

T = TypeVar("T")
Source = Callable[[str], Any]
Path = tuple[str, ...]

_LISTED, _OR_ALL = 0, 1
"""A list that is asked whether something is in it; one that has all there is where it is not given."""
_DEEP: Mapping[str, Any] = {
    "vocabulary.json": {},
    "architectures.json": {"architectures": {}},
    "load_maps.json": {
        "classes": {"*": {}},
        "looks": {"*": _LISTED},
        "types": {"known": _LISTED},
        "marks": _OR_ALL,
        "plain": _LISTED,
        "gating": _LISTED,
        "tokenizers": _LISTED,
        **{part: {} for part in ("arch", "enums", "ops", "needs", "unadapted", "graph", "decode", "unused")},
    },
}
"""Files that differ by build, and what of them is asked entry by entry; the rest is compared as a whole."""
_ABSENT = object()
_LAST = 4
"""Answers that are tried: builds are asked one after the other, and what was otherwise before seldom comes back."""


class Notes:
    """What was asked of the facts of a build, and what came of it."""

    def __init__(self) -> None:
        self.tables: list[_Noted] = []
        self.told: list[tuple[Answers[Any], Any]] = []

    def close(self) -> None:
        """Nothing more is asked: a table of which only what lies in it was asked is not looked at again."""
        self.tables = [t for t in self.tables if t.entries or t.there or t.whole or not isinstance(t, _Table)]

    def hold(self, places: Places) -> bool:
        """Whether they come out the same; ``places`` are those of the facts that `load` gives at this moment."""
        for number, table in enumerate(self.tables):
            now = places[table.path]
            # What is equal in two builds mostly is one object.
            if now is not table.of and not table.holds(now):
                # What differs now will most likely do so again.
                self.tables.insert(0, self.tables.pop(number))
                return False
        for question, value in self.told:
            now = question.at(places)
            if now is not value and now != value:
                return False
        return True


class _Noted:
    """A table or a list, and which of its entries were asked for."""

    def __init__(self, notes: Notes, path: Path, of: Any) -> None:
        # The notes hold the tables and, by the questions, the model: a circle would keep it until somebody collects.
        self._notes = ref(notes)
        self.path, self.of = path, of
        self.entries: dict[str, Any] = {}
        self.there: dict[Any, bool] = {}
        self.whole = False
        notes.tables.append(self)

    @property
    def notes(self) -> Notes:
        """Where it is noted; of an answer that nobody keeps nothing is."""
        return self._notes() or Notes()

    def holds(self, now: Any) -> bool:
        """Whether another one has the same where it was asked."""
        if now is None or (self.whole and now != self.of):
            return False
        for key, value in self.entries.items():
            found = _entry(now, key)
            if found is not value and found != value:
                return False
        return _there(self.there, now)


def _there(noted: Mapping[Any, bool], now: Any) -> bool:
    """Whether a table or a list has what was noted as there, and has not what was noted as not there."""
    return [key in now for key in noted] == [*noted.values()]


class Places(dict[Path, Any]):
    """What stands where in the facts of one build, None where there is nothing; looked for once."""

    def __init__(self, source: Source = newest) -> None:
        super().__init__()
        self.source = source

    def __missing__(self, path: Path) -> Any:
        if len(path) > 1:
            table = self[path[:-1]]
            value = None if table is None else _entry(table, path[-1])
        else:
            value = self.source(path[0])
        self[path] = value
        return value


class Latest:
    """The places of the build that was asked last, which all parts of a question look at."""

    def __init__(self) -> None:
        self._places = Places()

    def places(self, source: Source) -> Places:
        """Those of this build."""
        places = self._places
        if places.source is not source:
            places = self._places = Places(source)
        return places


def _entry(table: Any, key: str) -> Any:
    # Not `get`: classes of rows are read when they are asked for (`facts.editions`).
    try:
        return table[key]
    except KeyError:
        return None


class _Table(_Noted, Mapping[str, Any]):
    """A table whose entries are noted as they are asked for."""

    def __init__(self, notes: Notes, path: Path, of: Mapping[str, Any], deep: Mapping[str, Any]) -> None:
        super().__init__(notes, path, of)
        self._deep = deep
        self._given: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key in self._given:
            return self._given[key]
        try:
            value = self.of[key]
        except KeyError:
            self.there[key] = False
            raise
        deep = self._deep.get(key, self._deep.get("*"))
        if deep is None or value is None:
            self.entries[key] = value
        elif isinstance(deep, int):
            value = _Listed(self.notes, (*self.path, key), value)
        else:
            value = _Table(self.notes, (*self.path, key), value, deep)
        self._given[key] = value
        return value

    def get(self, key: str, default: Any = None) -> Any:
        if self._deep.get(key) == _OR_ALL and key not in self._given:
            self._given[key] = _Marks(self.notes, (*self.path, key), self.of.get(key))
        return self[key] if key in self._given or key in self else default

    def __contains__(self, key: object) -> bool:
        there = self.there[key] = key in self.of
        return there

    def __iter__(self) -> Iterator[str]:
        self.whole = True
        return iter(self.of)

    def __len__(self) -> int:
        self.whole = True
        return len(self.of)


class _Listed(_Noted, Sequence[Any]):
    """A list that is asked whether something is in it."""

    def __contains__(self, entry: object) -> bool:
        there = self.there[entry] = entry in self.of
        return there

    def __getitem__(self, index: Any) -> Any:
        self.whole = True
        return self.of[index]

    def __len__(self) -> int:
        self.whole = True
        return len(self.of)


class _Marks(_Noted):
    """A list that is asked whether something is in it, and has all there is where it is not given."""

    def __contains__(self, entry: object) -> bool:
        there = self.there[entry] = self.of is None or entry in self.of
        return there

    def __iter__(self) -> Iterator[Any]:
        self.whole = True
        return iter(("all",) if self.of is None else self.of)

    def holds(self, now: Any) -> bool:
        if self.whole and now != self.of:
            return False
        return all(self.there.values()) if now is None else _there(self.there, now)


class Taken(dict[str, Any]):
    """A table that an earlier part left, whose entries are noted as they are asked for; what is written stays here.

    Only asking for an entry is noted: nobody goes through all of them.
    """

    def __init__(self, of: Mapping[str, Any]) -> None:
        super().__init__()
        self._of = of
        self.asked: dict[str, Any] = {}

    def __missing__(self, key: str) -> Any:
        value = self._of.get(key, _ABSENT)
        self.asked[key] = value
        if value is _ABSENT:
            raise KeyError(key)
        self[key] = value
        return value

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def __contains__(self, key: object) -> bool:
        if super().__contains__(key):
            return True
        if not isinstance(key, str) or self.asked.get(key) is _ABSENT:
            return False
        value = self.asked[key] = self._of.get(key, _ABSENT)
        if value is not _ABSENT:
            self[key] = value
        return value is not _ABSENT

    def written(self) -> dict[str, Any]:
        """What is otherwise than in the table it was taken from."""
        return {key: value for key, value in self.items() if self.asked.get(key, _ABSENT) is not value}


def _same(asked: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    for key, value in asked.items():
        found = now.get(key, _ABSENT)
        if found is not value and found != value:
            return False
    return True


class _Watching:
    """Facts of a build that note what is asked of them; stands in their place (`facts.data.INSTEAD`)."""

    def __init__(self, source: Source, inner: dict[Any, Answers[Any]], latest: Latest) -> None:
        self.source, self.inner, self.latest = source, inner, latest
        self.notes = Notes()
        self._given: dict[str, Any] = {}

    def __call__(self, name: str) -> Any:
        if name not in self._given:
            found = self.source(name)
            self._given[name] = _Table(self.notes, (name,), found, _DEEP[name]) if name in _DEEP else found
        return self._given[name]


class Answers(Generic[T]):
    """One question about the facts, answered build by build; what was noted for an answer is asked before it is made.

    Args:
        question: depends on nothing that changes but the facts that `load` gives, and on what it is given: where a
            table is, that as a `Taken`, and the rest.
        latest: shared by questions that are asked of the same builds.
    """

    def __init__(self, question: Callable[..., T], latest: Latest | None = None) -> None:
        self._latest = latest or Latest()
        self._question: Callable[..., T] = question
        self._known: list[tuple[Notes, tuple[Mapping[str, Any], Any], T]] = []
        self._inner: dict[Any, Answers[Any]] = {}
        self._last: tuple[Places, T] | None = None

    def __call__(self, table: Mapping[str, Any] | None = None, rest: Any = None) -> T:
        """The answer by the facts that are read at this moment.

        Args:
            table: what an earlier part of the work left; only the entries count that are asked for.
            rest: more of it, all of which counts.
        """
        instead = INSTEAD.get()
        source = newest if instead is None else instead.source if isinstance(instead, _Watching) else instead
        return self.at(self._latest.places(source), table, rest)

    def at(self, places: Places, table: Mapping[str, Any] | None = None, rest: Any = None) -> T:
        """The answer by the facts whose places these are; else as a call."""
        answer: T
        if table is None and self._last is not None and self._last[0] is places:
            return self._last[1]
        for notes, (asked, of), answer in reversed(self._known[-_LAST:]):
            if of == rest and (table is None or _same(asked, table)) and notes.hold(places):
                self._last = places, answer
                return answer
        watching = _Watching(places.source, self._inner, self._latest)
        taken = Taken(table or {})
        token = INSTEAD.set(watching)
        try:
            answer = self._question() if table is None else self._question(taken, rest)
        finally:
            INSTEAD.reset(token)
        watching.notes.close()
        self._known.append((watching.notes, (taken.asked, rest), answer))
        self._last = places, answer
        return answer


def noted(name: Any, question: Callable[[], T]) -> T:
    """The answer to a part of a larger question, of which only the answer counts and not the facts it is made of.

    Args:
        name: of the question, inside the larger one.
        question: as for `Answers`.
    """
    instead = INSTEAD.get()
    if not isinstance(instead, _Watching):
        return question()
    inner: Answers[T] = instead.inner.setdefault(name, Answers(question, instead.latest))
    answer = inner()
    instead.notes.told.append((inner, answer))
    return answer
