"""Edits of one model by path, address or open `Model`: the file that it names is found first."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gguftool.hub import file_of

if TYPE_CHECKING:
    from gguftool.edit.ops import Operation
    from gguftool.edit.plan import EditPlan
    from gguftool.edit.recover import Outcome
    from gguftool.edit.session import edit as Session
    from gguftool.edit.undo import Undone
    from gguftool.model import Model

    AnyModel = Model | str | os.PathLike[str]


def edit(path: AnyModel, **options: Any) -> Session:
    """Change a model in a ``with`` block; see `gguftool.edit.session.edit`, which this makes.

    Args:
        path: a path, an address, or an open model. One that is open keeps its file open, which others cannot tell from
            a program that runs it: close it before the block ends.
        options: as for `plan_edit`.

    Raises:
        UsageError: only the network has it.
    """
    from gguftool.edit.session import edit as session

    return session(file_of(path), **options)


def plan_edit(path: AnyModel, ops: Sequence[Operation], **options: Any) -> EditPlan:
    """Plan an edit; nothing is written yet. See `gguftool.edit.plan.plan_edit` for options and errors.

    Args:
        path: as for `edit`.
        ops: what to change, see `gguftool.edit.ops`.
        options: as there.
    """
    from gguftool.edit.plan import plan_edit as plan

    return plan(file_of(path), ops, **options)


def undo(path: AnyModel, **options: Any) -> Undone:
    """Take the last edit back, byte for byte. See `gguftool.edit.undo.undo` for options and errors.

    Args:
        path: as for `edit`.
        options: as there.
    """
    from gguftool.edit.undo import undo as take_back

    return take_back(file_of(path), **options)


def recover(path: AnyModel) -> Outcome:
    """Finish or take back an interrupted edit of a model, of a set that of its first shard; else do nothing.

    Args:
        path: as for `edit`.

    Raises:
        InterruptedEdit: it runs, or what stands there cannot be settled safely.
        MissingFile: no such file.
    """
    from gguftool.edit.recover import recover as settle
    from gguftool.edit.which import unfinished

    return settle(unfinished(file_of(path)))
