"""Recurrent and compressor states: what a model keeps of the past in place of, or beside, a KV cache.

They are 32-bit floats, do not depend on the context length or the cache types, and exist once a slot
(`llama-memory-recurrent.cpp`, `llama-hparams.cpp:n_embd_r`, `llama-kv-cache-dsv4.cpp`, b11434).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gguftool.brief import short_repr
from gguftool.facts.arch import Hparams
from gguftool.records import dataclass

if TYPE_CHECKING:
    from gguftool.facts.shape import Layer

F32 = 4


@dataclass(frozen=True, slots=True)
class StateLayer:
    """States of one layer, in elements; ``rows`` copies of each."""

    index: int
    rows: int
    tensors: tuple[int, ...]

    __repr__ = short_repr

    def bytes(self, alignment: int) -> int:
        """Bytes in a buffer whose tensors start at multiples of ``alignment``."""
        return sum(-(-n * self.rows * F32 // alignment) * alignment for n in self.tensors)


def state_layers(hp: Hparams, all_layers: tuple[Layer, ...], rows: int, slots: int) -> tuple[StateLayer, ...]:
    """States of a model; empty when it keeps none.

    Args:
        hp: hyperparameters.
        all_layers: its layers.
        rows: slots times (1 + snapshots kept to roll back).
        slots: number of slots.
    """
    memory = hp.facts.memory if hp.facts else "kv"
    if memory == "dsv4":
        return _compressor_states(hp, all_layers, rows)
    if memory not in ("recurrent", "hybrid", "hybrid-iswa", "hybrid-indexer"):
        return ()
    wanted = _keeps_state(hp)
    widths = conv_width(hp), recurrent_width(hp)
    ngram = _ngram_width(hp)
    return tuple(
        StateLayer(x.index, rows, (*widths, ngram) if ngram and hp.shape.at("is_ple_impl", x.index) else widths)
        for x in all_layers
        if x.trunk and wanted(x)
    )


def conv_width(hp: Hparams) -> int:
    """Elements of the convolution or token-shift state of a layer and a slot (`llama_hparams::n_embd_r`)."""
    n = hp.shape.number
    if n("wkv_head_size"):
        return n("token_shift_count") * n("n_embd")
    if n("n_shortconv_l_cache"):
        return n("n_embd") * (n("n_shortconv_l_cache") - 1)
    kernel = n("ssm_d_conv")
    if n("n_embd_head_kda"):
        return 3 * (kernel - 1 if kernel > 0 else 3) * _first_heads(hp) * n("n_embd_head_kda")
    return max(0, kernel - 1) * (n("ssm_d_inner") + 2 * n("ssm_n_group") * n("ssm_d_state"))


def recurrent_width(hp: Hparams) -> int:
    """Elements of the recurrent state of a layer and a slot (`llama_hparams::n_embd_s`)."""
    n = hp.shape.number
    if n("wkv_head_size"):
        return n("n_embd") * n("wkv_head_size")
    for name in ("n_embd_head_kda", "n_embd_head_la"):
        if n(name):
            return n(name) ** 2 * _first_heads(hp)
    return n("ssm_d_state") * n("ssm_d_inner")


def _first_heads(hp: Hparams) -> int:
    heads = hp.head_count
    return heads[0] if heads else 0


def _keeps_state(hp: Hparams) -> Callable[[Layer], bool]:
    if hp.facts is not None and hp.facts.attends == "no-ff":
        return lambda x: x.recurrent and x.feed_forward == 0
    return lambda x: x.recurrent


def _ngram_width(hp: Hparams) -> int:
    """History of the n-gram embedding of a layer and a slot (`llama_hparams::ple_conv_state`)."""
    n = hp.shape.number
    if not n("ple_n_heads") or not n("ple_conv_kernel"):
        return 0
    return (n("ple_conv_kernel") - 1) * n("ple_ngram_size") * n("dsv4_hc_mult") * n("n_embd")


def _compressor_states(hp: Hparams, all_layers: tuple[Layer, ...], rows: int) -> tuple[StateLayer, ...]:
    """Running K and score of the tokens not yet compressed: ratio 4 keeps 8 of double width, ratio 128 keeps 128."""
    ratios = hp.per_layer("attention.compress_ratios")
    key = all_layers[0].key_length if all_layers else 0
    indexer = hp.int("attention.indexer.key_length")
    tensors = {4: (2 * key * 8,) * 2 + (2 * indexer * 8,) * 2, 128: (key * 128,) * 2}
    return tuple(
        StateLayer(x.index, rows, tensors[ratios[x.index]])
        for x in all_layers
        if x.trunk and ratios[x.index] in tensors
    )
