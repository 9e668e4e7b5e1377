"""Which facts an answer was made of: what one build does, every build does of which those facts are the same.

While `Answers` makes an answer, the tables of the build (`facts/editions.py`) note entry by entry what is asked of
them. For another build the notes are asked again; where all of them come out the same, the answer does, too. An answer
has no other way to the facts of a build than `facts.data.load`, so nothing is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar
from weakref import ref

from gguftool.facts.data import INSTEAD

T = TypeVar("T")
Source = Callable[[str], Any]
Path = tuple[str, ...]

_LISTED = 0
_DEEP: Mapping[str, Any] = {
    "vocabulary.json": {},
    "architectures.json": {"architectures": {}},
    "load_maps.json": {
        "classes": {"*": {}},
        "looks": {"*": _LISTED},
        "types": {"known": _LISTED},
        "marks": _LISTED,
        "plain": _LISTED,
        "gating": _LISTED,
        "tokenizers": _LISTED,
        **{part: {} for part in ("arch", "enums", "ops", "needs", "unadapted", "graph", "decode", "unused")},
    },
}
"""Files that differ by build, and what of them is asked entry by entry; the rest is compared as a whole."""
_LAST = 4
"""Answers that are tried: builds are asked one after the other, and what was otherwise before seldom comes back."""


class Notes:
    """What was asked of the facts of a build, and what came of it."""

    def __init__(self) -> None:
        self.tables: list[_Noted] = []
        self.told: list[tuple[Callable[[], Any], Any]] = []

    def hold(self, source: Source) -> bool:
        """Whether they come out the same; ``source`` is where `load` takes its facts from at this moment."""
        for table in self.tables:
            now = _at(source, table.path)
            # What is equal in two builds mostly is one object.
            if now is not table.of and not table.holds(now):
                return False
        return all(question() == value for question, value in self.told)


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
        return all((key in now) == there for key, there in self.there.items())


def _at(source: Source, path: Path) -> Any:
    """What stands there; None where there is nothing."""
    value = source(path[0])
    for key in path[1:]:
        if value is None:
            return None
        value = _entry(value, key)
    return value


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
        elif deep == _LISTED:
            value = _Listed(self.notes, (*self.path, key), value)
        else:
            value = _Table(self.notes, (*self.path, key), value, deep)
        self._given[key] = value
        return value

    def get(self, key: str, default: Any = None) -> Any:
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


class _Watching:
    """Facts of a build that note what is asked of them; stands in their place (`facts.data.INSTEAD`)."""

    def __init__(self, source: Source, inner: dict[Any, Answers[Any]]) -> None:
        self.source, self.inner = source, inner
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
        question: depends on nothing that changes but the facts that `load` gives.
    """

    def __init__(self, question: Callable[[], T]) -> None:
        self._question = question
        self._known: list[tuple[Notes, T]] = []
        self._inner: dict[Any, Answers[Any]] = {}

    def __call__(self) -> T:
        """The answer by the facts that are read at this moment."""
        instead = INSTEAD.get()
        if instead is None:
            return self._question()
        source = instead.source if isinstance(instead, _Watching) else instead
        token = INSTEAD.set(source)
        try:
            for notes, answer in reversed(self._known[-_LAST:]):
                if notes.hold(source):
                    return answer
            watching = _Watching(source, self._inner)
            INSTEAD.set(watching)
            answer = self._question()
        finally:
            INSTEAD.reset(token)
        self._known.append((watching.notes, answer))
        return answer


def told(name: Any, question: Callable[[], T]) -> T:
    """The answer to a part of a larger question, of which only the answer counts and not the facts it is made of.

    Args:
        name: of the question, inside the larger one.
        question: as for `Answers`.
    """
    instead = INSTEAD.get()
    if not isinstance(instead, _Watching):
        return question()
    inner = instead.inner.setdefault(name, Answers(question))
    answer: T = inner()
    instead.notes.told.append((inner, answer))
    return answer


def known_by(name: Any, sign: Callable[[], Any], work: Callable[[], T]) -> T:
    """What ``work`` comes to; of a larger question it counts as `told`, by a value that says all that is used of it.

    Args:
        name: of the part.
        sign: equal for two builds where ``work`` comes to the same for both.
        work: the part itself.
    """
    instead = INSTEAD.get()
    if not isinstance(instead, _Watching):
        return work()
    told(name, sign)
    token = INSTEAD.set(instead.source)
    try:
        return work()
    finally:
        INSTEAD.reset(token)
