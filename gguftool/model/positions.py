"""Positions that a model has learnt: a table with a row for each, which no key can make longer."""

from __future__ import annotations

from gguftool.facts.machine.rows import position_table
from gguftool.model.model import Model


def learnt_positions(model: Model) -> int | None:
    """Rows of the table of positions, one a token of context; None for a model without such a table.

    llama.cpp sizes it by ``context_length`` and refuses a file in which the two differ: the context can neither be
    raised nor lowered in the file.
    """
    name = position_table(model.architecture)
    tensor = model.tensors.get(name) if name else None
    return tensor.shape[1] if tensor is not None and len(tensor.shape) > 1 else None
