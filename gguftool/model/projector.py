"""A multimodal projector: its encoders, what they take, and the width of what they give.

Every number is what llama.cpp itself comes to: its own loading code runs over the header
(`gguftool.facts.machine.clip`), as far as the file lets it.
"""

from __future__ import annotations

from typing import Any

from gguftool.brief import short_repr
from gguftool.facts.machine.clip import AUDIO, ENCODERS, GEN_AUDIO, VISION, Clip, begun, type_number
from gguftool.facts.machine.ends import Abort, Refusal, Unknown
from gguftool.model.model import Model
from gguftool.records import dataclass

TYPE_KEY = "clip.projector_type"
"""Names the type for every encoder; where it is absent or empty, each encoder has a key of its own."""
TYPE_KEYS = {
    VISION: "clip.vision.projector_type",
    AUDIO: "clip.audio.projector_type",
    GEN_AUDIO: "clip.gen.audio.projector_type",
}


@dataclass(frozen=True, slots=True)
class Encoder:
    """One encoder with its projector. A number is None where the file does not get llama.cpp so far.

    Attributes:
        modality: ``vision``, ``audio``, or ``gen.audio`` for one that makes sound.
        named: projector type as the file has it, "" when it names none.
        key: the key that it stands in.
        kind: what llama.cpp takes it for: the same word, except for a type that stands for two
            (``qwen2.5o``); "" for one it does not know.
        width: numbers in an embedding it gives; the language model must take as many.
        image_size: side of an image in pixels; 0 where any size will do, or for sound.
        patch_size: side of a patch in pixels.
        merge: patches merged into one, on each side.
        min_pixels: fewest pixels of an image, -1 without limit.
        max_pixels: most pixels of an image, -1 without limit.
        tokens: tokens of an image of ``image_size``; None where it is dynamic, or for sound.
        most_tokens: most tokens of one image where the size is dynamic, else None.
        embedding: width inside the encoder.
        layers: its layers.
        heads: its heads.
        mel_bins: of sound.
    """

    modality: str
    named: str
    key: str
    kind: str
    width: int | None = None
    image_size: int | None = None
    patch_size: int | None = None
    merge: int | None = None
    min_pixels: int | None = None
    max_pixels: int | None = None
    tokens: int | None = None
    most_tokens: int | None = None
    embedding: int | None = None
    layers: int | None = None
    heads: int | None = None
    mel_bins: int | None = None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Projector:
    """What a projector file holds.

    Attributes:
        encoders: in llama.cpp's order; empty for a file that says of none that it has it.
    """

    encoders: tuple[Encoder, ...]

    __repr__ = short_repr

    def encoder(self, modality: str) -> Encoder | None:
        """The encoder of that modality."""
        return next((e for e in self.encoders if e.modality == modality), None)

    @property
    def width(self) -> int | None:
        """What `mtmd` compares with the language model's width: that of the images, else that of sound."""
        first = next((e for e in self.encoders if e.modality in (VISION, AUDIO)), None)
        return first.width if first is not None else None


def projector(m: Model) -> Projector:
    """The projector in a file, as far as its header can be read."""
    return Projector(tuple(e for modality in ENCODERS if (e := _encoder(m, modality)) is not None))


def named_type(m: Model, modality: str) -> tuple[str, str]:
    """The projector type a file names for an encoder and the key that counts for it (`clip.cpp:load_hparams`)."""
    for key in (TYPE_KEY, TYPE_KEYS[modality]):
        value = m.get(key)
        if isinstance(value, str) and value.partition("\0")[0]:
            return value.partition("\0")[0], key
    return "", TYPE_KEY


def _encoder(m: Model, modality: str) -> Encoder | None:
    if m.get(ENCODERS[modality][0]) is not True:
        return None
    named, key = named_type(m, modality)
    known = type_number(named) is not None
    if not known:
        return Encoder(modality, named, key, "")
    clip = Clip(m.fields, {t.name: t.info for t in m.all_tensors()})
    it, done = begun(clip, modality)
    if it is None:
        return Encoder(modality, named, key, named)
    h = it.hparams
    sizes = _sizes(h, modality) if done else {}
    if done and modality != GEN_AUDIO:
        sizes |= _given(clip, it, h, modality)
    return Encoder(modality, named, key, it.kind, **sizes)


def _sizes(h: Any, modality: str) -> dict[str, int | None]:
    out: dict[str, int | None] = {"embedding": h["n_embd"], "layers": h["n_layer"], "heads": h["n_head"]}
    if modality == AUDIO:
        out["mel_bins"] = h["n_mel_bins"]
    if modality == VISION:
        out |= {"image_size": h["image_size"], "patch_size": h["patch_size"], "merge": h["n_merge"]}
        out |= {"min_pixels": h["image_min_pixels"], "max_pixels": h["image_max_pixels"]}
    return out


def _given(clip: Clip, it: Any, h: Any, modality: str) -> dict[str, int | None]:
    """Width and tokens, for which the tensors are needed."""
    out: dict[str, int | None] = {}
    try:
        clip.weights(it)
        out["width"] = clip.width(it)
        if modality == VISION:
            dynamic = clip.most_tokens(it)
            if dynamic > 0:
                out["most_tokens"] = dynamic
            elif h["image_size"] > 0:
                out["tokens"] = clip.tokens(it, h["image_size"], h["image_size"])
    except (Refusal, Abort, Unknown):
        pass
    return out
