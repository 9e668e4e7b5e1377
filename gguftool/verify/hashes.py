"""Hashes of a file, its header, its data section and every tensor, in one pass."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from gguftool.brief import short_repr
from gguftool.errors import GgufToolError, UsageError, of_one
from gguftool.format.header import Header, TensorInfo
from gguftool.hub import file_of
from gguftool.model import Model, Part
from gguftool.model.headers import Headers
from gguftool.records import dataclass
from gguftool.source import LocalFile, Source
from gguftool.verify.digests import Digest, maker
from gguftool.verify.stream import Progress, Sink, each, run


@dataclass(frozen=True, slots=True)
class TensorHash:
    """One tensor: its data in the file from ``start`` to ``end``, and its hashes by name.

    ``digests`` is empty when the file ends before the tensor does, or when the size is unknown.
    """

    name: str
    type_name: str
    shape: tuple[int, ...]
    start: int
    end: int
    digests: dict[str, str]

    __repr__ = short_repr

    @property
    def nbytes(self) -> int:
        """Length in bytes."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class FileHashes:
    """One file.

    Attributes:
        path: its name.
        size: its length in bytes.
        file: sha256 of all of it.
        header: sha256 of everything in front of the data section (its padding included); None when it is no GGUF.
        data: sha256 of the data section up to the end of the last tensor. It stays the same when metadata is edited.
        data_offset: where the data section starts.
        data_end: where the last tensor ends.
        tensors: in file order; empty unless asked for.
        model: hashes by name of all tensors' data one behind the other, as llama-gguf-hash has it; None if not asked.
        prefix: sha256 of the front of the file, by length, for the lengths asked for.
        tail: sha256 of the rest of the file, by offset, for the offsets asked for.
        identity: device, inode, size and mtime of the file that was read; None for other sources.
    """

    path: str
    size: int
    file: str
    header: str | None = None
    data: str | None = None
    data_offset: int = 0
    data_end: int = 0
    tensors: tuple[TensorHash, ...] = ()
    model: dict[str, str] | None = None
    prefix: dict[int, str] | None = None
    tail: dict[int, str] | None = None
    identity: tuple[int, int, int, int] | None = None

    __repr__ = short_repr


class Sha256:
    """sha256 of all that is fed."""

    def __init__(self) -> None:
        import hashlib

        self._digest = hashlib.sha256()

    def feed(self, data: memoryview, offset: int) -> None:
        """As `Sink.feed`."""
        self._digest.update(data)

    def hexdigest(self) -> str:
        """Of everything fed."""
        return self._digest.hexdigest()


class _Front:
    """sha256 of the whole file, with the hash of the front taken down on the way."""

    def __init__(self, marks: Sequence[int]) -> None:
        import hashlib

        self._digest = hashlib.sha256()
        self._marks = sorted(set(marks), reverse=True)
        self.at: dict[int, str] = {}

    def feed(self, data: memoryview, offset: int) -> None:
        """As `Sink.feed`."""
        end, start = offset + len(data), 0
        while self._marks and self._marks[-1] <= end:
            mark = self._marks.pop()
            self._digest.update(data[start : mark - offset])
            start = mark - offset
            self.at[mark] = self._digest.hexdigest()
        self._digest.update(data[start:] if start else data)

    def hexdigest(self) -> str:
        """Of everything fed."""
        return self._digest.hexdigest()


class _Range:
    """Hashes of one range of the file."""

    def __init__(self, start: int, end: int, make: Sequence[Callable[[], Digest]]) -> None:
        self.start, self.end = start, end
        self.digests = [m() for m in make]

    def feed(self, data: memoryview, offset: int) -> None:
        """As `Sink.feed`; bytes outside the range are left out."""
        a, b = max(self.start - offset, 0), min(self.end - offset, len(data))
        if a < b:
            part = data[a:b]
            for digest in self.digests:
                digest.update(part)


class _Tensors:
    """Hashes of every tensor; overlapping ones get their own bytes each."""

    def __init__(self, ranges: Sequence[_Range]) -> None:
        self._todo = sorted(ranges, key=lambda r: r.start, reverse=True)
        self._open: list[_Range] = []

    def feed(self, data: memoryview, offset: int) -> None:
        """As `Sink.feed`."""
        end = offset + len(data)
        while self._todo and self._todo[-1].start < end:
            self._open.append(self._todo.pop())
        for r in self._open:
            r.feed(data, offset)
        self._open = [r for r in self._open if r.end > end]


class _Model:
    """Hashes over the tensors' data without the padding between them; the tensors must stand in order."""

    def __init__(self, ranges: Sequence[tuple[int, int]], make: Sequence[Callable[[], Digest]]) -> None:
        self._ranges = list(ranges)
        self._next = 0
        self.digests = [m() for m in make]

    def feed(self, data: memoryview, offset: int) -> None:
        """As `Sink.feed`."""
        end = offset + len(data)
        while self._next < len(self._ranges):
            start, stop = self._ranges[self._next]
            a, b = max(start - offset, 0), min(stop - offset, len(data))
            if a < b:
                for digest in self.digests:
                    digest.update(data[a:b])
            if stop > end:
                return
            self._next += 1


@dataclass(frozen=True, slots=True)
class Want:
    """What to hash beside the whole file.

    Attributes:
        tensors: every tensor.
        data: the data section.
        model: all tensors' data as one stream (the total of llama-gguf-hash).
        algorithms: for ``tensors`` and ``model``; the others are sha256.
        marks: lengths whose prefix is hashed.
        tails: offsets from which the rest of the file is hashed.
        without: tensors whose name ends so are left out of ``tensors`` and ``model``.
    """

    tensors: bool = False
    data: bool = False
    model: bool = False
    algorithms: tuple[str, ...] = ("sha256",)
    marks: tuple[int, ...] = ()
    tails: tuple[int, ...] = ()
    without: tuple[str, ...] = ()

    @property
    def inside(self) -> bool:
        """Whether the file must be a GGUF."""
        return self.tensors or self.data or self.model


