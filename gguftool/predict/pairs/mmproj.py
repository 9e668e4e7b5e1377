"""A multimodal projector beside a model: the texts around an image, and the tokens looked up (`mtmd.cpp`, b11434).

llama.cpp checks the width alone. That a projector of the right width belongs to another model shows in the vocabulary:
every family has texts of its own around an image, as tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from gguftool.facts.data import load
from gguftool.model import Model
from gguftool.model.vocab import vocabulary
from gguftool.predict.pairs.misfit import HARM, IGNORED, Misfit

TYPES = ("clip.projector_type", "clip.vision.projector_type", "clip.audio.projector_type")
OTHER = "take the projector that was made of this model"


@cache
def markers() -> dict[str, dict[str, Any]]:
    """Projector type -> texts ``around`` what it is ``of`` (an image, a sound), and ``tokens`` that are looked up."""
    types: dict[str, dict[str, Any]] = load("markers.json")["types"]
    return types


def misfits(model: Model, side: Model) -> Iterator[Misfit]:
    """Tokens of the model's vocabulary that this type of projector needs."""
    vocab = vocabulary(model)
    if not vocab.count or vocab.kind is None:
        return
    for key in TYPES:
        kind = side.get(key)
        found = markers().get(kind) if isinstance(kind, str) else None
        if found is None or not isinstance(kind, str):
            continue
        around, tokens, what = found["around"], found["tokens"], found["of"]
        missing = [t for t in tokens if t not in around and vocab.id_of(t) is None]
        if missing:
            yield Misfit(
                "pair-markers",
                IGNORED,
                f"the model has no token {missing[0]!r}, which llama.cpp puts around {what} for {kind}: it starts, and "
                f"refuses every request with {what}",
                said=("Invalid token",),
                hint=OTHER,
                where=f"field:{key}",
                data={"type": kind, "missing": missing},
            )
        elif around and all(vocab.id_of(t) is None for t in around):
            yield Misfit(
                "pair-markers",
                HARM,
                f"the model has no token {around[0]!r}, which stands before {what} in models of {kind}: it "
                "belongs to another model, whose answers would be hardly right",
                hint=OTHER,
                where=f"field:{key}",
                data={"type": kind, "missing": around},
            )
