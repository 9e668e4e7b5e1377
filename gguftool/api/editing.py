"""Changes to a model that are not written yet: made one by one, looked at, taken back, written together.

An `Editing` is a value: every change gives another one, and the model stays as it is until
`gguftool.api.outlook.write`. Each change is checked when it is made, as ``gguftool fix`` checks it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

from gguftool.brief import short_repr
from gguftool.edit.commit import identity
from gguftool.edit.drawn import stepped
from gguftool.edit.ops import Operation, Rename
from gguftool.edit.oslayer import OsLayer
from gguftool.edit.recover import Outcome
from gguftool.edit.request import delete_operation, element_operation, rename_operations, value_operation
from gguftool.edit.target import check
from gguftool.edit.which import settled
from gguftool.edit.whole import editable
from gguftool.errors import ChangedMeanwhile, FormatError, GgufToolError, Refused, UsageError
from gguftool.files.able import must_write
from gguftool.format.header import Field, Header
from gguftool.format.parse import parse
from gguftool.hub import local_path, named, open_any
from gguftool.lint.rule import Finding
from gguftool.model import Model, Part, open_model, with_header
from gguftool.records import dataclass
from gguftool.shell import blank, gguftool, path_word, shell
from gguftool.source import LocalFile, Memory


@dataclass(frozen=True, slots=True)
class Consent:
    """What somebody may insist on, as `fix` takes it."""

    option: str
    words: str
    choices: tuple[tuple[str, Any], ...]


CONSENTS = (
    Consent("--yes", "write it although llama.cpp would do worse with it", (("harm", "allow"),)),
    Consent("--force", "take an unusual type, text that is not UTF-8, a file with holes", (("force", True),)),
    Consent("--in-use rewrite", "write a new file; who has the old one open keeps it", (("in_use", "rewrite"),)),
    Consent("--in-use patch", "patch it; who has loaded it does not see it", (("in_use", "patch"),)),
    Consent("--hard-links follow", "edit it under all its names", (("hard_links", "follow"),)),
    Consent("--hard-links break", "give this name a file of its own", (("hard_links", "break"),)),
)
NONE: frozenset[Consent] = frozenset()


def choices(consents: frozenset[Consent]) -> dict[str, Any]:
    """Arguments of `gguftool.edit.plan.plan_edit`."""
    return {name: value for consent in CONSENTS if consent in consents for name, value in consent.choices}


@dataclass(frozen=True, slots=True)
class Base:
    """A model as it was when it was read.

    Attributes:
        path: the file that would be edited, or an address.
        header: its header; as far as it could be read, where that is ``refusal``.
        size: bytes of the file.
        stamp: what changes when the file does; () for one that is not on this machine.
        refusal: why it cannot be edited; None when it can.
        undoable: edits that can be taken back.
        remote: the model, which stays open, where it is not on this machine.
    """

    path: str
    header: Header
    size: int
    stamp: tuple[int, ...]
    refusal: GgufToolError | None
    undoable: int
    remote: Model | None = None

    __repr__ = short_repr

    @property
    def fields(self) -> Mapping[str, Field]:
        """Its metadata by key; of duplicates the first."""
        return _by_key(_Same(self.header))


@dataclass(frozen=True, slots=True)
class Step:
    """One change: what it does, and the header after it."""

    title: str
    operations: tuple[Operation, ...]
    header: Header
    consents: frozenset[Consent] = NONE

    __repr__ = short_repr


class _Same(NamedTuple):
    """A header that is looked up by which one it is, not by what is in it."""

    header: Header

    def __hash__(self) -> int:
        return id(self.header)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.header is other.header


@lru_cache(4)
def _by_key(of: _Same) -> Mapping[str, Field]:
    # A tree of keys asks of each of them: to search the fields every time would take the square of their number.
    out: dict[str, Field] = {}
    for field in of.header.fields:
        out.setdefault(field.key, field)
    return out


@dataclass(frozen=True, slots=True)
class Editing:
    """A model and the changes that wait.

    Attributes:
        base: the model as it is.
        steps: the changes, in order.
        undone: changes that were taken back, the last one first.
    """

    base: Base
    steps: tuple[Step, ...] = ()
    undone: tuple[Step, ...] = ()

    __repr__ = short_repr

    @property
    def header(self) -> Header:
        """The header as it would be."""
        return self.steps[-1].header if self.steps else self.base.header

    @property
    def fields(self) -> Mapping[str, Field]:
        """The metadata as it would be, by key."""
        return _by_key(_Same(self.header))

    def field(self, key: str) -> Field | None:
        """The field of a key as it would be."""
        return self.fields.get(key)

    @property
    def operations(self) -> tuple[Operation, ...]:
        """All changes."""
        return tuple(op for step in self.steps for op in step.operations)

    @property
    def consents(self) -> frozenset[Consent]:
        """What was insisted on for single changes."""
        return frozenset(consent for step in self.steps for consent in step.consents)

    @property
    def model(self) -> Model:
        """The metadata as it would be; of the data there is nothing."""
        path = self.base.path
        return Model((Part(path, Memory(b"", path, self.base.size), self.header),))

    def state(self, key: str) -> str:
        """What becomes of a key: ``same``, ``changed``, ``new``, ``gone``, or ``absent`` before and after."""
        was, now = self.base.fields.get(key), self.field(key)
        if was is None or now is None:
            return "new" if now is not None else "gone" if was is not None else "absent"
        return "same" if was.buffer == now.buffer else "changed"


def begin(spec: str) -> tuple[Editing, list[Outcome]]:
    """Read a model; an interrupted edit of it is settled first.

    Args:
        spec: path or address.

    Returns:
        The model without changes, and what recovery did.

    Raises:
        MissingFile, NotGguf, Unreadable, ToolFailed: it cannot be read at all.
        InterruptedEdit: an edit of it runs, or cannot be settled.
    """
    path = local_path(spec)
    if path is None:
        model = open_any(spec, strict=False)
        return Editing(Base(named(model), model.header, model.file_size, (), _afar(named(model)), 0, model)), []
    path, outcomes = settled(path)
    return Editing(read(path)), outcomes


def read(path: str) -> Base:
    """The file as it is."""
    from gguftool.edit.records import undo_numbers

    layer, real = OsLayer(), os.path.realpath(path)
    refusal = _refusal(path, layer)
    with closing(LocalFile(path)) as source:
        stamp = identity(os.stat(real))
        try:
            header = editable(source, path)
        except FormatError as error:
            header, refusal = parse(source, strict=False), error
        source.check_unchanged()
        return Base(path, header, source.size, stamp, refusal, len(undo_numbers(layer, real)))


def _refusal(path: str, layer: OsLayer) -> GgufToolError | None:
    """Why no consent makes a file one to be edited."""
    try:
        must_write()
        check(path, layer, hard_links="follow", force=True)
    except Refused as error:
        return error
    return None


def _afar(name: str) -> Refused:
    edit = gguftool("fix", path_word(name), "--set", blank("KEY="), "--patch-out", "FILE")
    return Refused(f"{name}: is not on this machine, so it is only shown", f"an edit as a small file: {edit}")


def again(e: Editing) -> tuple[Editing, list[str]]:
    """Read the model anew and make the changes that wait once more.

    Returns:
        It, and why changes were left out.
    """
    if e.base.remote is not None:
        return e, []
    fresh, lost = Editing(read(e.base.path)), list[str]()
    for step in e.steps:
        try:
            fresh = do(fresh, step.title, step.operations, step.consents)
        except GgufToolError as error:
            lost.append(f"{step.title}: {error}")
    return fresh, lost


@contextmanager
def opened(e: Editing) -> Iterator[tuple[Model, Model]]:
    """The model as it is and as it would be, open for the block alone: an edit must find the file closed.

    Raises:
        ChangedMeanwhile: the file is no longer the one that was read.
    """
    model = e.base.remote or open_model(e.base.path, strict=False)
    try:
        if e.base.remote is None:
            unchanged(e)
        yield model, model if not e.steps else with_header(model, e.header)
    finally:
        if e.base.remote is None:
            model.close()


def unchanged(e: Editing) -> None:
    """Nothing, while the file is the one that was read.

    Raises:
        ChangedMeanwhile: it is another one now.
    """
    try:
        same = not e.base.stamp or identity(os.stat(os.path.realpath(e.base.path))) == e.base.stamp
    except FileNotFoundError:
        same = False
    if not same:
        raise other(e)


def other(e: Editing) -> ChangedMeanwhile:
    """The file is not the one that was read."""
    return ChangedMeanwhile(f"{e.base.path}: was changed by another program since it was read", "read it again")


# -- changes


def do(e: Editing, title: str, operations: Sequence[Operation], consents: frozenset[Consent] = NONE) -> Editing:
    """Make a change.

    Args:
        e: the changes before it.
        title: what it does, in a few words.
        operations: it.
        consents: what is insisted on.

    Raises:
        Refused: the model is only shown, or the change is not safe.
        UsageError: it is not possible.
    """
    if e.base.refusal is not None:
        raise e.base.refusal
    how = choices(consents)
    header = stepped(e.header, operations, force=how.get("force", False), harm=how.get("harm", "refuse"))
    return Editing(e.base, (*e.steps, Step(title, tuple(operations), header, consents)), ())


def set_value(e: Editing, key: str, text: str, kind: str = "", consents: frozenset[Consent] = NONE) -> Editing:
    """Give a key a value, or add it.

    Args:
        e: the changes before it.
        key: whole key, or without the prefix of the architecture.
        text: the value, as ``gguftool fix --set`` takes it.
        kind: its type, ``u32`` or ``[str]``; "" for that of known keys, or the one the key has.
        consents: as for `do`.

    Raises:
        UsageError, Refused: as for `do`.
    """
    from gguftool.edit.schema import spell_type

    model = e.model
    if not key:
        raise UsageError("an empty key is not possible")
    whole = model.full_key(key)
    force = choices(consents).get("force", False)
    op = value_operation(model, whole, spell_type(kind) if kind else None, text, force=force)
    return do(e, op.describe(), (op,), consents)


def set_element(e: Editing, key: str, index: int, text: str, consents: frozenset[Consent] = NONE) -> Editing:
    """Give one element of an array another value; see `set_value`."""
    op = element_operation(e.model, key, index, text)
    return do(e, op.describe(), (op,), consents)


def delete(e: Editing, key: str) -> Editing:
    """Remove a key; see `do`."""
    op = delete_operation(e.model, key)
    return do(e, op.describe(), (op,))


def rename(e: Editing, key: str, new: str, consents: frozenset[Consent] = NONE) -> Editing:
    """Give a field another key, ``OLD.*`` and ``NEW.*`` all of a kind; see `do`."""
    many = key.endswith(".*") and new.endswith(".*")
    ops = rename_operations(e.model, f"{key}={new}") if many else [Rename(key, e.model.full_key(new))]
    return do(e, f"rename {key} to {new}", ops, consents)


def mend(e: Editing, finding: Finding) -> Editing:
    """Make the fix of a finding.

    Raises:
        UsageError: it has none that can be made here; the hint is the command of the one it has.
        Refused: as for `do`.
    """
    fix = finding.fix
    if fix is None or not fix.operations:
        command = shell(fix.command, finding.path) if fix is not None and fix.command else None
        raise UsageError(f"{finding.rule}: has no fix that could be made here", command)
    if finding.path != e.base.path:
        raise UsageError(f"{finding.rule}: is about {finding.path}, which is another file")
    return do(e, fix.title, fix.operations)


def mend_all(e: Editing) -> tuple[Editing, list[str]]:
    """Make all safe fixes, as ``gguftool fix --auto`` would; and why some cannot be made."""
    from gguftool.lint.fixes import collect

    with opened(e) as (_, planned):
        fixes = collect(planned)
    why = [f"{finding.rule}: {text}" for finding, text in fixes.refused]
    if fixes.operations:
        n = len(fixes.findings)
        e = do(e, f"{n} safe fix{'' if n == 1 else 'es'}", fixes.operations)
    return e, why


def back(e: Editing) -> Editing:
    """Take the last change back; the same when there is none."""
    return Editing(e.base, e.steps[:-1], (e.steps[-1], *e.undone)) if e.steps else e


def forth(e: Editing) -> Editing:
    """Make the change again that was taken back last; the same when there is none."""
    return Editing(e.base, (*e.steps, e.undone[0]), e.undone[1:]) if e.undone else e
