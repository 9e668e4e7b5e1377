"""Ways to complete a value: names, lists of names, ``KEY=VALUE``, files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

import click
from click.shell_completion import CompletionItem

from gguftool.records import dataclass
from gguftool.report.text import safe

MOST = 500
"""What is offered at once; of more names the beginnings, up to the next dot."""
MOST_ENTRIES = 20_000
"""Entries of a folder that are looked at."""
FILE, OPEN = "file", "open"
"""Kinds of what is offered besides whole words: a path, and a word that goes on (no blank behind it)."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is known of the line.

    Attributes:
        ctx: of the command, with what stands before the cursor.
        words: the words of the line but the one begun, before and behind the cursor.
        before: those before the cursor.
    """

    ctx: click.Context
    words: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


Name = str | tuple[str, str]
"""A name, or a name and a word about it."""
Names = Callable[[Asked], Iterable[Name]]
Completer = Callable[[Asked, str], Iterable[CompletionItem]]


def showable(text: str) -> bool:
    """Whether a text can be shown and typed: no control characters, nothing hidden, no half of a character."""
    return bool(text) and safe(text) == text


def item(value: str, kind: str = "plain", about: str = "") -> CompletionItem:
    """One offer."""
    return CompletionItem(value, kind, about or None)


def free(why: str) -> Completer:
    """Nothing to choose from, and why."""

    def complete(asked: Asked, begun: str) -> Iterable[CompletionItem]:
        return ()

    complete.__doc__ = why
    return complete


def these(*names: Name) -> Names:
    """Names that are always the same."""
    return lambda asked: names


def several(*sources: Names) -> Names:
    """The names of all of them."""
    return lambda asked: [name for source in sources for name in source(asked)]


def choose(names: Names, separators: str = "", *, end: str = "") -> Completer:
    """One of ``names``, in either case.

    Args:
        names: what there is to choose from.
        separators: characters behind which the next name begins: ``,`` for lists. What a list has is not offered again.
        end: what follows a name, such as ``=``.
    """

    def complete(asked: Asked, begun: str) -> Iterable[CompletionItem]:
        start = max((begun.rfind(mark) + 1 for mark in separators), default=0)
        before, part = begun[:start], begun[start:]
        had = set(before.split(",")) if separators == "," else set()
        found = {name: about for name, about in map(_pair, names(asked)) if name not in had and showable(name)}
        return _offered(before, part, found, end)

    return complete


def _pair(name: Name) -> tuple[str, str]:
    return (name, "") if isinstance(name, str) else name


def _offered(before: str, begun: str, found: dict[str, str], end: str) -> list[CompletionItem]:
    """Names that go on from ``begun``; in its own case where there are any."""
    fitting = sorted(name for name in found if name.startswith(begun))
    if not fitting:
        low = begun.lower()
        fitting = sorted(name for name in found if name.lower().startswith(low))
    if len(fitting) > MOST:
        size = len(begun)
        ahead = {name[: name.find(".", size) + 1] or name: name.find(".", size) < 0 for name in fitting}
        return [
            item(before + name + (end if whole else ""), OPEN if end or not whole else "plain")
            for name, whole in sorted(ahead.items())[:MOST]
        ]
    return [item(before + name + end, OPEN if end else "plain", found[name]) for name in fitting]


def equals(left: Completer, right: Callable[[Asked, str], Iterable[Name]], *, separators: str = "") -> Completer:
    """``LEFT=RIGHT``.

    Args:
        left: offers what stands before the sign.
        right: the names behind it, for what stands before.
        separators: characters behind which the next such pair begins.
    """

    def complete(asked: Asked, begun: str) -> Iterable[CompletionItem]:
        start = max((begun.rfind(mark) + 1 for mark in separators), default=0)
        before, pair = begun[:start], begun[start:]
        name, sign, value = pair.partition("=")
        if sign:
            found = {n: about for n, about in map(_pair, right(asked, name)) if showable(n)}
            return _offered(f"{before}{name}=", value, found, "")
        return [item(before + str(i.value), i.type, i.help or "") for i in left(asked, pair)]

    return complete


def first(*completers: Completer) -> Completer:
    """What the first of them has to offer."""

    def complete(asked: Asked, begun: str) -> Iterable[CompletionItem]:
        return next((found for one in completers if (found := list(one(asked, begun)))), ())

    return complete


def files(*endings: str, folders: bool = False, separators: str = "") -> Completer:
    """Files with one of these endings, and folders on the way to them.

    Args:
        endings: ``.gguf``; none: any file.
        folders: only folders.
        separators: characters behind which the next path begins.
    """

    def complete(asked: Asked, begun: str) -> Iterable[CompletionItem]:
        start = max((begun.rfind(mark) + 1 for mark in separators), default=0)
        before, begun = begun[:start], begun[start:]
        if begun == "~":
            return [item(f"{before}~/", OPEN)]
        name = begun.rpartition("/")[2]
        stem = begun[: len(begun) - len(name)]
        place = os.path.expandvars(os.path.expanduser(stem)) or "."
        return [item(before + stem + found, FILE) for found in _entries(place, name, endings, folders)]

    return complete


def _entries(place: str, name: str, endings: Sequence[str], folders: bool) -> list[str]:
    """Names in a folder that go on from ``name``; folders end with a slash."""
    found: list[str] = []
    try:
        listed = os.scandir(place)
    except OSError:
        return found
    with listed as entries:
        for _, entry in zip(range(MOST_ENTRIES), entries, strict=False):
            if not entry.name.startswith(name) or (entry.name[0] == "." and not name) or not showable(entry.name):
                continue
            if entry.is_dir():
                found.append(f"{entry.name}/")
            elif not folders and (not endings or entry.name.lower().endswith(tuple(endings))):
                found.append(entry.name)
    return sorted(found)[:MOST]
