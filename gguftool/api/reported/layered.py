"""Attention and position of every layer: full, window, a state in its place, the cache of another layer."""

from __future__ import annotations

from dataclasses import dataclass

from gguftool.brief import short_repr
from gguftool.errors import UsageError
from gguftool.facts.arch import Hparams
from gguftool.facts.layers import layers, window
from gguftool.memory.kv import kv_cache
from gguftool.memory.settings import Settings
from gguftool.model import Model

FULL, WINDOW, STATE, BOTH, SHARED, NONE = "full", "window", "state", "attention and state", "shared", "none"


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One layer.

    Attributes:
        index: from 0.
        attention: ``full``, ``window``, ``state`` (recurrent), ``attention and state``, ``shared`` (it attends to the
            cache of a layer before), ``none``.
        window: tokens it looks back at most; 0: all.
        heads, heads_kv: attention heads, and those of K and V.
        key_length, value_length: size of a head of K, of V.
        feed_forward: width of its feed-forward part, 0: none.
        rope_base: base of its rotation; None: it does not rotate.
        trunk: False for layers that only predict further tokens.
        caches: names of the caches it has (`gguftool.memory.kv.Cache`).
    """

    index: int
    attention: str
    window: int
    heads: int
    heads_kv: int
    key_length: int
    value_length: int
    feed_forward: int
    rope_base: float | None
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
        attention = _attention(named, x.index in states, x.swa, bool(x.heads_kv) and x.trunk)
        found.append(
            LayerRow(
                index=x.index,
                attention=attention,
                window=window(hp) if x.swa and attention != STATE else 0,
                heads=heads[x.index] if x.index < len(heads) else 0,
                heads_kv=x.heads_kv,
                key_length=x.key_length,
                value_length=x.value_length,
                feed_forward=x.feed_forward,
                rope_base=None if attention == STATE else _base(hp, x.index, swa=x.swa),
                trunk=x.trunk,
                caches=named,
            )
        )
    return tuple(found)


def _attention(caches: tuple[str, ...], state: bool, swa: bool, attends: bool) -> str:
    if not caches:
        return STATE if state else SHARED if attends else NONE
    if state and caches:
        return BOTH
    return WINDOW if swa else FULL


def _base(hp: Hparams, layer: int, *, swa: bool) -> float | None:
    """Base of the rotation of a layer; layers with a window may have one of their own."""
    if not hp.ropes:
        return None
    pattern = hp.shape.machine.h.get("rope_pattern")
    if isinstance(pattern, (list, tuple)) and layer < len(pattern) and not pattern[layer]:
        return None
    return (hp.shape.rope_base_swa if swa else 0.0) or hp.rope_freq_base
