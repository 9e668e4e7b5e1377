"""Which encoders a projector says it has, and of which type it says it is."""

from __future__ import annotations

from gguftool.edit.ops import Set
from gguftool.facts.machine.clip import AUDIO, ENCODERS, VISION, type_number, types
from gguftool.format.types import BOOL
from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, rule, to_choose
from gguftool.model import Model
from gguftool.model.projector import TYPE_KEY, Projector, named_type, projector
from gguftool.near import near_names
from gguftool.predict.projector.survey import PREFIX, Survey, likely_types, loads_with, survey

_WHAT = {VISION: "images", AUDIO: "sound", "gen.audio": "making sound"}


def surveyed(m: Model, ctx: Context) -> Survey:
    """All that is wrong, worked out once a run."""
    return ctx.once("projector survey", lambda: survey(m))


def taken_apart(m: Model, ctx: Context) -> Projector:
    """The view of the file, worked out once a run."""
    return ctx.once("projector", lambda: projector(m))


@rule(Severity.ERROR, role="mmproj")
def projector_encoder(m: Model, ctx: Context) -> Drafts:
    """A projector must say which encoders it has.

    Why. llama.cpp looks for an encoder only where its flag is true. Without one it loads nothing at all, with one for
    which there are no tensors it refuses the file, and a flag of another type than bool ends the process.
    Evidence. `clip.cpp:clip_model_loader`, `mtmd.cpp:mtmd_context` (b11434): "Failed to load CLIP model from".
    Example. no encoder is named: neither clip.has_vision_encoder nor clip.has_audio_encoder is true
    Fix. `gguftool fix --set clip.has_vision_encoder=true`, where the tensors of one are there.
    """
    flags = {modality: key for modality, (key, _) in ENCODERS.items()}
    for key in flags.values():
        f = m.fields.get(key)
        if f is not None and f.type != BOOL and not (f.element_type == BOOL and f.count == 1):
            fix = Fix(f"make {key} a bool", (Set(key, bool(m.get(key)), "bool"),), safe=True)
            yield found(f"{key} is {f.type_name}, must be a bool", where=f"field:{key}", fix=fix)
    if not any(m.get(flags[modality]) is True for modality in (VISION, AUDIO)):
        has = [flags[x] for x in (VISION, AUDIO) if _has_tensors(m, x)]
        key = next((key for key in has if loads_with(m, key, True, "bool")), "")
        set_ = Fix(f"set {key} to true", (Set(key, True, "bool"),), safe=True) if key else None
        text = f"no encoder is named: neither {flags[VISION]} nor {flags[AUDIO]} is true"
        yield found(text, where=f"field:{key or flags[VISION]}", fix=set_)
    for modality, key in flags.items():
        if m.get(key) is True and not _has_tensors(m, modality):
            fix = Fix(f"set {key} to false", (Set(key, False, "bool"),), safe=True)
            text = f"{key} is true, and there is no tensor {PREFIX[modality]}* of an encoder for {_WHAT[modality]}"
            yield found(text, where=f"field:{key}", fix=fix if loads_with(m, key, False, "bool") else None)


def _has_tensors(m: Model, modality: str) -> bool:
    return any(t.name.startswith(PREFIX[modality]) for t in m.all_tensors())


@rule(Severity.ERROR, role="mmproj")
def projector_type(m: Model, ctx: Context) -> Drafts:
    """The projector type must be one that llama.cpp has, and must suit the encoder.

    Why. It decides which keys and tensors are asked for and how they are put together. A name that this release does
    not have is refused: it may be mistyped, newer, or of another program.
    Evidence. `clip.cpp:load_hparams` (b11434): "unknown projector type"; `clip-impl.h:PROJECTOR_TYPE_NAMES`.
    Example. clip.projector_type is 'gemma-3', which llama.cpp does not know; did you mean gemma3?
    Fix. `gguftool fix --set clip.projector_type=NAME`; where the file is newer than llama.cpp, a newer llama.cpp.
    """
    for encoder in taken_apart(m, ctx).encoders:
        if encoder.kind and type_number(encoder.named) is not None:
            continue
        good = likely_types(m, encoder.modality)
        named = encoder.named
        fix = Fix(f"set it to {good[0]}", (Set(encoder.key, good[0], "str"),)) if len(good) == 1 else None
        fix = fix or to_choose("name the type", "--set", encoder.key)
        near = good[:1] or near_names(named.lower(), sorted(types().values()), 1)
        guess = f"; did you mean {near[0]}?" if near and named else ""
        fits = f"; with these keys and tensors it would load as {', '.join(good)}" if good and not guess else ""
        what = f"is {named[:60]!r}, which llama.cpp does not know" if named else _unnamed(m, encoder.modality)
        yield found(f"{encoder.key} {what}{guess}{fits}", where=f"field:{encoder.key}", fix=fix, named=named)


def _unnamed(m: Model, modality: str) -> str:
    _, key = named_type(m, modality)
    f = m.fields.get(key or TYPE_KEY)
    if f is not None and not isinstance(m.get(key), str):
        return f"is {f.type_name}, must be a string"
    return "is empty" if f is not None else f"is missing, and so is one for {_WHAT[modality]} alone"


@rule(Severity.ERROR, role="mmproj")
def projector_widths(m: Model, ctx: Context) -> Drafts:
    """Images and sound must come out in one width.

    Why. Both go into the same language model; llama.cpp compares the two and refuses a file where they differ.
    Evidence. `mtmd.cpp:mtmd_context` (b11434): "mismatch between vision and audio mmproj".
    Example. images come out in 2048 numbers, sound in 3584: parts of two models
    Fix. Take both encoders from one model; convert again.
    """
    it = taken_apart(m, ctx)
    images, sound = it.encoder(VISION), it.encoder(AUDIO)
    if images is None or sound is None or images.width is None or sound.width is None:
        return
    if images.width != sound.width and images.kind != "gemma3nv":
        text = f"images come out in {images.width:,} numbers, sound in {sound.width:,}: parts of two models"
        yield found(text, where="file", widths={VISION: images.width, AUDIO: sound.width})
