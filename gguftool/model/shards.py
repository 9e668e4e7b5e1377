"""A set of shard files as one model: which files belong together, decided by what is in them.

llama.cpp writes ``name-00001-of-00003.gguf`` and the keys `split.no` (u16, from 0), `split.count` (u16) and
`split.tensors.count` (i32, of the whole model). Names are only where the search starts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gguftool.errors import GgufToolError
from gguftool.format.header import Header
from gguftool.format.parse import parse
from gguftool.format.types import MAGIC
from gguftool.source import LocalFile

NAME = re.compile(r"^(?P<prefix>.*)-(?P<no>\d{5})-of-(?P<count>\d{5})\.gguf$", re.S)
SPLIT_KEYS = ("split.no", "split.count", "split.tensors.count", "general.split", "general.split_count")
SEARCH_LIMIT = 4096
"""Files of a folder looked at when shards do not carry the usual names."""


LIKELY = re.compile(r"(?:.*\.gguf(?:-\d+-of-\d+)?|(?:sha256[-:])?[0-9a-f]{40,64})", re.I | re.S)
"""Names a shard may have: ``.gguf``, the count put behind it, or the hash a content store gives (no ending at all)."""
FEW_FIELDS = 16
"""Shards other than the first carry the split keys and little else."""


@dataclass(frozen=True, slots=True)
class SplitKeys:
    """The `split.*` keys of one file; ``no`` counts from 0.

    ``old``: they have the names of March 2024 (`general.split`, `general.split_count`), which llama.cpp ignores.
    """

    no: int
    count: int
    tensors: int | None
    old: bool = False


@dataclass(frozen=True, slots=True)
class ShardSet:
    """The files of one model in order; None where a shard is missing."""

    paths: tuple[str | None, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """Numbers (from 1) of the shards that were not found."""
        return tuple(i + 1 for i, p in enumerate(self.paths) if p is None)


def split_keys(header: Header) -> SplitKeys | None:
    """The split keys of a header; None when the file is a whole model (no count, or a count of 0 or 1)."""
    numbers: dict[str, int] = {}
    for f in header.fields:
        if f.key in SPLIT_KEYS and f.key not in numbers:
            value = f.value
            if isinstance(value, int) and not isinstance(value, bool):
                numbers[f.key] = value
    count, old = numbers.get("split.count", 0), numbers.get("general.split_count", 0)
    if count > 1:
        return SplitKeys(numbers.get("split.no", 0), count, numbers.get("split.tensors.count"))
    if old > 1 and "split.count" not in numbers:
        return SplitKeys(numbers.get("general.split", 0), old, numbers.get("split.tensors.count"), old=True)
    return None


def shard_name(prefix: str, no: int, count: int) -> str:
    """File name of shard ``no`` (from 0) as llama.cpp wants it (`llama.cpp:llama_split_path`)."""
    return f"{prefix}-{no + 1:05d}-of-{count:05d}.gguf"


def find(path: str, header: Header) -> ShardSet | None:
    """The shard set ``path`` belongs to; None when it is a whole model.

    Files with the usual name are taken first; shards still missing are looked for by content among the other ``.gguf``
    files of the folder, where exactly one must claim the number.
    """
    keys = split_keys(header)
    if keys is None or not 0 <= keys.no < keys.count:
        return None
    found: list[str | None] = [None] * keys.count
    found[keys.no] = path
    folder, name = os.path.split(path)
    m = NAME.match(name)
    if m:
        for no in range(keys.count):
            other = os.path.join(folder, shard_name(m["prefix"], no, keys.count))
            if found[no] is None and other != path and os.path.isfile(other):
                # Believe the name unless the content speaks against it.
                claim = _claim(other)
                if claim is None or claim.no == no:
                    found[no] = other
    if None in found:
        claims: dict[int, list[str]] = {}
        for other in neighbours(path):
            claim = _claim(other, first=found[0] is None)
            if claim and claim.count == keys.count and claim.tensors == keys.tensors and other not in found:
                claims.setdefault(claim.no, []).append(other)
        for no, paths in claims.items():
            if 0 <= no < keys.count and found[no] is None and len(paths) == 1:
                found[no] = paths[0]
    if None in found and keys.no == 0 and keys.tensors == len(header.tensors) > 0:
        # Everything is in this one: a merged model whose split keys were left behind.
        return None
    return ShardSet(tuple(found))


def neighbours(path: str) -> Iterator[str]:
    """Other files of the folder that may be shards, by name."""
    folder, own = os.path.split(path)
    try:
        names = sorted(os.listdir(folder or "."))
    except OSError:
        return
    likely = [n for n in names if n != own and LIKELY.fullmatch(n)]
    for name in likely[:SEARCH_LIMIT]:
        other = os.path.join(folder, name)
        if os.path.isfile(other):
            yield other


def _claim(path: str, *, first: bool = True) -> SplitKeys | None:
    """Split keys of a file beside; None when it is unreadable or whole.

    ``first``: also of files with many fields, of which only a first shard would be one; reading them takes longer.
    """
    try:
        source = LocalFile(path)
    except GgufToolError:
        return None
    try:
        head = source.read_at(0, 24)
        if head[:4] != MAGIC or (not first and FEW_FIELDS < int.from_bytes(head[16:24], "little") < 1 << 32):
            return None
        return split_keys(parse(source, strict=False))
    except GgufToolError:
        return None
    finally:
        source.close()
