"""A file that is no model of llama.cpp's: what it calls itself and how much it holds."""

from __future__ import annotations

from gguftool.model.about.fact import Facts, facts_of
from gguftool.model.model import Model
from gguftool.model.role import made_for


def about(m: Model) -> Facts:
    """Its name, what it was made for, and its size."""
    return facts_of(*named(m), ("runs in", made_for(m)))


def named(m: Model) -> Facts:
    """Name, architecture and number of weights, which every file may have."""
    return facts_of(
        ("name", text(m, "general.name")),
        ("architecture", m.architecture or "not named"),
        ("weights", sum(t.info.elements for t in m.all_tensors())),
    )


def text(m: Model, key: str) -> str:
    """A value of the metadata that is text; "" when it is not there or is none."""
    value = m.get(key)
    return value if isinstance(value, str) else ""


def number(m: Model, key: str) -> int | None:
    """A value of the metadata that is a whole number; None when it is not there or is none."""
    value = m.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
