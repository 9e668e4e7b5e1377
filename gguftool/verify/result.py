"""What verification finds, as data."""

from __future__ import annotations

from gguftool.brief import short_repr, table
from gguftool.errors import GgufToolError
from gguftool.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is not as it must be (or, among the notes, worth knowing).

    Attributes:
        kind: short kebab-case name; the table stands in docs/verify.md.
        message: what is wrong, one line.
        where: ``file``, ``header``, ``tensor:NAME``, ``shard:N`` (from 1) or ``set``.
        hint: what helps, usually a command; None when nothing does.
        span: start and end of the bytes concerned, in the file.
    """

    kind: str
    message: str
    where: str = "file"
    hint: str | None = None
    span: tuple[int, int] | None = None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a file that are not what they should be: start and end, and the tensor they belong to ("" for none)."""

    start: int
    end: int
    name: str = ""

    __repr__ = short_repr

    @property
    def nbytes(self) -> int:
        """Length in bytes."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class FileReport:
    """One file.

    Attributes:
        path: its name.
        size: real length in bytes; 0 when it could not be opened.
        expected: length the header asks for: the end of the last tensor; None when it cannot be known.
        tensors: number of tensors in the header.
        version: GGUF version, 0 when it is no GGUF.
        faults: what makes it fail.
        notes: what is worth knowing and makes nothing fail.
        error: why it is not readable as GGUF; None when it is.
        sha256: of the whole file, when it was computed.
        damage: bytes known to be wrong, when a manifest tells.
        checked: what was looked at: ``size``, ``hash``, ``data``.
    """

    path: str
    size: int = 0
    expected: int | None = None
    tensors: int = 0
    version: int = 0
    faults: tuple[Fault, ...] = ()
    notes: tuple[Fault, ...] = ()
    error: GgufToolError | None = None
    sha256: str | None = None
    damage: tuple[Damage, ...] = ()
    checked: tuple[str, ...] = ("size",)

    __repr__ = short_repr

    @property
    def ok(self) -> bool:
        """True when nothing is wrong with it."""
        return not self.faults and self.error is None

    def plus(
        self, faults: tuple[Fault, ...] = (), notes: tuple[Fault, ...] = (), *, checked: str | None = None
    ) -> FileReport:
        """The same report with more in it."""
        done = self.checked if checked is None or checked in self.checked else (*self.checked, checked)
        return replace(self, faults=self.faults + faults, notes=self.notes + notes, checked=done)


@dataclass(frozen=True, slots=True)
class SetReport:
    """A set of shards.

    Attributes:
        count: how many shards there should be.
        paths: the files in order; None where one is missing.
        faults, notes: as in `FileReport`.
        by_content: files whose names do not say that they belong here.
        others: further files that claim a number of the set.
    """

    count: int
    paths: tuple[str | None, ...]
    faults: tuple[Fault, ...] = ()
    notes: tuple[Fault, ...] = ()
    by_content: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    __repr__ = short_repr

    @property
    def present(self) -> int:
        """How many of them were found."""
        return sum(path is not None for path in self.paths)

    @property
    def missing(self) -> tuple[int, ...]:
        """Numbers (from 1) of those that were not."""
        return tuple(no + 1 for no, path in enumerate(self.paths) if path is None)

    @property
    def ok(self) -> bool:
        """True when nothing is wrong with it."""
        return not self.faults


@dataclass(frozen=True, slots=True)
class Verification:
    """One model: its files and, for shards, the set.

    ``covers``: further paths that this says enough about.
    """

    files: tuple[FileReport, ...]
    set: SetReport | None = None
    covers: tuple[str, ...] = ()

    __repr__ = short_repr

    def _repr_html_(self) -> str:
        rows: list[tuple[object, ...]] = []
        rows += [(f.path, f.size, fault.where, fault.message) for f in self.files for fault in f.faults or f.notes]
        rows += [("set", "", fault.where, fault.message) for fault in (self.set.faults if self.set is not None else ())]
        rows = rows or [(f.path, f.size, "", "whole") for f in self.files]
        return table("all is well" if self.ok else "not whole", ("file", "bytes", "where", "what"), rows)

    def without(self, kind: str) -> Verification:
        """The same without notes of that kind."""
        files = tuple(replace(f, notes=tuple(n for n in f.notes if n.kind != kind)) for f in self.files)
        return replace(self, files=files)

    @property
    def ok(self) -> bool:
        """True when every file is whole and the set is complete."""
        return all(f.ok for f in self.files) and (self.set is None or self.set.ok)
