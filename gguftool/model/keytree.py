"""Metadata keys by prefix, as a tree: what a person looks through."""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.brief import short_repr
from gguftool.records import dataclass

CROWD = 400
"""Keys side by side, at most; more of them are told apart by their first and last."""


@dataclass(frozen=True, slots=True)
class Group:
    """Keys that begin alike.

    Attributes:
        label: what it is called: ``rope``, or the first and the last of many.
        prefix: what its keys begin with, the dot included; "" where that is nothing.
        groups: those inside.
        keys: the others, whole.
    """

    label: str
    prefix: str
    groups: tuple[Group, ...] = ()
    keys: tuple[str, ...] = ()

    __repr__ = short_repr

    def __len__(self) -> int:
        """Keys in it and in the groups inside."""
        return len(self.keys) + sum(map(len, self.groups))


def grouped(keys: Sequence[str]) -> Group:
    """Keys in the order of the file: a group for each first word, inside it one for each second word of several keys.

    Args:
        keys: whole keys, each once.
    """
    first = _parted(keys, "")
    groups = [_inside(word, inside) for word, inside in first.items() if word]
    return _crowded("", "", groups, first.get("", []))


def _inside(word: str, keys: list[str]) -> Group:
    prefix = f"{word}."
    second = _parted(keys, prefix)
    groups = [_crowded(w, f"{prefix}{w}.", [], some) for w, some in second.items() if w and len(some) > 1]
    taken = {key for group in groups for key in _all(group)}
    return _crowded(word, prefix, groups, [key for key in keys if key not in taken])


def _all(group: Group) -> list[str]:
    return [*group.keys, *(key for inner in group.groups for key in _all(inner))]


def _parted(keys: Sequence[str], prefix: str) -> dict[str, list[str]]:
    """By the word behind a prefix; those that end with it under ""."""
    out: dict[str, list[str]] = {}
    for key in keys:
        word, dot, _ = key[len(prefix) :].partition(".")
        out.setdefault(word if dot else "", []).append(key)
    return out


def _crowded(label: str, prefix: str, groups: list[Group], keys: list[str]) -> Group:
    """A group of which no level is longer than `CROWD`."""
    if len(keys) > CROWD:
        groups = [*groups, *(_named(prefix, keys[i : i + CROWD]) for i in range(0, len(keys), CROWD))]
        keys = []
    while len(groups) > CROWD:
        parts = [groups[i : i + CROWD] for i in range(0, len(groups), CROWD)]
        groups = [Group(f"{part[0].label} … {part[-1].label}", prefix, tuple(part)) for part in parts]
    return Group(label, prefix, tuple(groups), tuple(keys))


def _named(prefix: str, keys: list[str]) -> Group:
    first, last = (key[len(prefix) :] for key in (keys[0], keys[-1]))
    return Group(f"{first} … {last}", prefix, (), tuple(keys))
