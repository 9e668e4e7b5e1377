"""How much tensors of a kind mind errors, where nothing was measured on the model itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gguftool.build.category import Category, category
from gguftool.model import Tensor

_USUAL = {
    Category.OUTPUT: 8.0,
    Category.ATTENTION_Q: 0.09,
    Category.ATTENTION_K: 0.08,
    Category.ATTENTION_V: 0.4,
    Category.ATTENTION_QKV: 0.4,
    Category.ATTENTION_KV_B: 0.4,
    Category.ATTENTION_OUTPUT: 0.12,
    Category.FFN_UP: 0.3,
    Category.FFN_GATE: 0.17,
    Category.FFN_DOWN: 0.45,
}
"""Means over the layers of SmolLM2-135M and gemma-3-270m, measured with Q4_0 on 1,024 and 512 tokens with b11434;
both models agree within a factor of two. The embeddings of both are the output, too."""
_EMBEDDINGS_ALONE = 1.0
"""Embeddings of a model with an output of its own: no measure, a guess between the output and the rest."""
_OTHER = 0.3
LEAST = 1 / 32
"""Of the usual one of all tensors: what a short text does not touch is not free."""


def usual(tensors: Sequence[Tensor]) -> dict[str, float]:
    """Divergence in nats for a relative error of 1, by tensor name."""
    tied = all(category(t.name) is not Category.OUTPUT for t in tensors)

    def of(name: str) -> float:
        kind = category(name)
        if kind is Category.TOKEN_EMBD:
            return _USUAL[Category.OUTPUT] if tied and name == "token_embd.weight" else _EMBEDDINGS_ALONE
        return _USUAL.get(kind, _OTHER)

    return {t.name: of(t.name) for t in tensors}


def completed(tensors: Sequence[Tensor], known: Mapping[str, float]) -> dict[str, float]:
    """A sensitivity for every tensor: what is not known is that of its kind, and none is next to nothing."""
    values = sorted(known[t.name] for t in tensors if t.name in known)
    middle = values[len(values) // 2] if values else _OTHER
    kinds: dict[str, list[float]] = {}
    for t in tensors:
        if t.name in known:
            kinds.setdefault(_kind(t.name), []).append(known[t.name])
    out = {}
    for t in tensors:
        alike = kinds.get(_kind(t.name), [middle])
        out[t.name] = max(known.get(t.name, sum(alike) / len(alike)), LEAST * middle)
    return out


def _kind(name: str) -> str:
    return re.sub(r"^blk\.[0-9]+\.", "", name)
