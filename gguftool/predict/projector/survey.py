"""All that is wrong with a projector, not only the first, and which single change of a key would make it load.

The tensors are the witness: the width of a layer, the side of a patch, the number of positions and of layers stand in
their shapes. What they say of a key is a change worth trying; a change counts when the file is then predicted to load.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from gguftool.brief import short_repr
from gguftool.facts.machine.clip import AUDIO, ENCODERS, GEN_AUDIO, VISION, Clip, Encoder, types
from gguftool.facts.machine.ends import Abort, Refusal, Unknown
from gguftool.format.header import TensorInfo
from gguftool.format.values import make_field
from gguftool.model import Model, with_header
from gguftool.model.projector import named_type
from gguftool.near import near_names
from gguftool.predict.projector import predict
from gguftool.predict.projector.weights import stored
from gguftool.records import dataclass, replace

PREFIX = {VISION: "v.", AUDIO: "a.", GEN_AUDIO: "a.gen."}
"""Names of the tensors of an encoder begin so."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        stage: where llama.cpp meets it: ``hyperparameters``, ``tensors`` or ``graph``.
        line: llama.cpp's words.
        aborts: it dies of it instead of refusing the file.
        where: ``field:KEY``, ``tensor:NAME`` or ``file``.
        modality: of the encoder.
        kind: its projector type, "" when it is not known.
        data: details.
    """

    stage: str
    line: str
    aborts: bool
    where: str
    modality: str
    kind: str
    data: dict[str, object]

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Survey:
    """What is wrong with a projector, and the keys that every encoder reads.

    Attributes:
        faults: in llama.cpp's order; those that follow from another one are not among them.
        reads: encoder -> key -> type and whether it must be there.
        open: why the rest could not be told, "" when it could.
    """

    faults: tuple[Fault, ...]
    reads: dict[str, dict[str, tuple[str, bool]]]
    open: str = ""

    __repr__ = short_repr


def survey(m: Model) -> Survey:
    """Look at every encoder that the file says it has."""
    clip = Clip(m.fields, stored(m), collect=True)
    found: list[Fault] = []
    why = ""
    for modality, (key, _) in ENCODERS.items():
        if m.get(key) is True:
            faults, gap = _of_encoder(clip, modality)
            found += faults
            why = why or gap
    return Survey(tuple(found), {e.modality: dict(e.read) for e in clip.encoders}, why)


def _of_encoder(clip: Clip, modality: str) -> tuple[list[Fault], str]:
    clip.faults.clear()
    stage, encoder = "hyperparameters", None
    try:
        encoder = clip.begin(modality)
        if not clip.faults:
            stage = "tensors"
            clip.weights(encoder)
        if not clip.faults and modality != GEN_AUDIO:
            stage = "graph"
            clip.build(encoder)
    except (Refusal, Abort) as end:
        if not clip.faults:
            clip.faults.append(end)
    except Unknown as gap:
        return _told(clip, stage, modality), gap.why
    return _told(clip, stage, modality), ""


def _told(clip: Clip, stage: str, modality: str) -> list[Fault]:
    encoder = next((e for e in clip.encoders if e.modality == modality), None)
    kind = _kind(encoder)
    return [
        Fault(stage, end.text.strip("\n"), isinstance(end, Abort), end.where, modality, kind, dict(end.data))
        for end in clip.faults
    ]


def _kind(encoder: Encoder | None) -> str:
    known = set(types().values())
    return encoder.kind if encoder is not None and encoder.kind in known else ""


# -- changes that make it load


def changed(m: Model, key: str, value: object, type: str) -> Model:
    """The file with another value for a key."""
    new = make_field(key, type, value, m.header.layout)
    fields = [new if f.key == key else f for f in m.header.fields]
    if key not in m.fields:
        fields.append(new)
    return with_header(m, replace(m.header, fields=tuple(fields)), m.parts[0].size)


def loads_with(m: Model, key: str, value: object, type: str) -> bool:
    """Whether one change of a key is all that it takes."""
    return predict(changed(m, key, value, type)).loads


def mended(m: Model) -> tuple[str, int] | None:
    """The one number key that alone makes the file load, with the tensors' value; None when none or several do."""
    good = [(key, value) for key, value in witnesses(m) if loads_with(m, key, value, "u32")]
    return good[0] if len(good) == 1 else None


def witnesses(m: Model) -> Iterator[tuple[str, int]]:
    """What the shapes of the tensors say of keys that say otherwise, or nothing."""
    tensors = stored(m)
    for modality, (flag, _) in ENCODERS.items():
        if m.get(flag) is not True or modality == GEN_AUDIO:
            continue
        for name, values in _numbers(tensors, modality).items():
            key = f"clip.{modality}.{name}"
            for value in values:
                if m.get(key) != value:
                    yield key, value


def _numbers(tensors: dict[str, TensorInfo], modality: str) -> dict[str, list[int]]:
    p = PREFIX[modality]
    shapes = {name: list(t.shape) for name, t in tensors.items()}
    out: dict[str, list[int]] = {}
    width = next((s[0] for n in ("blk.0.ln1.weight", "blk.0.attn_q.weight") if (s := shapes.get(p + n))), 0)
    if width:
        out["embedding_length"] = [width]
    blocks = {int(found[1]) for name in shapes if (found := re.match(rf"{re.escape(p)}blk\.(\d{{1,18}})\.", name))}
    if blocks:
        out["block_count"] = [max(blocks) + 1]
    if up := shapes.get(p + "blk.0.ffn_up.weight"):
        out["feed_forward_length"] = [up[1] if len(up) > 1 and up[0] == width else up[0]]
    if norm := shapes.get(p + "blk.0.attn_q_norm.weight"):
        out["attention.head_count"] = [width // norm[0]] if norm[0] and width % norm[0] == 0 else []
    else:
        out["attention.head_count"] = [
            width // d for d in (64, 72, 80, 88, 96, 128, 16, 32) if width and width % d == 0
        ]
    if modality == VISION:
        out |= _of_images(shapes, width)
    elif conv := shapes.get("a.conv1d.1.weight"):
        out["num_mel_bins"] = conv[1:2]
    return out


def _of_images(shapes: dict[str, list[int]], width: int) -> dict[str, list[int]]:
    out: dict[str, list[int]] = {}
    patch = shapes.get("v.patch_embd.weight", [])
    side = patch[0] if len(patch) == 4 else math.isqrt(patch[0] // 3) if len(patch) == 2 else 0
    if side:
        out["patch_size"] = [side]
    positions = shapes.get("v.position_embd.weight", [])
    if side and len(positions) == 2:
        rows = positions[1] - ("v.class_embd" in shapes)
        across = math.isqrt(rows)
        if across * across == rows:
            out["image_size"] = [across * side]
    merged = [
        s[0] // width for n, s in shapes.items() if n.startswith("mm.") and len(s) > 1 and width and s[0] % width == 0
    ]
    merges = sorted({math.isqrt(n) for n in merged if n > 1 and math.isqrt(n) ** 2 == n})
    out["projector.scale_factor"] = out["spatial_merge_size"] = merges
    return out


def likely_types(m: Model, modality: str) -> list[str]:
    """Projector types under which the file would load: those that the name resembles, else all."""
    named, key = named_type(m, modality)
    known = sorted(set(types().values()))
    near = [name for name in near_names(named.lower(), known) if loads_with(m, key, name, "str")]
    return near[:1] or [name for name in known if loads_with(m, key, name, "str")]
