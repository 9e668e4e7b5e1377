"""The view of a projector: what llama.cpp takes it for, its sizes, and the width it gives."""

from __future__ import annotations

import pytest

from gguftool.model import Model, from_source
from gguftool.model.projector import projector
from gguftool.source import Memory
from tests.projectors import OUT, SOUND, Made


def opened(made: Made) -> Model:
    return from_source(Memory(made.gguf().bytes()), strict=False)


def test_an_encoder_of_images() -> None:
    """56 pixels in patches of 14 are 4 x 4, of which 4 x 4 are merged into one (`clip_n_output_tokens`)."""
    (encoder,) = projector(opened(SOUND["gemma3"]())).encoders
    assert (encoder.modality, encoder.kind, encoder.key) == ("vision", "gemma3", "clip.projector_type")
    assert (encoder.image_size, encoder.patch_size, encoder.merge, encoder.tokens) == (56, 14, 4, 1)
    assert encoder.most_tokens is None


@pytest.mark.parametrize("kind", SOUND)
def test_the_width_is_that_of_the_model(kind: str) -> None:
    found = projector(opened(SOUND[kind]()))
    assert found.encoders[0].named == kind
    assert found.width == (128 if kind == "resampler" else OUT)


def test_the_key_of_all_encoders_wins_and_an_empty_one_does_not_count() -> None:
    both = SOUND["gemma3"]().key("clip.vision.projector_type", "mlp")
    assert projector(opened(both)).encoders[0].kind == "gemma3"
    empty = SOUND["gemma3"]().key("clip.projector_type", "").key("clip.vision.projector_type", "gemma3")
    (encoder,) = projector(opened(empty)).encoders
    assert (encoder.kind, encoder.key, encoder.width) == ("gemma3", "clip.vision.projector_type", OUT)


def test_what_is_not_known_or_not_there() -> None:
    (encoder,) = projector(opened(SOUND["gemma3"]().key("clip.projector_type", "locateanything"))).encoders
    assert (encoder.named, encoder.kind, encoder.width) == ("locateanything", "", None)
    assert projector(opened(SOUND["gemma3"]().key("clip.has_vision_encoder", False))).encoders == ()
    missing = SOUND["gemma3"]()
    del missing.keys["clip.vision.patch_size"]
    (encoder,) = projector(opened(missing)).encoders
    assert (encoder.kind, encoder.width) == ("gemma3", None)
