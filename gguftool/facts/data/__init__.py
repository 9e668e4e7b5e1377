"""Facts as data: JSON files that ship with the package."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from json import loads

    parsed = loads
else:
    try:
        from _json import make_scanner
    except ImportError:  # no CPython
        from json import loads as parsed
    else:
        # What `json.loads` calls: to load `json` takes longer than to read most of these files.
        class _As:
            strict, parse_int, parse_float, parse_constant = True, int, float, float
            object_hook = object_pairs_hook = None

        _scan = make_scanner(_As)

        def parsed(text: bytes) -> Any:
            """The value of a JSON text that ships with the package, without blanks at its beginning."""
            return _scan(text.decode(), 0)[0]


INSTEAD: ContextVar[Callable[[str], Any] | None] = ContextVar("INSTEAD", default=None)
"""Where the facts are taken from while those of another build are asked for (`facts/editions.py`)."""


def path(name: str) -> str:
    """Where the file ``name`` of this folder lies."""
    # Not importlib.resources: its import alone costs 7 ms, and the package is never run from a zip file.
    return os.path.join(os.path.dirname(__file__), name)


class Entries(Mapping[str, Any]):
    """A large object of a file, each of its entries parsed when it is asked for: a model is of one architecture.

    Args:
        text: the file.
        start: where the object begins in it, at a brace and the end of a line.
        end: where it ends, at the end of a line and a brace; each line between is an entry.
    """

    def __init__(self, text: bytes, start: int, end: int) -> None:
        self._text, self._start, self._end = text, start, end
        self._parsed: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._parsed:
            # A name may be that of a stranger's file; none of ours has a quotation mark, which would lead out of it.
            begin = b'\n"%s":' % name.encode("utf-8", "surrogateescape")
            at = self._text.find(begin, self._start, self._end) if '"' not in name else -1
            if at < 0:
                raise KeyError(name)
            value = self._text[at + len(begin) : self._text.index(b"\n", at + 1)]
            self._parsed[name] = parsed(value.removesuffix(b","))
        return self._parsed[name]

    def __iter__(self) -> Iterator[str]:
        lines = self._text[self._start + 2 : self._end].split(b"\n")
        return (line[1 : line.index(b'":')].decode() for line in lines)

    def __len__(self) -> int:
        return self._text.count(b"\n", self._start, self._end)


@cache
def newest(name: str) -> Any:
    """The parsed JSON file ``name`` of this folder, `Entries` where its objects stand in lines; read once."""
    with open(path(name), "rb") as file:
        text = file.read()
    rest, objects, at = [], [], 0
    while (start := text.find(b"{\n", at)) > 0 and (end := text.find(b"\n}", start)) > 0:
        rest.append(text[at:start])
        objects.append(Entries(text, start, end))
        at = end + 2
    # No string of JSON holds the end of a line: in such a file these are the only ones.
    if not objects or text.find(b"\n", at) >= 0:
        return parsed(text)
    found: dict[str, Any] = parsed(b"null".join([*rest, text[at:]]))
    given = iter(objects)
    return {key: next(given) if value is None else value for key, value in found.items()}


def load(name: str) -> Any:
    """As `newest`, but what the build that is asked about has in its place."""
    instead = INSTEAD.get()
    return newest(name) if instead is None else instead(name)
