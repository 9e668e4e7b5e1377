"""What llama.cpp does with a projector given as ``--mmproj``: `mtmd_init_from_file` over `clip_init` (b11434).

The steps are llama.cpp's, in its order: the file, and for each encoder its keys, its tensors, their data and one
graph that is measured; then what `mtmd` makes of both. All but the reading of data is llama.cpp's own code, which runs
as rows (`gguftool.facts.machine.clip`), so a shape that does not fit ends in the assertion that llama.cpp fails.
"""

from __future__ import annotations

from gguftool.facts.machine.clip import AUDIO, ENCODERS, GEN_AUDIO, VISION, Clip, Encoder
from gguftool.facts.machine.ends import Abort, Refusal, Unknown
from gguftool.model import Model
from gguftool.predict.file import check_file, keys_as_c
from gguftool.predict.projector.graph import measured
from gguftool.predict.projector.weights import check_data, stored
from gguftool.predict.verdict import ABORTS, LOADS, REFUSED, UNKNOWN, LoadEnds, Prediction
from gguftool.predict.words import own_lines
from gguftool.records import dataclass
from gguftool.source import Source

_INIT = "mtmd_init_from_file: error: "
_SKIPS_SOUND = "gemma3nv"
"""Beside this encoder of images that of sound is left out, though the file has its tensors."""


@dataclass(slots=True)
class _Load:
    """One load in progress: how far it got, and which part of llama.cpp would tell of its end."""

    model: Model
    stage: str = "file"
    in_clip: bool = True
    clip: Clip | None = None

    def lines(self, text: str) -> tuple[str, ...]:
        """The error lines for what was thrown."""
        text, path = text.rstrip("\n"), self.model.name
        if self.in_clip:
            return (f"clip_init: failed to load model '{path}': {text}", _not_loaded(path))
        return (_INIT + text,)

    def warnings(self) -> tuple[str, ...]:
        return tuple(self.clip.warnings) if self.clip is not None else ()


def predict(m: Model) -> Prediction:
    """What llama.cpp does with a projector, beside a model of the width that it gives.

    Args:
        m: the projector, opened with ``strict=False``.
    """
    load = _Load(m)
    try:
        encoders = _run(load)
    except LoadEnds as end:
        return unread(end, m.name, m.parts[0].source)
    except Refusal as fault:
        return Prediction(REFUSED, load.stage, load.lines(fault.text), load.warnings(), fault.where, data=fault.data)
    except Abort as fault:
        return Prediction(ABORTS, load.stage, (fault.text,), load.warnings(), fault.where, data=fault.data)
    except Unknown as gap:
        return Prediction(UNKNOWN, load.stage, (), load.warnings(), gap.where, not_evaluated=(gap.why,))
    used = sum(asked.found for e in encoders for asked in e.asked)
    layers = sum(e.hparams["n_layer"] for e in encoders)
    # What is warned of is true of every file of the type: it says nothing about this one.
    return Prediction(LOADS, "done", warnings=load.warnings(), layers=layers, tensors=used)


def _run(load: _Load) -> list[Encoder]:
    """All steps in order; the encoders that are loaded.

    Raises:
        LoadEnds, Refusal, Abort, Unknown: how it ends.
    """
    m = load.model
    check_file(m.parts[0])
    m = keys_as_c(m)
    load.stage = "hyperparameters"
    clip = load.clip = Clip(m.fields, stored(m))
    for key in ("general.name", "general.description"):
        clip.text(key)
    has = {modality: clip.has(modality) for modality in ENCODERS}
    for modality in ENCODERS:
        skipped = modality == AUDIO and any(e.kind == _SKIPS_SOUND for e in clip.encoders)
        if has[modality] and not skipped:
            _encoder(load, clip, modality, m)
    load.in_clip = False
    _together(load, clip)
    return clip.encoders


def _encoder(load: _Load, clip: Clip, modality: str, m: Model) -> None:
    """One encoder, from its keys to its graph."""
    load.stage = "hyperparameters"
    encoder = clip.begin(modality)
    load.stage = "tensors"
    clip.weights(encoder)
    load.stage = "data"
    check_data(encoder, m)
    if modality != GEN_AUDIO:
        load.stage = "graph"
        measured(clip, encoder)


def _together(load: _Load, clip: Clip) -> None:
    """What `mtmd_context` makes of the encoders."""
    load.stage = "projector"
    found = {e.modality: e for e in clip.encoders}
    images, sound = found.get(VISION), found.get(AUDIO)
    if images is None and sound is None:
        raise Refusal(f"Failed to load CLIP model from {load.model.name}", f"field:{ENCODERS[VISION][0]}")
    widths = {e.modality: clip.width(e) for e in (images, sound) if e is not None}
    if len(set(widths.values())) > 1:
        text = "mismatch between vision and audio mmproj (n_embd_v = {}, n_embd_a = {})"
        raise Refusal(text.format(widths[VISION], widths[AUDIO]), widths=dict(widths))
    if images is not None:
        clip.preprocessor(images)
    if sound is not None:
        clip.preprocessor(sound)


def unread(end: LoadEnds, path: str, source: Source) -> Prediction:
    """A file that is not read as GGUF, given as a projector."""
    if end.verdict == UNKNOWN:
        return Prediction(UNKNOWN, "file", where=end.where, not_evaluated=end.messages)
    why = f"clip_model_loader: failed to load CLIP model from {path}. Does this file exist?"
    lines = (*own_lines(end.messages), f"clip_init: failed to load model '{path}': {why}", _not_loaded(path))
    return Prediction(end.verdict, "file", lines, where=end.where, data=end.data)


def _not_loaded(path: str) -> str:
    return f"{_INIT}Failed to load CLIP model from {path}"
