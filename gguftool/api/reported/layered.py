"""Attention and position of every layer: full, window, a state in its place, the cache of another layer."""

from __future__ import annotations

from gguftool.brief import short_repr
from gguftool.errors import UsageError
from gguftool.facts.arch import Hparams
from gguftool.facts.data import load
from gguftool.facts.layers import layers, window
from gguftool.facts.shape import Layer
from gguftool.memory.kv import kv_cache
from gguftool.memory.settings import Settings
from gguftool.model import Model
from gguftool.records import dataclass

FULL, WINDOW, STATE, BOTH, SHARED, NONE = "full", "window", "state", "attention and state", "shared", "none"


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One layer.

    Attributes:
        index: from 0.
        attention: ``full``, ``window``, ``state`` (recurrent), ``attention and state``, ``shared`` (it attends to the
            cache of a layer before), ``none``.
        window: tokens it looks back at most; 0: all.
        shares_with: the layer whose cache it reads; None: it has its own, or needs none.
        heads, heads_kv: attention heads, and those of K and V.
        key_length, value_length: size of a head of K, of V.
        feed_forward: width of its feed-forward part, 0: none.
        rope_base: base of its rotation; None: it does not rotate.
        rope_dimensions: how much of a head is rotated; 0: nothing.
        rope_scale: what positions are multiplied by before they are rotated; None: it does not rotate, or that is not
            known (of layers with a window in a model that scales).
        trunk: False for layers that only predict further tokens.
        caches: names of the caches it has (`gguftool.memory.kv.Cache`).
    """

    index: int
    attention: str
    window: int
    shares_with: int | None
    heads: int
    heads_kv: int
    key_length: int
    value_length: int
    feed_forward: int
    rope_base: float | None
    rope_dimensions: int
    rope_scale: float | None
    trunk: bool
    caches: tuple[str, ...]

    __repr__ = short_repr


def layer_rows(m: Model) -> tuple[LayerRow, ...]:
    """Every layer as llama.cpp takes it; () where the architecture is not known."""
    hp = m.arch
    if hp.facts is None or hp.facts.unsupported:
        return ()
    try:
        plan = kv_cache(hp, Settings(ctx=hp.context_length or 4096))
    except UsageError:
        return ()
    caches: dict[int, list[str]] = {}
    for cache in plan.caches:
        for kept in cache.layers:
            caches.setdefault(kept.index, []).append(cache.name)
    states = {s.index for s in plan.state}
    heads = hp.head_count
    found = []
    for x in layers(hp):
        named = tuple(dict.fromkeys(caches.get(x.index, ())))
        shared = None if named or not x.trunk else shares_with(hp, x)
        attention = SHARED if shared is not None else _attention(hp, x, named, x.index in states)
        rotates = attention not in (STATE, NONE) and _rotates(hp, x.index)
        found.append(
            LayerRow(
                index=x.index,
                attention=attention,
                window=window(hp) if x.swa and attention not in (STATE, NONE) else 0,
                shares_with=shared,
                heads=heads[x.index] if x.index < len(heads) else 0,
                heads_kv=x.heads_kv,
                key_length=x.key_length,
                value_length=x.value_length,
                feed_forward=x.feed_forward,
                rope_base=_base(hp, swa=x.swa) if rotates else None,
                rope_dimensions=_dimensions(hp, x.index) if rotates else 0,
                rope_scale=_scale(hp, swa=x.swa) if rotates else None,
                trunk=x.trunk,
                caches=named,
            )
        )
    return tuple(found)


def shares_with(hp: Hparams, x: Layer) -> int | None:
    """The layer whose cache a layer reads that has none of its own; None: it has.

    Source: `llama-model.cpp:create_memory`, ``layer_reuse_cb`` (b11434).
    """
    first = hp.shape.number("n_layer_kv_from_start")
    if hp.facts is None or not hp.facts.reuses_kv or first < 0 or x.index < first:
        return None
    return max(0, first - (2 if x.swa else 1))


def _attention(hp: Hparams, x: Layer, caches: tuple[str, ...], state: bool) -> str:
    if caches and state:
        return BOTH
    if state:
        return STATE
    # An encoder keeps nothing, and layers that predict further tokens are not loaded with the model.
    keeps_none = hp.facts is not None and hp.facts.memory == "none"
    if caches or keeps_none or (not x.trunk and x.heads_kv):
        return WINDOW if x.swa else FULL
    return NONE


def _rotates(hp: Hparams, layer: int) -> bool:
    pattern = hp.shape.machine.h.get("rope_pattern", ())
    return hp.ropes and (layer >= len(pattern) or bool(pattern[layer]))


def _base(hp: Hparams, *, swa: bool) -> float:
    """Base of a rotation; layers with a window may have one of their own."""
    return (hp.shape.rope_base_swa if swa else 0.0) or hp.rope_freq_base


def _scale(hp: Hparams, *, swa: bool) -> float | None:
    """Some architectures scale layers with a window as the others, some do not, which no fact here tells."""
    return hp.rope_freq_scale if not swa or hp.rope_freq_scale == 1 else None


def _dimensions(hp: Hparams, layer: int) -> int:
    """As the graph asks for it: of some architectures layer by layer, of the others that of the first layer."""
    return hp.shape.of_layer("n_rot", layer if hp.arch in load("load_maps.json")["looks"]["n_rot"] else 0)
