"""Projectors that lie in the folder of a model: which of them fit it, and how to say so."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gguftool.errors import GgufToolError
from gguftool.model import Model, open_model
from gguftool.model.folder import projectors_beside
from gguftool.model.headers import headers_beside
from gguftool.model.role import role
from gguftool.shell import gguftool, path_word

if TYPE_CHECKING:
    from gguftool.predict.pairs import Misfit

MANY = 3
"""Files that are named in one sentence."""


def projectors(model: Model) -> dict[str, tuple[Misfit, ...]]:
    """Projectors beside a model by path, each with what is wrong with it; where several models lie, those that fit."""
    paths, alone = projectors_beside(model)
    if not paths:
        return {}
    # The prediction is large, and beside most models lies nothing.
    from gguftool.predict.pairs import misfits

    out: dict[str, tuple[Misfit, ...]] = {}
    for path in paths:
        try:
            with open_model(path, strict=False, known=headers_beside(model.kept)) as side:
                found = misfits(model, side, "mmproj")
        except GgufToolError:
            continue
        if alone or not any(m.stops for m in found):
            out[path] = found
    return out


def note(model: Model) -> str:
    """That a projector lies beside a model, and the command that takes it along; "" when none does."""
    if role(model) != "model":
        return ""
    found = projectors(model)
    fitting, others = ([p for p, wrong in found.items() if bool(wrong) is unfit] for unfit in (False, True))
    parts = []
    if fitting:
        command = gguftool("launch", path_word(model.name), "--mmproj", path_word(fitting[0]))
        parts.append(f"{_named(fitting)} beside it; without --mmproj it takes text alone: {command}")
    if others:
        parts.append(f"{_named(others)} beside it, but hardly for it: {found[others[0]][0].message}")
    return "; ".join(parts)


def _named(paths: list[str]) -> str:
    names = ", ".join(os.path.basename(path) for path in paths[:MANY]) + (" …" if len(paths) > MANY else "")
    return f"{names} {'lies' if len(paths) == 1 else 'lie'}"
