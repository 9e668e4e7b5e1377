"""What was done to a file: the records of edits that lie beside it."""

from __future__ import annotations

from gguftool.brief import short_repr
from gguftool.edit.records import history
from gguftool.model import Model
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit that can be taken back.

    Attributes:
        number: of its record.
        time: seconds since 1970; None: the record is damaged, and nothing else is known.
        operations: what was done, a line each.
        version: of the gguftool that did it.
        undoes: number of the edit that it took back, 0: none.
    """

    number: int
    time: float | None = None
    operations: tuple[str, ...] = ()
    version: str = ""
    undoes: int = 0

    __repr__ = short_repr


def edits(m: Model) -> tuple[Edit, ...]:
    """The edits of a model whose records lie beside its first file, the newest first."""
    path = m.parts[0].path
    if path is None:
        return ()
    return tuple(
        Edit(number) if r is None else Edit(number, r.time, r.operations, r.version, r.undo_of)
        for number, r in history(path)
    )
