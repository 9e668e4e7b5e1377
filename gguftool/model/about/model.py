"""A model that llama.cpp loads: the general lines say it, but for what few models have."""

from __future__ import annotations

from gguftool.facts.layers import nextn_layers
from gguftool.model.about.fact import Facts
from gguftool.model.model import Model


def about(m: Model) -> Facts:
    """Its prediction layers, where there are any."""
    if nextn_layers(m.arch) < 1:
        return ()
    from gguftool.model.about import draft

    return draft.of_model(m)
