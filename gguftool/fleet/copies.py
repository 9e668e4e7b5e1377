"""The same content under several inodes: what says so, and how sure it is."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from gguftool.brief import short_repr
from gguftool.errors import GgufToolError
from gguftool.files.extents import shares
from gguftool.format.parse import parse
from gguftool.hub.stores import File
from gguftool.records import dataclass
from gguftool.source import LocalFile

if TYPE_CHECKING:
    from gguftool.verify.stream import Progress

DATA, NAMED, HEADER = "data", "name", "header"
"""Proofs: the data was read; the stores have the same sha256 in its name; size, header and samples are equal."""
_SAMPLE = 1 << 16
"""Bytes at the middle and at the end that are compared beside the header."""
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Datum:
    """One file of a store with what its store says of its content.

    Attributes:
        file: the file.
        sha256: what the name of its file says; "" when nothing does.
    """

    file: File
    sha256: str = ""

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Copies:
    """Files of the same content that take room of their own.

    Attributes:
        proof: `DATA`, `NAMED` or `HEADER`.
        files: at least two, in the order in which they were found.
        sha256: of their content, where it is known.
    """

    proof: str
    files: tuple[File, ...]
    sha256: str = ""

    __repr__ = short_repr

    @property
    def extra(self) -> int:
        """Bytes on the disk that all of them but one take."""
        return sum(f.disk for f in self.files) - max(f.disk for f in self.files)


@dataclass(frozen=True, slots=True)
class Compared:
    """What came of comparing.

    Attributes:
        copies: the groups.
        wrong: files whose data has another sha256 than their name says, with the right one.
        failed: files that could not be read, with the reason.
    """

    copies: tuple[Copies, ...]
    wrong: tuple[tuple[File, str], ...] = ()
    failed: tuple[tuple[File, str], ...] = ()

    __repr__ = short_repr


def compare(data: Iterable[Datum], read: Callable[[int], Progress] | None = None) -> Compared:
    """Find files of the same content. Only those of the same size are looked into.

    Args:
        data: files, each inode once.
        read: the data of those that may be the same is read, so that it is proven; called with how many bytes that
            is, it gives what is called with the bytes read since the last call. None: it is not read.
    """
    sizes = defaultdict[int, list[Datum]](list)
    for one in data:
        if one.file.size:
            sizes[one.file.size].append(one)
    copies: list[Copies] = []
    wrong: list[tuple[File, str]] = []
    failed: list[tuple[File, str]] = []
    likely = [
        same
        for group in sizes.values()
        if len(group) > 1
        for same in _by(group, lambda d: _front(d.file), failed).values()
        if len(same) > 1
    ]
    progress = read(sum(d.file.size for same in likely for d in same)) if read is not None and likely else None
    for same in likely:
        if progress is not None:
            hashed = _by(same, lambda d: _sha256(d.file, progress), failed)
            wrong += [(d.file, sha) for sha, ds in hashed.items() for d in ds if d.sha256 not in ("", sha)]
            found: Iterable[tuple[str, str, Sequence[Datum]]] = [(DATA, sha, ds) for sha, ds in hashed.items()]
        else:
            found = _as_named(same)
        for proof, sha, ds in found:
            own = _own(d.file for d in ds)
            if len(own) > 1:
                copies.append(Copies(proof, tuple(own), sha))
    return Compared(tuple(copies), tuple(wrong), tuple(failed))


def _as_named(same: Sequence[Datum]) -> Iterator[tuple[str, str, Sequence[Datum]]]:
    """Groups by what the names say; where those differ, an equal header says nothing of what has no such name."""
    said = defaultdict[str, list[Datum]](list)
    for one in same:
        said[one.sha256].append(one)
    silent = said.pop("", [])
    if silent and len(said) < 2:
        yield HEADER, "", same
        return
    for sha, group in said.items():
        yield NAMED, sha, group


def _own(files: Iterable[File]) -> list[File]:
    """Those that take room of their own: of such that share it on the disk, one."""
    out: list[File] = []
    for file in files:
        if not any(f.inode[0] == file.inode[0] and shares(f.path, file.path) for f in out):
            out.append(file)
    return out


def _by(data: Sequence[Datum], key: Callable[[Datum], str], failed: list[tuple[File, str]]) -> dict[str, list[Datum]]:
    out: dict[str, list[Datum]] = {}
    for one in data:
        try:
            out.setdefault(key(one), []).append(one)
        except (GgufToolError, OSError) as e:
            failed.append((one.file, str(e)))
    return out


def _front(file: File) -> str:
    """A hash over the header, and samples of the data; of what is no GGUF over as much of its beginning."""
    with closing(LocalFile(file.path)) as source:
        try:
            end = parse(source, strict=False).data_offset
        except GgufToolError:
            end = _SAMPLE
        made = hashlib.sha256()
        middle, last = source.size // 2, max(source.size - _SAMPLE, 0)
        for start, stop in ((0, end), (middle, middle + _SAMPLE), (last, source.size)):
            _feed(made, source, start, min(stop, source.size))
        return made.hexdigest()


def _feed(made: Any, source: LocalFile, start: int, stop: int) -> None:
    while start < stop:
        data = source.read_at(start, min(_CHUNK, stop - start))
        made.update(data)
        start += len(data)


def _sha256(file: File, progress: Progress) -> str:
    from gguftool.verify.hashes import hash_file

    return hash_file(file.path, progress=progress).file