FILE = Want()
ALL = Want(tensors=True, data=True)


def hash_file(
    target: Model | Part | str | os.PathLike[str] | Source,
    want: Want = FILE,
    progress: Progress | None = None,
    known: Headers | None = None,
) -> FileHashes:
    """Hash one file in one pass; it need not be a GGUF when only the whole file is asked for.

    Args:
        target: a path, a model of one file, or a source that is open already; of a part the header is not read again.
        want: what to hash beside the file itself.
        progress: called with the bytes done since the last call.
        known: headers that need not be read again.

    Raises:
        MissingFile, Unreadable, ChangedMeanwhile: as `gguftool.source.LocalFile`.
        NotGguf, FormatError: something in it is asked for, and it is no GGUF.
        ToolFailed: xxh64 without a library for it.
        UsageError: a model of several files, or one that is not on this machine.
    """
    if isinstance(target, Model) and len(target.parts) > 1:
        raise UsageError(
            f"{target.name}: has {len(target.parts)} files", "name one of them; `hash_tensors` takes the set"
        )
    own: Header | None = None
    if isinstance(target, (Model, str, os.PathLike)):
        source: Source = LocalFile(file_of(target))
    elif isinstance(target, Part):
        source, own = target.source, target.header
    else:
        source = target
    try:
        header = own or _header(source, want.inside, known or Headers())
        found = _without_header(source, want, progress) if header is None else _hash(source, header, want, progress)
        if isinstance(source, LocalFile):
            source.check_unchanged()
        return found
    finally:
        if isinstance(target, (Model, str, os.PathLike)):
            source.close()


def _header(source: Source, needed: bool, known: Headers) -> Header | None:
    try:
        return known.parsed(source)
    except GgufToolError:
        if needed:
            raise
        return None


def _identity(source: Source) -> tuple[int, int, int, int] | None:
    return source.identity if isinstance(source, LocalFile) else None


def _without_header(source: Source, want: Want, progress: Progress | None) -> FileHashes:
    front = _Front([m for m in want.marks if 0 < m <= source.size])
    run(source, [front], progress)
    return FileHashes(source.name, source.size, front.hexdigest(), prefix=front.at, identity=_identity(source))


def _hash(source: Source, header: Header, want: Want, progress: Progress | None) -> FileHashes:
    make = [maker(name) for name in want.algorithms]
    infos = [t for t in header.tensors if not (want.without and t.name.endswith(want.without))]
    spans = [_span(header, t, source.size) for t in infos]
    end = min(header.data_end() or source.size, source.size)
    front = _Front([m for m in (*want.marks, header.data_offset) if 0 < m <= source.size])
    ranges = [_Range(*span, make) for span in spans] if want.tensors else []
    section = _Range(header.data_offset, end, [maker("sha256")]) if want.data else None
    total = _Model(spans, make) if want.model and spans == sorted(spans) else None
    sinks: list[Sink] = [front]
    sinks += [_Tensors(ranges)] if ranges else []
    sinks += [section] if section else []
    sinks += [total] if total else []
    tails = {at: _Range(at, source.size, [maker("sha256")]) for at in want.tails}
    sinks += tails.values()
    run(source, sinks, progress)
    return FileHashes(
        path=source.name,
        size=source.size,
        file=front.hexdigest(),
        header=front.at.get(header.data_offset),
        data=section.digests[0].hexdigest() if section else None,
        data_offset=header.data_offset,
        data_end=end,
        tensors=tuple(_tensor(header, t, source.size, r, want) for t, r in zip(infos, ranges, strict=False)),
        model=_named(want, total.digests) if total else None,
        prefix={m: front.at[m] for m in want.marks if m in front.at},
        tail={at: tail.digests[0].hexdigest() for at, tail in tails.items()},
        identity=_identity(source),
    )


def _named(want: Want, digests: Sequence[Digest]) -> dict[str, str]:
    return {name: digest.hexdigest() for name, digest in zip(want.algorithms, digests, strict=True)}


def _tensor(header: Header, t: TensorInfo, size: int, r: _Range, want: Want) -> TensorHash:
    start, end = header.where(t)
    whole = end is not None and end <= size
    return TensorHash(t.name, t.type_name, t.shape, start, end or start, _named(want, r.digests) if whole else {})


def _span(header: Header, t: TensorInfo, size: int) -> tuple[int, int]:
    start, end = header.where(t)
    return (start, start) if end is None else (min(start, size), min(end, size))


def hash_files(
    targets: Sequence[str | Source | Part],
    want: Want = FILE,
    progress: Progress | None = None,
    jobs: int | None = None,
    known: Headers | None = None,
) -> list[FileHashes | GgufToolError]:
    """`hash_file` for several files at once; a file that fails gives its error in its place.

    Args:
        targets: paths, or sources and parts that are open already.
        want: as for `hash_file`.
        progress: called with the bytes done since the last call, from several threads.
        jobs: how many at a time; the number of processors when None.
        known: headers that need not be read again.
    """

    def one(target: str | Source | Part, tick: Progress) -> FileHashes | GgufToolError:
        try:
            return hash_file(target, want, tick, known)
        except Exception as error:
            return of_one(error, target if isinstance(target, str) else target.name)

    return each(one, targets, jobs, progress)
