"""A control vector: which model it belongs to, and which layers it steers."""

from __future__ import annotations

from gguftool.model.about.fact import Facts, facts_of
from gguftool.model.about.imatrix import spans
from gguftool.model.about.strange import text
from gguftool.model.model import Model
from gguftool.model.steering import control_vector


def about(m: Model) -> Facts:
    """Model, width and layers."""
    it = control_vector(m)
    return facts_of(
        ("name", text(m, "general.name")),
        ("made for", it.hint or "not named"),
        ("width", it.width),
        ("layers", spans(list(it.layers))),
        ("directions", len(it.directions)),
        ("layers as stated", it.stated if it.stated not in (None, len(it.directions)) else None),
        ("refused names", tuple(d.name for d in it.directions if d.layer < 1)),
    )
