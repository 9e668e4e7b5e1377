"""Which layer of a model holds what: KV heads, head sizes, sliding window, recurrent state.

llama.cpp decides this while it loads the hyperparameters of each architecture; the load maps know how
(`facts/shape.py`). Two things in llama.cpp read it: the rules that admit a cache type, and the sizes of the caches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gguftool.facts.arch import Hparams

if TYPE_CHECKING:
    from gguftool.facts.shape import Layer


def layers(hp: Hparams) -> tuple[Layer, ...]:
    """All layers, next-token prediction layers and the loops of looped models included."""
    return hp.shape.layers


def nextn_layers(hp: Hparams) -> int:
    """Layers at the end that only predict further tokens (`nextn_predict_layers`)."""
    count: int = min(hp.int("nextn_predict_layers"), hp.block_count)
    return count


def is_mla(hp: Hparams) -> bool:
    """K is a latent and there is no V cache."""
    return hp.shape.mla


def window(hp: Hparams) -> int:
    """Sliding window in tokens as llama.cpp applies it to the cache; 0 when there is none, or one of no tokens."""
    return hp.shape.window


def windowed(hp: Hparams) -> bool:
    """Some layers have a cache of their own for a sliding window, also where the window is 0 tokens wide."""
    return hp.shape.windowed
