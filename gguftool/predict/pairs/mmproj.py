"""A multimodal projector beside a model: its width, texts around an image, tokens looked up (`mtmd.cpp`, b11434).

llama.cpp checks the width alone. That a projector of the right width belongs to another model shows in the vocabulary:
every family has texts of its own around an image, as tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from gguftool.facts.data import load
from gguftool.facts.machine.clip import GEN_AUDIO
from gguftool.facts.machine.hparams import functions
from gguftool.model import Model
from gguftool.model.projector import Encoder, Projector, projector
from gguftool.model.vocab import vocabulary
from gguftool.predict.pairs.misfit import DOUBT, HARM, IGNORED, REFUSED, Misfit
from gguftool.predict.stages import numbers

OTHER = "take the projector that was made of this model"
SPEAKING = 1000
"""Tokens from which on it says something that one of them is not there: fewer have only models made for tests."""


@cache
def markers() -> dict[str, dict[str, Any]]:
    """Projector type -> texts ``around`` what it is ``of``, ``tokens`` looked up for it, and for ``tiles`` of it."""
    types: dict[str, dict[str, Any]] = load("markers.json")["types"]
    return types


def misfits(model: Model, side: Model) -> Iterator[Misfit]:
    """The width; tokens of the model's vocabulary that this type of projector needs."""
    seen = projector(side)
    wrong = list(_widths(model, seen))
    yield from wrong
    if wrong:
        return
    for encoder in seen.encoders:
        if encoder.modality != GEN_AUDIO:
            yield from _markers(model, encoder)


def _widths(model: Model, seen: Projector) -> Iterator[Misfit]:
    """As `mtmd.cpp:mtmd_context` compares them, its first words."""
    h = numbers(model)
    # Deep layers of some models take parts of the image, too, so it is wider than the text.
    wanted: int = model.arch.embedding_length if h is None else functions(h)["n_embd_inp"]()
    made = seen.encoder(GEN_AUDIO)
    for width, name in ((seen.width, "mmproj"), (made.width if made else None, "gen-audio mmproj")):
        if width and wanted and width != wanted:
            yield Misfit(
                "pair-width",
                REFUSED,
                f"it is of another model: what it gives is {width:,} wide, the model takes {wanted:,}",
                said=(f"mismatch between text model (n_embd = {wanted}) and {name} (n_embd = {width})",),
                hint=OTHER,
                data={"width": width, "model": wanted},
            )
            return


def _markers(model: Model, encoder: Encoder) -> Iterator[Misfit]:
    vocab, found = vocabulary(model), markers().get(encoder.kind)
    if found is None or not vocab.count or vocab.kind is None:
        return
    around, what, kind = found["around"], found["of"], encoder.kind
    missing, tiles = ([t for t in found[name] if vocab.id_of(t) is None] for name in ("tokens", "tiles"))
    if missing:
        yield Misfit(
            "pair-markers",
            IGNORED,
            f"the model has no token {missing[0]!r}, which llama.cpp puts around {what} for {kind}: it starts, and "
            f"refuses every request with {what}",
            said=("Invalid token",),
            hint=OTHER,
            where=f"field:{encoder.key}",
            data={"type": kind, "missing": missing},
        )
    elif tiles:
        yield Misfit(
            "pair-markers",
            HARM,
            f"the model has no token {tiles[0]!r}, which llama.cpp puts around parts of {what} for {kind}: it refuses "
            f"every request with {what} that is too large for one",
            said=("Invalid token",),
            hint=OTHER,
            where=f"field:{encoder.key}",
            data={"type": kind, "missing": tiles},
        )
    elif around and vocab.count >= SPEAKING and all(vocab.id_of(t) is None for t in around):
        yield Misfit(
            "pair-markers",
            DOUBT,
            f"the model has no token {around[0]!r}, which stands beside {what} in models of {kind}: hardly the "
            "projector of this one",
            hint=OTHER,
            where=f"field:{encoder.key}",
            data={"type": kind, "missing": around},
        )
