"""The files that say how pictures are prepared for an encoder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gguftool.build.folder.problem import Problem
from gguftool.build.folder.seen import Seen, beside_text
from gguftool.chat.infolder import PROCESSORS
from gguftool.facts.converters import packaged

COPY = "copy preprocessor_config.json of the base model into the folder"


def preprocessor(seen: Seen) -> Iterator[Problem]:
    """A projector of pictures needs their mean and deviation (`base.py:MmprojModel.set_gguf_parameters`, b11434)."""
    if any(seen.has(name) for name in PROCESSORS) or not isinstance(seen.config.raw.get("vision_config"), Mapping):
        return
    makes = (seen.registry or packaged()).projector
    if seen.config.projector_architecture in makes and any(map(beside_text, seen.tensors)):
        yield Problem(
            "no-preprocessor",
            f"{seen.path}: sees, and has no {PROCESSORS[1]}: most projectors are made with what that says of pictures",
            f"{COPY}, or --no-mmproj makes the language model alone",
            fatal=False,
        )
