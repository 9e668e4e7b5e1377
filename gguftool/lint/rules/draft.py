"""Draft: what keeps a head for speculative decoding from drafting for any model, though it loads.

What it asks of the model it drafts for is a question of two files: the family `pair`.
"""

from __future__ import annotations

from typing import Any

from gguftool.lint.rule import Context, Drafts, Scope, Severity, found, rule
from gguftool.model import Model
from gguftool.predict.pairs.draft import faults
from gguftool.predict.pairs.misfit import Misfit


def _told(m: Model, ctx: Context, name: str) -> Drafts:
    every: tuple[Misfit, ...] = ctx.once("draft faults", lambda: tuple(faults(m)))
    for one in every:
        if one.rule == name:
            data: dict[str, Any] = {"llama_cpp": one.said[0] if one.said else None, **one.data}
            yield found(f"{one.message}; {one.hint}", where=one.where, **data)


@rule(Severity.ERROR, role="draft")
def draft_block_size(m: Model, ctx: Context) -> Drafts:
    """A dspark head must say how many tokens it drafts at once.

    Why. The head chains the tokens of a block in its graph; without `dflash.block_size` llama-server ends at its start.
    Evidence. `dflash.cpp:build_dspark_markov_head` (b11434); measured with llama-server.
    Example. dflash.block_size is missing: a head with a Markov chain must know how many tokens it drafts at once
    Fix. Convert the head again.
    """
    yield from _told(m, ctx, "draft-block-size")


@rule(Severity.ERROR, role="draft")
def draft_heads(m: Model, ctx: Context) -> Drafts:
    """A file of prediction layers must not have more of them than llama.cpp can draft with.

    Why. For most architectures the graph that drafts asserts that there is one layer: llama-server ends at its start.
    Evidence. `GGML_ASSERT(hparams.n_layer_nextn == 1` in `src/models` (b11434); measured with llama-server.
    Example. it has 2 prediction layers; with more than one of glm4moe llama.cpp ends
    Fix. Convert the model again with one prediction layer.
    """
    yield from _told(m, ctx, "draft-heads")


@rule(Severity.ERROR, scope=Scope.FILE, role="draft")
def draft_token_map(m: Model, ctx: Context) -> Drafts:
    """The tokens that the rows of a short output stand for must be tokens of the vocabulary.

    Why. Heads of eagle3 and dflash may have fewer rows than the target has tokens, and `d2t` says which tokens they
    are: 64-bit numbers, absolute. One that is out of range, or another type, ends llama-server.
    Evidence. `eagle3.cpp`, `dflash.cpp` (b11434); measured with llama-server.
    Example. d2t says that row 31 is token 291 of 291: llama.cpp ends at its first use
    Fix. Convert the head again.
    """
    yield from _told(m, ctx, "draft-token-map")
