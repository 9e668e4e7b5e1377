"""A projector: what goes in, how large, and how many numbers of what width come out for the language model."""

from __future__ import annotations

from gguftool.facts.machine.clip import AUDIO, GEN_AUDIO, VISION
from gguftool.model.about.fact import Fact, Facts, facts_of
from gguftool.model.about.strange import text
from gguftool.model.model import Model
from gguftool.model.projector import Encoder, projector

_WORDS = {VISION: "images", AUDIO: "sound", GEN_AUDIO: "making sound"}


def about(m: Model) -> Facts:
    """Kind, sizes of images, tokens of one, and the width that the language model must take."""
    it = projector(m)
    kinds = tuple(dict.fromkeys(_kind(e) for e in it.encoders))
    facts = facts_of(
        ("name", text(m, "general.name")),
        ("kind", ", ".join(kinds) or "names no encoder"),
        ("for", tuple(_WORDS[e.modality] for e in it.encoders)),
        ("width for the language model", it.width),
    )
    return facts + tuple(fact for e in it.encoders for fact in _encoder(e, len(it.encoders) > 1))


def _kind(e: Encoder) -> str:
    named = e.named or "of no type"
    if not e.kind:
        return f"{named} (not known to llama.cpp)" if e.named else named
    return named if e.kind == named else f"{named} (as {e.kind})"


def _encoder(e: Encoder, several: bool) -> tuple[Fact, ...]:
    of = f" of {_WORDS[e.modality]}" if several else ""
    image = e.image_size if e.image_size else None
    lines = facts_of(
        ("image size", f"{image} x {image} pixels" if image and e.most_tokens is None else None),
        ("image size", _bounds(e)),
        ("patch", f"{e.patch_size} x {e.patch_size} pixels" if e.patch_size and e.modality == VISION else None),
        ("merged patches", f"{e.merge} x {e.merge}" if e.merge and e.merge > 1 else None),
        ("tokens an image", e.tokens if e.tokens is not None else _most(e)),
        ("mel bins", e.mel_bins),
    )
    inside = facts_of(("layers", e.layers), ("heads", e.heads), ("width inside", e.embedding))
    return lines + tuple((label + of, value) for label, value in inside)


def _most(e: Encoder) -> str | None:
    return f"up to {e.most_tokens:,}" if e.most_tokens is not None else None


def _bounds(e: Encoder) -> str | None:
    if e.most_tokens is None or not e.max_pixels or e.max_pixels <= 0:
        return None
    least = f"{e.min_pixels:,} to " if e.min_pixels and e.min_pixels > 0 else "up to "
    return f"any, {least}{e.max_pixels:,} pixels"
