"""A draft beside its target: what each kind of speculative decoding demands of the two.

`common/speculative.cpp`, `src/llama-context.cpp` and the graphs of eagle3, dflash and the prediction layers (b11434).
Most of it llama.cpp does not check, and ends where it happens: at the start, or with the first request.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from gguftool.errors import FormatError
from gguftool.facts import llama_cpp
from gguftool.facts.layers import nextn_layers
from gguftool.model import Model
from gguftool.model.drafting import (
    DFLASH,
    DSPARK,
    EAGLE3,
    EAGLE3_LAYERS,
    MTP,
    SIMPLE,
    Drafting,
    drafting,
    prediction_layers,
    rows_width,
)
from gguftool.model.role import role
from gguftool.model.vocab import vocabulary
from gguftool.predict.pairs.misfit import ABORTS, HARM, IGNORED, REFUSED, Misfit
from gguftool.predict.pairs.vocabularies import MOST_APART, Apart, apart, loaded, texts_apart

NOT_STARTED = "failed to initialize speculative decoding context: "
INCOMPATIBLE = (
    "the target and draft vocabs are not compatible",
    NOT_STARTED + "draft model vocab type must match target model to use speculation",
)
"""What the server says before it goes on without the draft."""
NOTHING = "no implementations specified for speculative decoding"
MOST_BYTES = 16 << 20
"""A longer map of tokens is not looked at."""
NO_TOKEN = "get_sub_batch: failed to add token"
NO_LAYERS = ("context type MTP requested but model doesn't contain MTP layers", "failed to create MTP context")
_FAMILY = "take a smaller model of the same family as draft"
_MADE = "take the head that was made for this very model"


def misfits(model: Model, side: Model) -> Iterator[Misfit]:
    """As the file drafts by its own nature."""
    yield from misfits_as(model, side, drafting(side).kind)


def misfits_as(model: Model, side: Model, kind: str) -> Iterator[Misfit]:
    """What is wrong when a file is to draft in a certain way.

    Args:
        model: the target.
        side: what drafts.
        kind: value of ``--spec-type``, one of `gguftool.model.drafting.KINDS`.
    """
    made = drafting(side)
    wrong = list(_wrong_kind(side, made, kind))
    yield from wrong
    if not any(m.outcome == ABORTS for m in wrong):
        yield from _ASKED[kind](model, side, made)


def by_itself(model: Model, kind: str) -> Iterator[Misfit]:
    """What is wrong when a model is to draft in a certain way without a file beside it."""
    if kind != MTP:
        said = NOT_STARTED + "draft-simple requires a draft context" if kind == SIMPLE else NOTHING
        text = f"--spec-type {kind} drafts nothing without a draft model"
        yield Misfit("", IGNORED, text, (said,), "give the draft model, with --model-draft FILE")
        return
    heads, known = prediction_layers(model), model.arch.facts
    if heads and known is not None and "mtp" not in known.flags:
        text = f"{llama_cpp()} cannot draft with the prediction layers of {model.architecture}"
        yield Misfit("", REFUSED, text, NO_LAYERS[1:], _FAMILY)
    elif heads:
        yield from faults(model)
    elif nextn_layers(model.arch) and known is not None and "mtp" in known.flags:
        said = 'GGML_ASSERT(layer.nextn.eh_proj && "MTP block missing nextn.eh_proj") failed'
        text = "the prediction layers that its metadata promises are not in the file"
        yield Misfit("", ABORTS, text, (said,), "give the file that holds them, with --model-draft FILE")
    else:
        text = "the model has no prediction layers to draft with"
        yield Misfit("", REFUSED, text, NO_LAYERS, "take another way to draft: --spec-type ngram-mod")


def faults(side: Model) -> Iterator[Misfit]:
    """What keeps a file from drafting for any model, though it loads."""
    made = drafting(side)
    if made.kind == DSPARK and not isinstance(side.get("dflash.block_size"), int):
        said = (
            "GGML_ASSERT(it != model.gguf_kv.end() && \"DSpark draft requires 'dflash.block_size' in GGUF metadata\")"
        )
        text = "dflash.block_size is missing: a head with a Markov chain must know how many tokens it drafts at once"
        yield Misfit(
            "draft-block-size", ABORTS, text, (said,), "convert the head again", None, "field:dflash.block_size"
        )
    known = side.arch.facts
    if made.kind == MTP and known is not None and made.heads > 1 and "mtp-one" in known.flags:
        text = f"it has {made.heads} prediction layers; with more than one of {side.architecture} llama.cpp ends"
        hint = "convert the model again with one prediction layer, or draft with another model"
        where = f"field:{side.architecture}.nextn_predict_layers"
        yield Misfit("draft-heads", ABORTS, text, (), hint, None, where, {"heads": made.heads})
    if made.kind in (EAGLE3, DFLASH, DSPARK):
        yield from _token_map(side)


def _token_map(side: Model) -> Iterator[Misfit]:
    """``d2t``: which token of the target each row of a shorter output stands for."""
    tensor, n = side.tensors.get("d2t"), vocabulary(side).count or 0
    if tensor is None or not n:
        return
    where, hint = "tensor:d2t", "convert the head again"
    if tensor.type_name != "I64":
        said = "GGML_ASSERT(model.d2t->type == GGML_TYPE_I64) failed"
        text = f"d2t is of type {tensor.type_name}; llama.cpp takes 64-bit whole numbers only"
        yield Misfit("draft-token-map", ABORTS, text, (said,), hint, None, where)
        return
    if (tensor.nbytes or 0) > MOST_BYTES:
        return
    try:
        data = side.read("d2t")
    except FormatError:
        return
    rows = struct.unpack(f"{tensor.part.header.layout.order}{len(data) // 8}q", data)
    wrong = next((i for i, token in enumerate(rows) if not 0 <= token < n), None)
    if wrong is not None:
        text = f"d2t says that row {wrong} is token {rows[wrong]:,} of {n:,}: llama.cpp ends at its first use"
        data_of = {"row": wrong, "token": rows[wrong], "tokens": n}
        yield Misfit(
            "draft-token-map", ABORTS, text, ("GGML_ASSERT(i1 >= 0 && i1 < ne1) failed",), hint, None, where, data_of
        )


def _wrong_kind(side: Model, made: Drafting, kind: str) -> Iterator[Misfit]:
    """It is asked to draft in a way it is not made for."""
    if kind == made.kind:
        return
    what = f"it is made for --spec-type {made.kind}, not for {kind}"
    hint = f"--spec-type {made.kind}"
    if kind == MTP:
        yield Misfit("", REFUSED, what, NO_LAYERS, hint)
    elif kind == EAGLE3 and len(made.layers) != EAGLE3_LAYERS:
        said = f"draft model is not eagle3 (expected {EAGLE3_LAYERS} extract layers, got {len(made.layers)})"
        yield Misfit("", IGNORED, what, (NOT_STARTED + said,), hint)
    elif kind in (DFLASH, DSPARK) and not made.layers:
        said = 'GGML_ASSERT(target_layer_ids_n > 0 && "DFlash model has no target_layer_ids") failed'
        yield Misfit("", ABORTS, what, (said,), hint)
    elif kind == SIMPLE and made.kind == MTP:
        if role(side) == "draft":
            yield Misfit("", ABORTS, f"{what}: it has no layers of a model by itself", (), hint)
    else:
        yield Misfit("", HARM, f"{what}: hardly a token it drafts would be right", (), hint)


def _simple(model: Model, side: Model, made: Drafting) -> Iterator[Misfit]:
    differs = apart(model, side)
    if differs is not None:
        printed = () if differs.what in ("kind", "size", "text") else (differs.line,)
        text = f"{_TEXT[differs.what].format(differs=differs)}: llama.cpp runs without the draft"
        data = {"what": differs.what, "model": differs.ours, "draft": differs.its, "line": differs.line}
        yield Misfit("pair-vocabulary", IGNORED, text, (*printed, *INCOMPATIBLE), _FAMILY, None, differs.where, data)
        return
    kinds = [vocabulary(m).model for m in (model, side)]
    if kinds == ["no_vocab"] * 2 or kinds == ["none"] * 2:
        text = "neither has a vocabulary, and llama.cpp ends where it compares their tokens"
        yield Misfit("pair-vocabulary", ABORTS, text, ("GGML_ASSERT(pimpl->type != LLAMA_VOCAB_TYPE_NONE) failed",))


_TEXT = {
    "kind": "its vocabulary is of another kind, {differs.its}, that of the model is {differs.ours}",
    "bos": "its first token is another: {differs.its}; of the model {differs.ours}",
    "eos": "its end token is another: {differs.its}; of the model {differs.ours}",
    "size": "it has {differs.its} tokens, the model {differs.ours}, more than 128 apart",
    "text": "token {differs.its} is {differs.ours} in the model",
}


def _eagle3(model: Model, side: Model, made: Drafting) -> Iterator[Misfit]:
    yield from faults(side)
    last = _trunk(model)
    beyond = [n for n in made.layers if n > last]
    if beyond:
        said = f"EAGLE3: target layer id {beyond[0]} exceeds target n_layer {last}"
        yield _layers(side, beyond[0], last, said)
    inside = [n for n in made.layers if n < last]
    yield from _inputs(model, side, inside and not beyond)
    yield from _rows(model, side, made)


def _dflash(model: Model, side: Model, made: Drafting) -> Iterator[Misfit]:
    yield from faults(side)
    last = _trunk(model)
    beyond = [n for n in made.layers if n > last or n < 0]
    if beyond:
        yield _layers(side, beyond[0], last, "GGML_ASSERT(lid <= model.hparams.n_layer()) failed")
    known = model.arch.facts
    output = known is not None and last in made.layers and "head-input" not in known.flags
    yield from _inputs(model, side, not beyond, output=output)
    yield from _rows(model, side, made)


def _mtp(model: Model, side: Model, made: Drafting) -> Iterator[Misfit]:
    yield from faults(side)
    assists = side.architecture == "gemma4-assistant"
    ours = rows_width(model)
    if made.width and ours and made.width != ours:
        said = (
            "GGML_ASSERT(n_embd == llama_model_n_embd_out(llama_get_model(ctx_tgt)) && "
            '"MTP input row width must match the target h_nextn width") failed'
        )
        # The graph of gemma4's ends with a line of its own before that.
        yield _width(made.width, ours, "" if assists else said)
    if (side.architecture if not assists else "gemma4") != model.architecture:
        of = "gemma4" if assists else side.architecture
        text = f"its layers belong to a {of} model, and this one is {model.architecture or 'of no architecture'}"
        outcome, more = (ABORTS, ": llama.cpp ends") if assists else (HARM, ": hardly a token it drafts would be right")
        yield Misfit(
            "pair-architecture", outcome, text + more, (), _MADE, data={"model": model.architecture, "draft": of}
        )
    yield from _heads_vocabulary(model, side)


def _inputs(model: Model, side: Model, reads: object, *, output: bool = False) -> Iterator[Misfit]:
    """The graph of the target must give away what goes into its layers."""
    known = model.arch.facts
    if not reads or known is None or ("layer-inputs" in known.flags and not output):
        return
    what = "what goes into its output layer" if "layer-inputs" in known.flags else "what goes into its layers"
    said = 'GGML_ASSERT(t_layer_inp[il] != nullptr && "layer input tensor is null") failed'
    text = f"llama.cpp's {model.architecture} does not give away {what}: the first request ends the server"
    hint = "draft with a smaller model of the same family: --spec-type draft-simple"
    yield Misfit("pair-architecture", ABORTS, text, (said,), hint, data={"model": model.architecture})


def _rows(model: Model, side: Model, made: Drafting) -> Iterator[Misfit]:
    ours, own = model.arch.embedding_length, side.arch.embedding_length
    if made.width and ours and made.width != ours:
        n = len(made.layers)
        said = (
            f"set_token_embd: embedding size mismatch, got 1 rows x {n * ours} = {n * ours}, "
            f"expected {own if made.kind == EAGLE3 else n * made.width} or {n * made.width}"
        )
        yield _width(made.width, ours, said)
    elif made.borrows and own != ours:
        text = (
            f"it takes {' and '.join(made.borrows)} from the model, which is {ours:,} wide; it is {own:,} wide itself"
        )
        yield Misfit("pair-width", ABORTS, text, (), _MADE, data={"width": own, "model": ours})
    yield from _heads_vocabulary(model, side)


def _heads_vocabulary(model: Model, side: Model) -> Iterator[Misfit]:
    """llama.cpp does not compare the vocabulary of a head: what it drafts are numbers of tokens of the target."""
    a, b = loaded(model), loaded(side)
    if a is None or b is None or "none" in (a.kind, b.kind):
        return
    text: Apart | None = texts_apart(model, side)
    if a.n_tokens == b.n_tokens and text is None:
        return
    outcome = ABORTS if abs(a.n_tokens - b.n_tokens) > MOST_APART else HARM
    data = {"model": a.n_tokens, "draft": b.n_tokens}
    where = "field:tokenizer.ggml.tokens"
    if text is None:
        few, lacks = min(a.n_tokens, b.n_tokens), "it" if b.n_tokens < a.n_tokens else "the model"
        found = f"it has {b.n_tokens:,} tokens, the model {a.n_tokens:,}"
        found += f": a token from {few:,} on, which {lacks} lacks, ends the server"
        yield Misfit("pair-vocabulary", outcome, found, (NO_TOKEN,), _MADE, None, where, data)
        return
    found = f"it is made for another vocabulary (token {text.its} is {text.ours} in the model)"
    if a.n_tokens != b.n_tokens:
        found += f", of {b.n_tokens:,} tokens in place of {a.n_tokens:,}: the server ends at the first that one lacks"
        yield Misfit("pair-vocabulary", ABORTS, found, (NO_TOKEN,), _MADE, None, where, data)
        return
    yield Misfit(
        "pair-vocabulary", HARM, f"{found}: hardly a token it drafts would be right", (), _MADE, None, where, data
    )


def _layers(side: Model, layer: int, last: int, said: str) -> Misfit:
    text = f"it reads layer {layer} of its target, and the model has {last}"
    where = f"field:{side.architecture}.target_layers"
    return Misfit("pair-layers", ABORTS, text, (said,), _MADE, None, where, {"layer": layer, "layers": last})


def _width(width: int, ours: int, said: str) -> Misfit:
    text = f"it is made for a model that is {width:,} wide, this one is {ours:,} wide"
    return Misfit("pair-width", ABORTS, text, (said,) if said else (), _MADE, data={"width": width, "model": ours})


def _trunk(model: Model) -> int:
    return model.arch.block_count - nextn_layers(model.arch)


_ASKED: dict[str, Callable[[Model, Model, Drafting], Iterator[Misfit]]] = {
    SIMPLE: _simple, EAGLE3: _eagle3, MTP: _mtp, DFLASH: _dflash, DSPARK: _dflash,
}  # fmt: skip
