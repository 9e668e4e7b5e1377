"""What a projector takes beside its weights: the buffer of its graph, at the start and for the largest picture.

llama-server builds the graph once for a picture (or a piece of sound) of a size that `clip.cpp` chooses, reserves what
it needs, and reserves more when a larger one comes (`clip.cpp:warmup`, `clip_image_batch_encode`, b11434). Here the
same graph is built from the header alone (`facts.machine.clip`) and given to ggml's allocator (`arena.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from math import isqrt
from typing import Any

from gguftool.brief import short_repr
from gguftool.facts.data import load
from gguftool.facts.machine.clip import AUDIO, VISION, Clip, Encoder, begun
from gguftool.facts.machine.ends import Abort, Refusal, Unknown
from gguftool.facts.machine.ggml import Tensor, nbytes
from gguftool.memory.arena import IN_PLACE_NAMES, course, most
from gguftool.memory.kv import CPU_ALIGNMENT as ALIGNMENT
from gguftool.model import Model
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class GraphUse:
    """Bytes of the graphs of a projector.

    Attributes:
        start: reserved when the server is ready.
        most: for the largest picture it takes; as `start` where the size is fixed.
        inputs: the picture itself, which is on the host and once more on a device.
        known: nothing was left out.
    """

    start: int = 0
    most: int = 0
    inputs: int = 0
    known: bool = True

    __repr__ = short_repr


def graphs(m: Model) -> GraphUse:
    """What the graphs of a projector's encoders need; encoders have a buffer each.

    Args:
        m: the projector; its header is enough.
    """
    total = GraphUse()
    clip = Clip(m.fields, {t.name: t.info for t in m.all_tensors()})
    for modality in (VISION, AUDIO):
        try:
            if not clip.has(modality):
                continue
            one = _encoder(clip, modality)
        except (Refusal, Abort, Unknown):
            one = GraphUse(known=False)
        total = GraphUse(
            total.start + one.start, total.most + one.most, total.inputs + one.inputs, total.known and one.known
        )
    return total


def _encoder(clip: Clip, modality: str) -> GraphUse:
    it, done = begun(clip, modality)
    if it is None or not done:
        return GraphUse(known=False)
    clip.weights(it)
    start, inputs = _reserved(clip, it)
    largest = _largest(clip, it) if modality == VISION else 0
    warm = it.hparams["warmup_image_size"]
    if largest <= warm:
        return GraphUse(start, start, inputs)
    it.hparams["warmup_image_size"] = largest
    try:
        most, _ = _reserved(clip, it)
    except (Refusal, Abort, Unknown):
        return GraphUse(start, start, inputs, known=False)
    finally:
        it.hparams["warmup_image_size"] = warm
    return GraphUse(start, max(start, most), inputs)


def _largest(clip: Clip, it: Encoder) -> int:
    """Side in pixels of the largest square that is not made smaller; 0 where all pictures are of one size."""
    if clip.most_tokens(it) <= 0:
        return 0
    pixels: int = it.hparams["image_max_pixels"]
    step = max(1, it.hparams["patch_size"]) * max(1, it.hparams["n_merge"])
    side: int = isqrt(max(0, pixels)) // step * step
    return side


def _reserved(clip: Clip, it: Encoder) -> tuple[int, int]:
    nodes = list(clip.build(it).values())
    weights = {id(t) for t in clip.machine.top["tensors_to_load"]}
    inputs = sum(t.nb[3] * t.ne[3] for t in nodes if not t.op and id(t) not in weights)
    return _most(nodes, weights), inputs


@cache
def _in_place() -> frozenset[int]:
    """Numbers of the operations that may write over what they read."""
    constants = load("projectors.json")["constants"]
    return frozenset(constants[f"GGML_OP_{n}"] for n in IN_PLACE_NAMES if f"GGML_OP_{n}" in constants)


def _sources(t: Tensor) -> list[Any]:
    return [s for s in t.src if s is not None]


def _most(nodes: Sequence[Tensor], outside: Collection[int]) -> int:
    """Bytes of the one buffer that a graph needs.

    Args:
        nodes: everything in the graph, in the order in which it was put there, inputs too.
        outside: ``id`` of tensors that lie elsewhere, the weights.
    """
    it = course(
        [t for t in nodes if not t.op], [t for t in nodes if t.op], outside=lambda t: id(t) in outside,
        where=lambda t: "", kept=lambda t: False, sources=_sources, in_place=_in_place(),
    )  # fmt: skip
    return most(it.steps.get("", ()), [nbytes(t) for t in it.owners], ALIGNMENT)
