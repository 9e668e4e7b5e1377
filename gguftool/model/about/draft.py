"""What drafts for speculative decoding: a head, or the prediction layers of a model that can draft for itself."""

from __future__ import annotations

from gguftool.facts import llama_cpp
from gguftool.model.about.fact import Facts, facts_of
from gguftool.model.drafting import drafting, drafts_itself, prediction_layers
from gguftool.model.model import Model


def about(m: Model) -> Facts:
    """How it drafts, and what it asks of its target."""
    it = drafting(m)
    return facts_of(
        ("drafts with", f"--spec-type {it.kind}" + (", which llama.cpp finds out by itself" if it.told else "")),
        ("target width", it.width),
        ("target layers", it.layers),
        ("tokens at once", it.block or None),
        ("prediction layers", it.heads or None),
        ("takes from its target", it.borrows),
    )


def of_model(m: Model) -> Facts:
    """Whether a model can draft for itself; nothing about one without prediction layers."""
    layers, usable = prediction_layers(m), drafts_itself(m)
    if not layers:
        return ()
    way = "--spec-type draft-mtp" if usable else f"no: {llama_cpp()} has no graph for these layers"
    return facts_of(("prediction layers", layers), ("can draft for itself", way))
