"""Recurrent and compressor states: what a model keeps of the past in place of, or beside, a KV cache.

They are 32-bit floats, do not depend on the context length or the cache types, and exist once a slot
(`llama-memory-recurrent.cpp`, `llama-hparams.cpp:n_embd_r`, `llama-kv-cache-dsv4.cpp`, b11434).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gguftool.brief import short_repr
from gguftool.facts.arch import Hparams
from gguftool.facts.layers import Layer

F32 = 4
RWKV = frozenset({"rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
KDA = frozenset({"kimi-linear", "kimi-k3", "bailingmoe3", "glm5-next"})
SHORT_CONV = frozenset({"lfm2", "lfm2moe"})
READS_GROUPS = frozenset(
    "mamba2 plamo2 falcon-h1 nemotron_h nemotron_h_moe granitehybrid qwen3next qwen35 qwen35moe qwen4exp".split()
)
"""Architectures whose convolution also covers `ssm.group_count`; for the others the key is dead."""


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
    ngram_layers = _ngram_layers(hp) if ngram else frozenset()
    return tuple(
        StateLayer(x.index, rows, (*widths, ngram) if x.index in ngram_layers else widths)
        for x in all_layers
        if x.trunk and wanted(x)
    )


def conv_width(hp: Hparams) -> int:
    """Elements of the convolution or token-shift state of a layer and a slot."""
    if hp.arch in RWKV:
        return hp.int("token_shift_count", 2) * hp.embedding_length
    if hp.arch in SHORT_CONV:
        return hp.embedding_length * max(0, hp.int("shortconv.l_cache") - 1)
    kernel = hp.int("ssm.conv_kernel")
    if hp.arch in KDA:
        return 3 * (kernel - 1 if kernel > 0 else 3) * _first_heads(hp) * hp.int("kda.head_dim")
    if hp.arch == "minimax-01":
        return 0
    groups = hp.int("ssm.group_count") if hp.arch in READS_GROUPS else 0
    return max(0, kernel - 1) * (hp.int("ssm.inner_size") + 2 * groups * hp.int("ssm.state_size"))


def recurrent_width(hp: Hparams) -> int:
    """Elements of the recurrent state of a layer and a slot."""
    if hp.arch in RWKV:
        return hp.embedding_length * hp.int("wkv.head_size")
    if hp.arch in SHORT_CONV:
        return 0
    if hp.arch in KDA:
        return hp.int("kda.head_dim") ** 2 * _first_heads(hp)
    if hp.arch == "minimax-01":
        return hp.key_length**2 * _first_heads(hp)
    return hp.int("ssm.state_size") * hp.int("ssm.inner_size")


def _first_heads(hp: Hparams) -> int:
    heads = hp.head_count
    return heads[0] if heads else 0


def _keeps_state(hp: Hparams) -> Callable[[Layer], bool]:
    if hp.arch in ("nemotron_h", "nemotron_h_moe"):
        return lambda x: x.recurrent and x.feed_forward == 0
    return lambda x: x.recurrent


def _ngram_width(hp: Hparams) -> int:
    """History of the n-gram embedding of qwen4exp (`llama-hparams.cpp:ple_conv_state`)."""
    if hp.arch != "qwen4exp":
        return 0
    kernel, size = hp.int("ple.conv_kernel"), hp.int("ple.ngram_size")
    if kernel == 0 or (size - 1) * hp.int("ple.heads_per_ngram") <= 0:
        return 0
    return (kernel - 1) * size * hp.int("hyper_connection.count") * hp.embedding_length


def _ngram_layers(hp: Hparams) -> frozenset[int]:
    raw = hp.raw("ple.layers")
    return frozenset(int(x) for x in raw) if isinstance(raw, Sequence) and not isinstance(raw, str) else frozenset()


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
