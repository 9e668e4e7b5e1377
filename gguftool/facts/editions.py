"""What older builds of llama.cpp do, of a series of builds: the facts of the newest with what differs.

`data/builds/maps.jsonl` is written by `scripts/facts/builds/maps.py`. Of a build only the documents that are asked for
are read: a line each, of which the differences from the newest build down to that one are applied in turn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from typing import Any

from gguftool.facts import NUMBER
from gguftool.facts.data import INSTEAD, newest, parsed, path
from gguftool.facts.difference import applied

FILE = "builds/maps.jsonl"
MEASURED = ("decode", "needs", "plain", "unadapted")
"""Parts of `load_maps.json` that were measured with the newest build, and are taken over."""

_MADE: dict[tuple[str, int], Any] = {}
"""Documents by name and the build from which downwards they are so."""


@cache
def _head() -> tuple[Mapping[str, Any], int]:
    """The first line, and where the next begins."""
    with open(path(FILE), "rb") as file:
        line = file.readline()
        head: Mapping[str, Any] = parsed(line)
        return head, file.tell()


@cache
def _steps(document: str) -> tuple[tuple[int, Any], ...]:
    """Differences of one document by build, newest first."""
    head, start = _head()
    offset, size = head["at"].get(document, (0, 0))
    if not size:
        return ()
    with open(path(FILE), "rb") as file:
        file.seek(start + offset)
        found: Mapping[str, Any] = parsed(file.read(size))
    return tuple(sorted(((int(build), step) for build, step in found.items()), reverse=True))


def _backwards(step: tuple[int, Any]) -> int:
    return -step[0]


def builds() -> tuple[int, ...]:
    """Builds whose rows are stored, newest first; the first is that of all other facts."""
    return tuple(_head()[0]["builds"])


def documents() -> tuple[str, ...]:
    """Names of the documents that are stored."""
    return tuple(_head()[0]["at"])


def nearest(build: int) -> int | None:
    """The newest stored build that is not newer; None when all are."""
    return NUMBER if build >= NUMBER else next((b for b in builds() if b <= build), None)


class _Classes(dict[str, Any]):
    """Rows by class, each read when it is asked for."""

    def __init__(self, edition: Edition) -> None:
        super().__init__()
        self.edition = edition

    def __missing__(self, name: str) -> Any:
        found = self[name] = self.edition.document(f"class/{name}", newest("load_maps.json")["classes"].get(name))
        return found


class _Architectures(Mapping[str, Any]):
    """What is known of each architecture that a build names, put together where it is asked for."""

    def __init__(self, names: Sequence[str], flags: Mapping[str, Sequence[str]]) -> None:
        self.names = names
        self.flags = flags
        self.made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self.made:
            if name not in self.names:
                raise KeyError(name)
            entry = newest("architectures.json")["architectures"].get(name, {"rope": "", "memory": "kv"})
            said = [flag for flag, names in self.flags.items() if name in names]
            rest = [flag for flag in entry.get("flags", ()) if flag not in self.flags]
            self.made[name] = entry | {"flags": said + rest}
        return self.made[name]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class Edition:
    """The facts of one stored build, by the names of the files they have in the newest.

    Attributes:
        build: its number.
    """

    def __init__(self, build: int) -> None:
        self.build = build
        self._files: dict[str, Callable[[], Any]] = {
            "load_maps.json": lambda: self.maps,
            "architectures.json": lambda: self.architectures,
            "vocabulary.json": lambda: self.lists["vocabulary"],
        }
        self._read: dict[str, Any] = {}

    def __call__(self, name: str) -> Any:
        """What stands in that file, as far as it is known of this build; else of the newest."""
        if name not in self._read:
            found = self._files.get(name)
            self._read[name] = newest(name) if found is None else found()
        return self._read[name]

    def document(self, name: str, value: Any = None) -> Any:
        """A document of the file, from the value that the newest build has; equal ones of two builds are one object."""
        steps = _steps(name)
        count = bisect_right(steps, -self.build, key=_backwards)
        # From the last that another build has been led through already.
        start = next((n for n in range(count, 0, -1) if (name, steps[n - 1][0]) in _MADE), 0)
        if start:
            value = _MADE[name, steps[start - 1][0]]
        for build, step in steps[start:count]:
            value = _MADE.setdefault((name, build), applied(value, step))
        return value

    @cached_property
    def lists(self) -> Mapping[str, Any]:
        """Architectures, pre-tokenizers, types, wordings."""
        found: Mapping[str, Any] = self.document("lists")
        return found

    @cached_property
    def maps(self) -> Mapping[str, Any]:
        """As `load_maps.json`, and more that is known of the newest build by heart (``program``, ``types`` …)."""
        base, lists = newest("load_maps.json"), self.lists
        scaling = {name: base["enums"]["rope.scaling.type"].get(name, name) for name in lists["scaling"]}
        out = {
            "arch": lists["arch"],
            "classes": _Classes(self),
            "program": self.document("common"),
            "ops": base["ops"],
            "scales": [],
            "enums": base["enums"] | {"rope.scaling.type": scaling},
            **{part: base[part] for part in MEASURED},
            **self.document("graphs"),
        }
        own = ("ops", "scales", "tokenizers", "types", "limits", "marks", "arrays")
        return out | {part: lists[part] for part in own if lists.get(part, {}) != {}}

    @cached_property
    def architectures(self) -> Mapping[str, Any]:
        """As `architectures.json`: the names of this build, of whose memory the newest build's word is taken."""
        known = _Architectures(self.lists["names"], self.lists["flags"])
        return {"build": f"b{self.build}", "architectures": known}


@cache
def edition(build: int) -> Edition:
    """The facts of a build that is stored."""
    return Edition(build)


@contextmanager
def reading(build: int) -> Iterator[None]:
    """Inside, facts are those of a stored build."""
    token = INSTEAD.set(None if build == NUMBER else edition(build))
    try:
        yield
    finally:
        INSTEAD.reset(token)
