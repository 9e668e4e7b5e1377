"""Speculative decoding as a file takes part in it: how it drafts, and what it asks of the model that it drafts for.

Facts: `common/speculative.cpp`, `src/llama-context.cpp`, `src/models/{eagle3,dflash,gemma4-assistant}.cpp` (b11434).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from gguftool.brief import short_repr
from gguftool.facts.layers import nextn_layers
from gguftool.model.model import Model
from gguftool.records import dataclass

SIMPLE, EAGLE3, MTP, DFLASH, DSPARK = "draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark"
"""Values of ``--spec-type`` that need something that drafts; all others find repetitions in the text."""
KINDS = (SIMPLE, EAGLE3, MTP, DFLASH, DSPARK)
EAGLE3_LAYERS = 3
"""Layers of the target that an eagle3 head reads, no more and no fewer."""
_BLOCK = 16
"""Tokens of a block where a dflash head does not say."""
_SHARED = ("token_embd.weight", "output.weight")


@dataclass(frozen=True, slots=True)
class Drafting:
    """How a file drafts when it is given as draft model.

    Attributes:
        kind: the ``--spec-type`` it is made for, one of `KINDS`.
        told: llama.cpp finds that out by itself when no ``--spec-type`` is given.
        width: width of the rows of the target that it reads; None: it reads none, tokens alone.
        layers: layers of the target whose inputs it reads; as many as the target has layers stands for its output.
        block: tokens it drafts at once, 0: as many as are asked for.
        heads: prediction layers it has.
        borrows: tensors that it takes from the target.
    """

    kind: str
    told: bool = False
    width: int | None = None
    layers: tuple[int, ...] = ()
    block: int = 0
    heads: int = 0
    borrows: tuple[str, ...] = ()

    __repr__ = short_repr


def drafting(m: Model) -> Drafting:
    """How a file drafts: by its architecture, and by the prediction layers in it."""
    arch = m.architecture
    if arch == "eagle3":
        return Drafting(EAGLE3, width=_whole(m, "target_hidden_size"), layers=_targets(m), borrows=_borrowed(m))
    if arch == "dflash":
        kind = DSPARK if "markov_w1.weight" in m.tensors else DFLASH
        block = m.get("dflash.block_size")
        # `n_embd_inp_enc` counts the rows of the target as wide as its own.
        return Drafting(
            kind, True, m.arch.embedding_length or None, _targets(m),
            block if isinstance(block, int) else _BLOCK, borrows=_borrowed(m),
        )  # fmt: skip
    if arch == "gemma4-assistant":
        width = m.arch.int("embedding_length_out") or None
        return Drafting(MTP, width=width, heads=nextn_layers(m.arch), borrows=("token_embd.weight",))
    heads = prediction_layers(m)
    # llama.cpp looks at the last block only (`common_speculative_types_from_gguf`).
    told = f"blk.{m.arch.block_count - 1}.nextn.eh_proj.weight" in m.tensors
    if heads:
        return Drafting(MTP, told, rows_width(m), heads=heads)
    return Drafting(SIMPLE, told)


def prediction_layers(m: Model) -> int:
    """Layers that predict further tokens and are there to be used: 0 where only the key speaks of them."""
    router: int = m.arch.shape.machine.h.get("router_layer", -1)
    if router >= 0:  # a layer that routes, in the place of one that predicts
        return 0
    last = m.arch.block_count
    return sum(f"blk.{n}.nextn.eh_proj.weight" in m.tensors for n in range(last - nextn_layers(m.arch), last))


def drafts_itself(m: Model) -> int:
    """Prediction layers with which llama.cpp can let a model draft for itself; 0: it cannot."""
    known = m.arch.facts
    heads = prediction_layers(m)
    if known is None or "mtp" not in known.flags or (heads > 1 and "mtp-one" in known.flags):
        return 0
    return heads


def rows_width(m: Model) -> int | None:
    """Width of the rows that a model gives to prediction layers (`llama_hparams::n_embd_out`)."""
    return m.arch.int("embedding_length_out") or m.arch.embedding_length or None


def _whole(m: Model, key: str) -> int | None:
    return m.arch.int(key) or None


def _targets(m: Model) -> tuple[int, ...]:
    value = m.arch.raw("target_layers")
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return tuple(int(n) for n in value if isinstance(n, int | float) and isfinite(n))


def _borrowed(m: Model) -> tuple[str, ...]:
    missing = tuple(name for name in _SHARED if name not in m.tensors)
    # A dflash head with an embedding of its own uses it for the output, too.
    return () if m.architecture == "dflash" and missing == _SHARED[1:] else missing
