"""A model that llama.cpp loads: the general lines say it, but for what few models have."""

from __future__ import annotations

from gguftool.model.about import draft
from gguftool.model.about.fact import Facts
from gguftool.model.model import Model


def about(m: Model) -> Facts:
    """Its prediction layers, where there are any."""
    return draft.of_model(m)
