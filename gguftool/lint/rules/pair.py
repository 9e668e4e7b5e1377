"""Pair: whether the files that are to be used with a model fit it (`lint MODEL --with FILE`, folders with a projector).

What is asked of two files stands in `gguftool.predict.pairs`; each rule reports what has its name.
"""

from __future__ import annotations

import os
from typing import Any

from gguftool.lint.rule import Context, Drafts, Fix, Scope, Severity, found, rule
from gguftool.model import Model
from gguftool.predict.pairs import Misfit, misfits


def _misfits(m: Model, ctx: Context) -> tuple[tuple[Model, Misfit], ...]:
    """All misfits of this run, each with its file."""
    return ctx.once("pairs", lambda: tuple((x, one) for x in ctx.beside for one in misfits(m, x, build=ctx.build)))


def _told(m: Model, ctx: Context, name: str) -> Drafts:
    for side, one in _misfits(m, ctx):
        if one.rule == name:
            hint = f"; {one.hint}" if one.hint else ""
            data: dict[str, Any] = {**one.data, "outcome": one.outcome, "lines": list(one.said) or None}
            yield found(
                f"{os.path.basename(side.name)}: {one.message}{hint}",
                where=one.where,
                severity=Severity.ERROR if one.stops else Severity.WARNING,
                path=side.name,
                fix=Fix(one.hint, command=one.command) if one.command else None,
                llama_cpp=one.said[0] if one.said else None,
                **data,
            )


@rule(Severity.ERROR, scope=Scope.FILE)
def pair_role(m: Model, ctx: Context) -> Drafts:
    """A file beside a model must be one that goes beside a model.

    Why. Beside a model llama.cpp takes a projector, adapters, control vectors, a draft model and an importance
    matrix, each with its own option; a file of another kind ends the start, or is left out.
    Evidence. `clip.cpp`, `llama-adapter.cpp`, `common.cpp:common_control_vector_load` (b11434).
    Example. flux.gguf: an image or diffusion model is nothing that stands beside a model
    Fix. Name the file that was meant.
    """
    yield from _told(m, ctx, "pair-role")


@rule(Severity.ERROR, scope=Scope.FILE)
def pair_load(m: Model, ctx: Context) -> Drafts:
    """A file beside a model must be one that llama.cpp loads.

    Why. A server whose projector, adapter or draft does not load does not start; without a control vector it goes on
    as if none had been asked for.
    Evidence. `server-context.cpp:load_model`, `common.cpp:common_init_from_params` (b11434).
    Example. draft.gguf: llama.cpp does not load it: check_tensor_dims: tensor 'blk.0.attn_norm.weight' not found
    Fix. `gguftool lint FILE` says what is wrong with it.
    """
    yield from _told(m, ctx, "pair-load")


@rule(Severity.ERROR)
def pair_architecture(m: Model, ctx: Context) -> Drafts:
    """What stands beside a model must be made for its architecture.

    Why. llama.cpp refuses an adapter of another architecture, and the server does not start. Heads of eagle3 and dflash
    read what goes into the layers of their target; the graphs of few architectures give that away, for all others the
    first request ends the server. Prediction layers of another architecture draft nothing that is right, and those of
    gemma4 end the server.
    Evidence. `llama-adapter.cpp:llama_adapter_lora_init_impl`, `llama-graph.cpp` (b11434); measured with llama-server.
    Example. lora.gguf: it was made for a model of the architecture 'qwen2', this one is 'llama'
    Fix. Name the model it was made for, or take the adapter or the head of this one.
    """
    yield from _told(m, ctx, "pair-architecture")


@rule(Severity.ERROR)
def pair_shapes(m: Model, ctx: Context) -> Drafts:
    """Every pair of an adapter must be for a weight that the model has, in its sizes.

    Why. A model of the same architecture but another size, or with more layers, has other weights: the server does not
    start, or dies at the first tokens.
    Evidence. `llama-adapter.cpp:llama_adapter_lora_init_impl`, `llama-graph.cpp:build_lora_mm` (b11434).
    Example. lora.gguf: its pair for blk.0.attn_q.weight is for a weight of 96 × 96, that of this model is 64 × 64
    Fix. Name the base model it was trained on.
    """
    yield from _told(m, ctx, "pair-shapes")


