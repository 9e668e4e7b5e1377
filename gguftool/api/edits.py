"""Edits of one model by path, address or open `Model`: the file that it names is found first."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gguftool.hub import file_of

if TYPE_CHECKING:
    from gguftool.edit.ops import Operation
    from gguftool.edit.patched import PatchPlan
    from gguftool.edit.plan import EditPlan, Result
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


def make_patch(
    model: AnyModel, ops: Sequence[Operation], output: str | os.PathLike[str] | None = None, **options: Any
) -> PatchPlan:
    """Make an edit of a model that may lie on a server, as a small file; see `gguftool.edit.patched.plan_patch`.

    Args:
        model: a path, an address, or an open model; of one on a server only the header is read.
        ops: what to change, see `gguftool.edit.ops`.
        output: the file of the patch, which replaces an older patch; None: it is only looked at.
        options: as there.

    Raises:
        Refused: something else has the name, or llama.cpp would not run the file any more.
    """
    from gguftool.edit.patch import write_patch
    from gguftool.edit.patched import plan_patch
    from gguftool.hub import opened

    with opened(model) as there:
        plan = plan_patch(there, ops, **options)
    if output is not None:
        write_patch(os.fspath(output), plan.patch)
    return plan


def apply_patch(path: AnyModel, patch: str | os.PathLike[str], **options: Any) -> Result:
    """Make the edit of a patch, crash-safe and undoable as every edit.

    Args:
        path: as for `edit`.
        patch: the file that `make_patch` or ``gguftool fix --patch-out`` wrote.
        options: as for `plan_edit`.

    Raises:
        UsageError, FormatError: it is no patch, or a damaged one.
        Refused: the model is not the one the patch was made for, or has the edit already.
    """
    from gguftool.edit.patch import read_patch

    return plan_edit(path, (), patch=read_patch(os.fspath(patch)), **options).commit()


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
