"""A draft model beside its target: their vocabularies (`speculative.cpp:common_speculative_are_compatible`, b11434)."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.model import Model
from gguftool.model.vocab import vocabulary
from gguftool.predict.pairs.misfit import IGNORED, Misfit

INCOMPATIBLE = (
    "the target and draft vocabs are not compatible",
    "failed to initialize speculative decoding context: "
    "draft model vocab type must match target model to use speculation",
)
"""What the server says before it goes on without the draft."""


def misfits(model: Model, side: Model) -> Iterator[Misfit]:
    """Kinds of the vocabularies."""
    ours, its = vocabulary(model), vocabulary(side)
    if ours.kind is None or its.kind is None or ours.kind.name == its.kind.name:
        return
    yield Misfit(
        "pair-vocabulary",
        IGNORED,
        f"its vocabulary is of another kind, {its.kind.name}, that of the model is {ours.kind.name}: llama.cpp runs "
        "without the draft",
        said=INCOMPATIBLE,
        hint="take a smaller model of the same family as draft",
        where="field:tokenizer.ggml.model",
        data={"model": ours.kind.name, "draft": its.kind.name},
    )