@rule(Severity.ERROR)
def pair_width(m: Model, ctx: Context) -> Drafts:
    """What a projector, a control vector or a head gives or reads must be as wide as the model.

    Why. A projector of another width ends the start of the server; a control vector is left out with one line in the
    log. Files of one family but another size have the same names.
    Evidence. `mtmd.cpp:mtmd_context`, `llama-adapter.cpp:llama_adapter_cvec::apply` (b11434); koboldcpp 1662.
    Example. cvec.gguf: its directions are 96 wide, the model is 64 wide; llama.cpp runs without it
    Fix. Take the file that was made for this model.
    """
    yield from _told(m, ctx, "pair-width")


@rule(Severity.ERROR)
def pair_markers(m: Model, ctx: Context) -> Drafts:
    """The vocabulary must have the tokens that stand around an image.

    Why. llama.cpp checks the width of a projector, and models of different families have the same. Each family has
    tokens of its own around an image or a sound: without them the projector is another model's. Some types look them
    up, and then every request with an image is refused.
    Evidence. `mtmd.cpp:mtmd_context` (b11434); measured with llama-server: "Invalid token".
    Example. mmproj.gguf: the model has no token '<start_of_image>', which stands before an image in models of gemma3
    Fix. Take the projector that was made of this model.
    """
    yield from _told(m, ctx, "pair-markers")


@rule(Severity.ERROR)
def pair_layers(m: Model, ctx: Context) -> Drafts:
    """The layers that a control vector is for, or that a head reads, must be in the model.

    Why. What a control vector holds for layers that the model has not is not used, without a word; a head of eagle3 or
    dflash that reads a layer beyond the last ends the server.
    Evidence. `llama-adapter.cpp:llama_adapter_cvec::apply`, `speculative.cpp` (b11434).
    Example. cvec.gguf: its layers from 24 on are not in the model, the last of the model is 23: they are not used
    Fix. Make a control vector of this model.
    """
    yield from _told(m, ctx, "pair-layers")


@rule(Severity.ERROR)
def pair_vocabulary(m: Model, ctx: Context) -> Drafts:
    """A draft model must have the vocabulary of its target.

    Why. Otherwise llama-server loads both and serves without the draft: another kind of vocabulary, another first or
    end token where one is added, more than 128 tokens apart, or one text that differs from token 5 on. The vocabulary
    of a head (eagle3, dflash, prediction layers) it does not compare, and ends at a token that one of the two lacks.
    Evidence. `speculative.cpp:common_speculative_are_compatible` (b11434); measured with llama-server; llama.cpp 3812,
    pocketpal 876.
    Example. draft.gguf: its vocabulary is of another kind, BPE, that of the model is SPM
    Fix. Take a smaller model of the same family as draft.
    """
    yield from _told(m, ctx, "pair-vocabulary")


@rule(Severity.ERROR)
def pair_effect(m: Model, ctx: Context) -> Drafts:
    """What stands beside a model must have an effect there.

    Why. llama.cpp loads an adapter or a control vector without a word where the graph of the model never asks for it:
    the attention of DeepSeek and its kin is computed past the adapters, BERT and its kin add no control vector. An
    activated LoRA whose invocation tokens the vocabulary does not have is never switched on.
    Evidence. Measured on b11434 with an adapter for each weight of 209 models; `build_cvec` in `src/models/*.cpp`.
    Example. lora.gguf: llama.cpp does not ask an adapter for attn_q_b of deepseek2: 27 of 54 pairs do nothing
    Fix. Merge the adapter into the model before the conversion.
    """
    yield from _told(m, ctx, "pair-effect")


@rule(Severity.ERROR)
def pair_imatrix(m: Model, ctx: Context) -> Drafts:
    """An importance matrix must be of the model that is quantised with it.

    Why. llama-quantize stops at an entry of another size, after minutes; layers without an entry are quantised as if
    there were no matrix.
    Evidence. `llama-quant.cpp:llama_model_quantize_impl` (b11434).
    Example. imatrix.gguf: it was measured on another model: 96 values for blk.0.attn_q.weight, which has 64 columns
    Fix. Measure one on this model with `gguftool imatrix`.
    """
    yield from _told(m, ctx, "pair-imatrix")
