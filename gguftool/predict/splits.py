"""Shard keys and the other files of a set (`llama-model-loader.cpp:llama_model_loader`, b11434)."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gguftool.errors import FormatError, GgufToolError, MissingFile
from gguftool.facts.machine.ends import Refusal, Unknown
from gguftool.facts.machine.reader import Reader
from gguftool.format.types import value_type_name
from gguftool.model import Model, Part, open_model
from gguftool.model.shards import NAME
from gguftool.predict.file import check_bounds, check_file
from gguftool.predict.verdict import LOAD_ERROR, LoadEnds
from gguftool.source import LocalFile


def check_splits(m: Model, reader: Reader, count: int) -> None:
    """The other split keys of the first file of ``count``, and the files they lead to.

    llama.cpp goes by name alone: the other files are looked up beside the first one.

    Raises:
        Refusal, LoadEnds: with llama.cpp's words.
        Unknown: the other files cannot be seen from here.
    """
    path = m.parts[0].name
    no = reader.scalar("=split.no", "u16", True)
    if no:
        text = f"illegal split file idx: {no} (file: {path}), model must be loaded with the first split"
        raise Refusal(text, "field:split.no")
    match = NAME.match(os.path.basename(path))
    if match is None or int(match["no"]) != 1 or int(match["count"]) != count:
        raise Refusal(f"invalid split file name: {path}")
    seen = {t.name for t in m.parts[0].header.tensors}
    # Of two parts of one path the first counts.
    opened = {os.path.abspath(part.name): part for part in reversed(m.parts)}
    for i in range(1, count):
        part = _named(m, opened, _other(path, match.start("no"), match.end("no"), i + 1), i)
        try:
            check_file(part)
        except LoadEnds as end:
            last = f"{LOAD_ERROR}llama_model_loader: failed to load GGUF split from {part.name}"
            raise LoadEnds((*end.messages[:-1], last), where=f"shard:{i + 1}") from None
        _check_number(part, i)
        for t in part.header.tensors:
            if t.name in seen:
                raise Refusal(f"invalid model: tensor '{t.name}' is duplicated", f"tensor:{t.name}")
            seen.add(t.name)
        check_bounds(part)
    _check_count(reader, len(seen))


def _named(m: Model, opened: Mapping[str, Part], name: str, i: int) -> Part:
    """The file of that name: one that is open already, or the one beside the first."""
    if part := opened.get(os.path.abspath(name)):
        return part
    if not isinstance(m.parts[0].source, LocalFile):
        raise Unknown("the other files of the set were not opened", f"shard:{i + 1}")
    try:
        # Left open: a broken header is read again; the source closes itself when it is let go.
        return open_model(name, strict=False, whole_set=False).parts[0]
    except MissingFile:
        lines: tuple[str, ...] = (
            f"gguf_init_from_file: failed to open GGUF file '{name}' (No such file or directory)",
            f"{LOAD_ERROR}llama_model_loader: failed to load GGUF split from {name}",
        )
    except FormatError:
        lines = _unreadable(name)
    except GgufToolError as error:
        raise Unknown(str(error), f"shard:{i + 1}") from None
    raise LoadEnds(lines, where=f"shard:{i + 1}")


def _unreadable(name: str) -> tuple[str, ...]:
    """What llama.cpp says of a file that is no GGUF at all."""
    from gguftool.predict.walk import walk

    try:
        walk(LocalFile(name), name)
    except LoadEnds as end:
        return (*end.messages[:-1], f"{LOAD_ERROR}llama_model_loader: failed to load GGUF split from {name}")
    raise Unknown(f"{name} is not readable as GGUF here")


def _other(path: str, start: int, end: int, no: int) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f"{name[:start]}{no:0{end - start}d}{name[end:]}")


def _check_number(part: Part, i: int) -> None:
    f = part.header.get("split.no")
    where = f"shard:{i + 1}"
    if f is None:
        raise Refusal(f"missing key split.no in GGUF split {part.name}", where)
    if value_type_name(f.type) != "u16":
        raise Unknown(f"split.no of {part.name} is {f.type_name}: llama.cpp reads it without a check", where)
    if f.value != i:
        raise Refusal(f"invalid split file idx: {f.value} (file: {part.name}), expected {i}", where)


def _check_count(reader: Reader, loaded: int) -> None:
    stated = reader.scalar("=split.tensors.count", "i32", True)
    if stated != loaded:
        text = f"corrupted model: {stated} tensors expected but {loaded} found"
        raise Refusal(text, "field:split.tensors.count")
