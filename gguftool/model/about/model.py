"""A model that llama.cpp loads: the general lines say it; nothing is left for its role."""

from __future__ import annotations

from gguftool.model.about.fact import Facts
from gguftool.model.model import Model


def about(m: Model) -> Facts:
    """Nothing more."""
    return ()
