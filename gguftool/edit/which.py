"""Which file an edit is about: the one that carries the metadata, with no interrupted edit in the way."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from gguftool.edit.steps import pending
from gguftool.errors import GgufToolError
from gguftool.source import LocalFile

if TYPE_CHECKING:
    from gguftool.edit.recover import Outcome
    from gguftool.model.headers import Headers

SEARCHED = 1 << 20
"""In how much of its front, in bytes, a file that is not the first shard of its set must say so."""


def settled(path: str, *, write: bool = True, known: Headers | None = None) -> tuple[str, list[Outcome]]:
    """The file to edit for a model as the user names it, after an interrupted edit of it was settled.

    Args:
        path: a file, any shard of a set, or a folder that holds one model.
        write: False to leave an interrupted edit alone (a dry run).
        known: a header that has to be read is added here.

    Returns:
        The path, and what recovery did on the way.
    """
    path = _file(path)
    outcomes = [_recovered(path)] if write and pending(path) else []
    first = metadata_file(path, known)
    if write and first != path and pending(first):
        outcomes.append(_recovered(first))
    # One that was waited for, and came to its end, is no news.
    return first, [outcome for outcome in outcomes if outcome.action != "nothing"]


def _recovered(path: str) -> Outcome:
    from gguftool.edit.recover import recover

    return recover(path)


def unfinished(path: str) -> str:
    """The file to recover: the one named, the model of a folder, or the first shard when the edit is of that one."""
    path = _file(path)
    if not pending(path):
        # A file in the middle of an edit that has lost its journal cannot be read; it is the one to report.
        with contextlib.suppress(GgufToolError):
            first = metadata_file(path)
            return first if pending(first) else path
    return path


def metadata_file(path: str, known: Headers | None = None) -> str:
    """The file that carries the metadata: of a shard set the first shard.

    Args:
        path: a file, any shard of a set, or a folder that holds one model.
        known: headers that need not be read again.

    Raises:
        FormatError: the first shard is missing.
        Refused: a file would fit by what is in it, but nothing says that it is of the same set.
    """
    path = _file(path)
    source = LocalFile(path)
    try:
        # The other shards of a set carry little else, so most files are known not to be one without a walk.
        if known is None or known.known(source) is None:
            front = source.read_at(0, SEARCHED)
            if not any(key in front for key in (b"split.no", b"general.split")):
                return path
        from gguftool.model.headers import Headers
        from gguftool.model.missing import missing_error, refuse_unnamed
        from gguftool.model.shards import find, split_keys

        header = (known if known is not None else Headers()).parsed(source)
    finally:
        source.close()
    keys = split_keys(header)
    if keys is None or keys.no == 0:
        return path
    found = find(path, header)
    if found is None:
        return path
    first = found.paths[0]
    if first is None:
        raise missing_error(path, found)
    refuse_unnamed(path, [p for p in found.by_content if p == first], found.names)
    return first


def _file(path: str) -> str:
    """As `gguftool.model.in_folder`; most paths are those of files."""
    if not os.path.isdir(path):
        return path
    from gguftool.model import in_folder

    return in_folder(path)
