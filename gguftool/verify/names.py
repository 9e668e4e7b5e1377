"""Give shards the names llama.cpp looks for, by what is in them: renamed, or linked in a folder of their own."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from gguftool.brief import short_repr
from gguftool.edit.journal import undo_path
from gguftool.edit.oslayer import OsLayer
from gguftool.edit.records import numbered
from gguftool.edit.steps import refuse_unfinished
from gguftool.errors import Refused, UsageError
from gguftool.files.faults import writing
from gguftool.files.names import move_new, symlink_new
from gguftool.format.parse import parse
from gguftool.model.shards import NAME, shard_name
from gguftool.records import dataclass
from gguftool.regex import regex
from gguftool.source import LocalFile
from gguftool.verify.result import SetReport

_COUNTS = regex(r"(?:[-_. ]?(?:part|shard|split)?[-_. ]?\d+(?:[-_. ]?of[-_. ]?\d+)?)?\.gguf(?:-\d+-of-\d+)?$", re.I)


@dataclass(frozen=True, slots=True)
class Renaming:
    """What would be done: pairs of old and new paths, those that are right already left out.

    ``link``: make symbolic links instead of renaming.
    """

    pairs: tuple[tuple[str, str], ...]
    link: bool = False

    __repr__ = short_repr


def plan(found: SetReport, *, prefix: str | None = None, folder: str | None = None) -> Renaming:
    """Names for the shards of a set.

    Args:
        found: the set.
        prefix: what the names start with; taken from the names there are when None. With ``folder`` no path.
        folder: make links there; rename in place when None.

    Raises:
        UsageError: the shards lie in several folders (links can join them).
        Refused: a name is taken by a file that is not of this set.
    """
    paths = [path for path in found.paths if path is not None]
    if not paths:
        raise Refused("none of the files that are here is a shard of the set", "see `gguftool verify` of each")
    folders = {os.path.dirname(path) for path in paths}
    if folder is None and len(folders) > 1:
        raise UsageError("the shards lie in several folders", "--link-to FOLDER makes links in one folder")
    prefix = prefix or _prefix(paths, found.paths[0])
    place = folder if folder is not None else folders.pop()
    pairs = []
    for no, path in enumerate(found.paths):
        if path is not None:
            new = os.path.join(place, shard_name(prefix, no, found.count))
            # A link that is right already was made by an earlier run, which may have been killed in the middle.
            right = os.path.islink(new) and os.path.realpath(new) == os.path.realpath(path)
            if not right if folder is not None else os.path.abspath(path) != os.path.abspath(new):
                pairs.append((path, new))
    mine = {os.path.realpath(old) for old, _ in pairs} if folder is None else set()
    for _, new in pairs:
        if os.path.lexists(new) and os.path.realpath(new) not in mine:
            raise Refused(
                f"{new}: exists and is not a shard of this set; nothing was renamed", "--prefix NAME takes other names"
            )
    return Renaming(tuple(pairs), folder is not None)


def _prefix(paths: Sequence[str], first: str | None) -> str:
    """The prefix most of the names have; else what is left of them without numbers; else the model's name."""
    bases = [os.path.basename(path) for path in paths]
    usual = [m["prefix"] for m in map(NAME.match, bases) if m]
    if usual:
        return max(sorted(set(usual)), key=usual.count)
    stripped = {_COUNTS.sub("", base) for base in bases if base.lower().find(".gguf") > 0}
    if len(stripped) == 1 and (only := stripped.pop().rstrip("-_. ")):
        return only
    name = _name_in(first) if first is not None else None
    text = re.sub(r"[^\w.+-]+", "-", name).strip("-.") if isinstance(name, str) else ""
    return text or "model"


def _name_in(path: str) -> object:
    """`general.name` of the first shard."""
    source = LocalFile(path)
    try:
        field = parse(source, strict=False).get("general.name")
    finally:
        source.close()
    return field.told if field is not None else None


def apply(renaming: Renaming) -> None:
    """Do it. Renames go in an order that never replaces a file; a cycle gets one name in between.

    A run that is broken off leaves every file whole under its old, new or in-between name; running it again finishes.

    Raises:
        Refused: a name was taken meanwhile, or the system does not let us.
    """
    if renaming.link:
        for old, new in renaming.pairs:
            with writing(new):
                symlink_new(os.path.abspath(old), new)
        return
    layer = OsLayer()
    for old, _ in renaming.pairs:
        refuse_unfinished(layer, os.path.realpath(old), old)
    goes = {os.path.abspath(old) for old, _ in renaming.pairs}
    for old, new in renaming.pairs:
        for number in numbered(layer, os.path.abspath(old)):
            if os.path.abspath(new) not in goes and os.path.lexists(undo_path(new, number)):
                raise Refused(f"{undo_path(new, number)}: exists; nothing was renamed", "move it away, then try again")
    todo = dict(renaming.pairs)
    while todo:
        free = [old for old, new in todo.items() if not os.path.lexists(new)]
        if not free:
            old = next(iter(todo))
            between = f"{todo[old]}.between.gguf"
            _rename(old, between)
            todo[between] = todo.pop(old)
            continue
        for old in free:
            _rename(old, todo.pop(old))


def _rename(old: str, new: str) -> None:
    """The file first, then its undo records; those that a killed run leaves are found under the former name."""
    beside = [] if os.path.islink(old) else numbered(OsLayer(), os.path.abspath(old))
    with writing(new):
        move_new(old, new)
    for number in reversed(beside):
        record = undo_path(new, number)
        with writing(record):
            move_new(undo_path(old, number), record)
