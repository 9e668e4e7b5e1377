"""A converted model against the folder it came from."""

from __future__ import annotations

import os

from gguftool.edit.plan import plan_edit
from gguftool.lint.against import read_folder
from gguftool.lint.fixes import collect
from gguftool.lint.rule import Context
from gguftool.lint.run import Report, lint
from gguftool.model import open_model


def check_converted(
    model: str | os.PathLike[str], folder: str | os.PathLike[str], *, repair: bool = True
) -> tuple[list[str], Report]:
    """Compare a converted model with its source, repair what the converter lost where that is safe, and lint it.

    Args:
        model: the file the converter made.
        folder: the Hugging Face folder it came from.
        repair: write what can be repaired safely.

    Returns:
        What was repaired, and what lint says now.
    """
    path = os.fspath(model)
    context = Context(against=read_folder(folder))
    repaired: list[str] = []
    if repair:
        with open_model(path, strict=False) as opened:
            fixes = collect(opened, context, select=("source",))
        if fixes.operations:
            plan_edit(path, fixes.operations, keep_undo=False).commit()
            repaired = [op.describe() for op in fixes.operations]
    with open_model(path, strict=False) as opened:
        return repaired, lint(opened, Context(against=read_folder(folder)))
