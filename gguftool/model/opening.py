"""From a path on this machine to a model: a file, any shard of a set, a folder that holds one model."""

from __future__ import annotations

import os

from gguftool.errors import GgufToolError
from gguftool.format.parse import parse
from gguftool.model.headers import Headers
from gguftool.model.model import Model
from gguftool.model.part import Part
from gguftool.model.shards import find, split_keys
from gguftool.source import LocalFile, Source


def open_model(
    path: str | os.PathLike[str], *, strict: bool = True, whole_set: bool = True, known: Headers | None = None
) -> Model:
    """Open a model: a ``.gguf`` file, any shard of a set, or a folder that holds one model.

    Args:
        path: what to open.
        strict: raise at the first fault in a header or at a missing shard; else note it.
        whole_set: follow the shard keys to the other files; a shard that is cut off or being edited is an error then.
        known: headers that need not be read again, and what was found out about them; those read now are added.

    Raises:
        MissingFile, Unreadable: no such file, a FIFO, no permission.
        NotGguf: the file is something else.
        FormatError: in strict mood, with offset and key.
        InterruptedEdit: it, or a shard of its set, is in the middle of an edit.
    """
    text = os.fspath(path)
    if os.path.isdir(text):
        from gguftool.model.folder import in_folder

        text = in_folder(text)
    first = beginning(text, strict=strict, known=known)
    model = whole(first, strict=strict, known=known) if whole_set else _alone(first)
    if known is not None:
        model.shared = known.found_of(first)
        known.add(model.parts)
    return model


def beginning(path: str, *, strict: bool = False, known: Headers | None = None, no: int = 0) -> Part:
    """One file as it stands, its set left alone, shard ``no`` (from 0) of it; raises as `open_model`."""
    return _part(path, strict, known or Headers(), no)


def whole(first: Part, *, strict: bool = True, known: Headers | None = None) -> Model:
    """The model that one file begins, or is a shard of; raises as `open_model`, and closes the file then."""
    text, read = first.name, known or Headers()
    try:
        shard_set = find(text, first.header, read)
        if shard_set is None:
            return _alone(first)
        if strict and shard_set.missing:
            from gguftool.model.missing import missing_error

            raise missing_error(text, shard_set)
        parts: list[Part] = []
        for no, p in enumerate(shard_set.paths):
            if p == text:
                parts.append(Part(first.name, first.source, first.header, no))
            elif p is not None:
                parts.append(_part(p, strict, read, no))
    except GgufToolError:
        first.source.close()
        raise
    count = len(shard_set.paths)
    return Model(tuple(parts), shard_set.missing, count, shard_set.by_content, shard_set.names, shard_set.strangers)


def from_source(source: Source, *, strict: bool = True) -> Model:
    """A model of one file that is already open (memory, a range of a remote file)."""
    return Model((Part(source.name, source, parse(source, strict=strict)),))


def _alone(part: Part) -> Model:
    keys = split_keys(part.header)
    return Model((part,), shard_count=1 if keys is None else keys.count)


def _part(path: str, strict: bool, read: Headers, no: int = 0) -> Part:
    source = LocalFile(path)
    try:
        before = read.known(source)
        header = before if before is not None and not before.problems else parse(source, strict=strict)
        source.check_unchanged()
    except BaseException:
        source.close()
        raise
    return Part(path, source, header, no)
