"""The tensors of a LoRA adapter: names, pairs, ranks, sizes, types."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gguftool.facts.arch import facts
from gguftool.lint.rule import Context, Draft, Drafts, Severity, found, rule
from gguftool.lint.rules.adapter.keys import read
from gguftool.lint.rules.tensors.groups import MOST, dims, grouped, limited, several
from gguftool.model import Model
from gguftool.model.adapter import A, B, Pair, size
from gguftool.near import near_names
from gguftool.predict.adapter import in_vain
from gguftool.predict.tensors import adapted, known, names_like, operation, padded
from gguftool.predict.types import NOT_WEIGHTS
from gguftool.predict.words import type_name
from gguftool.regex import regex

_PEFT = regex(r"base_model\.model\.|\.lora_[AB]\.|lora_(?:up|down|te|unet)|\.lora_embedding_[AB]")
_COMPARED = 1000
"""Names that a lost one is compared with."""
_CONVERT = "convert the adapter with convert_lora_to_gguf.py"


def _whole(m: Model, ctx: Context) -> Iterator[Pair]:
    return (p for p in read(m, ctx).pairs if p.whole)


def _place(pair: Pair) -> str:
    return f"tensor:{pair.name}{A if pair.a is not None else B}"


@rule(Severity.ERROR, role="adapter")
def adapter_tensor_name(m: Model, ctx: Context) -> Drafts:
    """Every tensor of an adapter must end with `.lora_a`, `.lora_b` or `_norm.weight`.

    Why. llama.cpp refuses the whole adapter at the first tensor with another name.
    Evidence. `llama-adapter.cpp:llama_adapter_lora_init_impl` (b11434): "LoRA tensor '…' has unexpected suffix".
    Example. blk.0.attn_q.weight.lora_A is neither half of a pair; blk.0.attn_q.weight.lora_a would be one
    Fix. Convert the adapter again with convert_lora_to_gguf.py.
    """
    yield from limited(_strangers(list(read(m, ctx).strangers)))


def _strangers(strangers: list[str]) -> Iterator[Draft]:
    for names in grouped(strangers).values():
        name = names[0]
        lower = re.sub(r"\.(lora_[ab])(?:\.weight)?$", r".\1", name.lower().strip())
        if _PEFT.search(name) and not lower.startswith("blk."):
            hint = f"; the name is that of PEFT: {_CONVERT}"
        elif lower.endswith((A, B)):
            hint = f"; {lower} would be one"
        elif "_norm." in name:
            hint = "; of norms llama.cpp passes over those that end with _norm.weight"
        else:
            hint = "; a whole weight has no place in an adapter"
        text = f"{name} is neither half of a pair{several(names)}{hint}"
        said = f"LoRA tensor '{name}' has unexpected suffix"
        yield found(text, where=f"tensor:{name}", tensors=names, llama_cpp=said)


@rule(Severity.ERROR, role="adapter")
def adapter_pair_incomplete(m: Model, ctx: Context) -> Drafts:
    """Both halves of every pair must be there.

    Why. llama.cpp refuses the adapter: one half alone says nothing.
    Evidence. `llama-adapter.cpp:llama_adapter_lora_init_impl` (b11434): "… is missing one component".
    Example. blk.0.attn_k.weight has lora_a and no lora_b
    Fix. Convert the adapter again, from a whole adapter_model.safetensors.
    """
    yield from limited(_halves(m, ctx))


def _halves(m: Model, ctx: Context) -> Iterator[Draft]:
    it = read(m, ctx)
    halves = {p.name: p for p in it.pairs if not p.whole}
    for i, names in enumerate(grouped(halves).values()):
        pair = halves[names[0]]
        have, lost = (A, B) if pair.a is not None else (B, A)
        near = near_names(pair.name + lost, it.strangers[:_COMPARED], 1, 0.85) if i < MOST else []
        hint = f"; the file has {near[0]}" if near else ""
        text = f"{pair.name} has {have[1:]} and no {lost[1:]}{several(names)}{hint}"
        said = f"LoRA tensor pair for '{pair.name}' is missing one component"
        yield found(text, where=_place(pair), tensors=names, llama_cpp=said)


@rule(Severity.ERROR, role="adapter")
def adapter_weight_unknown(m: Model, ctx: Context) -> Drafts:
    """A pair must be for a weight that models of llama.cpp have.

    Why. llama.cpp looks the weight up in the base model by this name and refuses the adapter where it is not.
    Evidence. `llama-adapter.cpp:llama_adapter_lora_init_impl` (b11434): "does not exist in base model"; names:
    `llama-arch.cpp:LLM_TENSOR_NAMES`.
    Example. no model of llama.cpp has a weight blk.0.attn_qq.weight; the nearest name is blk.0.attn_q.weight
    Fix. Convert the adapter again with convert_lora_to_gguf.py.
    """
    yield from limited(_unknown(m, ctx))


def _unknown(m: Model, ctx: Context) -> Iterator[Draft]:
    pairs = {p.name: p for p in read(m, ctx).pairs if not known(p.name)}
    for i, names in enumerate(grouped(pairs).values()):
        name = names[0]
        near = near_names(name, names_like(name), 1, 0.7) if i < MOST else []
        hint = f"; the nearest name is {near[0]}" if near else f"; {_CONVERT}" if _PEFT.search(name) else ""
        said = f"LoRA tensor '{name}' does not exist in base model (hint: maybe wrong base model?)"
        text = f"no model of llama.cpp has a weight {name}{several(names)}{hint}"
        yield found(text, where=_place(pairs[name]), tensors=names, llama_cpp=said)


@rule(Severity.ERROR, role="adapter")
def adapter_rank(m: Model, ctx: Context) -> Drafts:
    """Both halves of a pair must have the same rank, above 0 and no larger than the weight.

    Why. `lora_a` is [in, rank] and `lora_b` [rank, out] (of the token embedding [rank, tokens] and [rank, width]).
    Where they differ llama.cpp refuses the adapter; for the embedding, and with rank 0, it dies at the first token. A
    rank above both sizes of the weight was not meant: both halves lie the wrong way round.
    Evidence. `llama-adapter.cpp:llama_adapter_lora_init_impl` (b11434): "lora_a tensor is not transposed"; measured.
    Example. blk.0.attn_q.weight: lora_a (64 × 8) has rank 8, lora_b (16 × 64) rank 16
    Fix. Convert the adapter again.
    """
    yield from limited(_ranks(m, ctx))


def _ranks(m: Model, ctx: Context) -> Iterator[Draft]:
    faults = {p.name: (p, fault) for p in _whole(m, ctx) if (fault := _rank_fault(p)) is not None}
    for names in grouped(faults).values():
        pair, (text, said, severity) = faults[names[0]]
        shown = text + several(names)
        yield found(shown, where=_place(pair), severity=severity, tensors=names, llama_cpp=said or None)


def _rank_fault(pair: Pair) -> tuple[str, str, Severity] | None:
    """What is wrong with the ranks of a pair, llama.cpp's words for it, and how bad it is."""
    if pair.a is None or pair.b is None or pair.base_shape is None:
        return None
    of_a, of_b = pair.rank_of_a or 0, pair.rank or 0
    halves = f"lora_a ({dims(pair.a.shape)}), lora_b ({dims(pair.b.shape)})"
    if of_a != of_b:
        said = 'lora_a tensor is not transposed (hint: adapter from "finetune" example is no longer supported)'
        if pair.embedding:
            said = "GGML_ASSERT(ggml_can_mul_mat(a, b)) failed"
        turned = size(pair.a, 1 if pair.embedding else 0) == of_b
        flipped = size(pair.b, 1) == of_a
        # Where both would do, the smaller rank is the true one.
        half = "lora_a" if turned and not (flipped and of_a < of_b) else "lora_b" if flipped else ""
        why = f"; {half} lies the other way round" if half else ""
        ranks = f"lora_a ({dims(pair.a.shape)}) has rank {of_a:,}, lora_b ({dims(pair.b.shape)}) rank {of_b:,}"
        return f"{pair.name}: {ranks}{why}", said, Severity.ERROR
    if of_a == 0:
        text = f"{pair.name}: {halves} have rank 0: there is nothing in them, and llama.cpp dies of it"
        return text, "", Severity.ERROR
    if of_a > max(pair.base_shape):
        text = f"{pair.name}: rank {of_a:,} is more than both sizes of the weight, {dims(pair.base_shape)}: {halves}"
        return text, "", Severity.WARNING
    return None


@rule(Severity.ERROR, role="adapter")
def adapter_shape(m: Model, ctx: Context) -> Drafts:
    """A pair must have two sizes each, of experts three, the third equal in both halves.

    Why. The loader compares the first two sizes only. The rest ends the process at the first token, or reads past the
    end of the adapter where it has fewer experts than the model.
    Evidence. `llama-adapter.cpp:llama_adapter_lora_init_impl`, `ggml.c:ggml_mul_mat_id` (b11434); measured.
    Example. blk.0.attn_q.weight.lora_a is 64 × 8 × 2; a pair for it has two sizes
    Fix. Convert the adapter again.
    """
    yield from limited(_shapes(m, ctx))


def _shapes(m: Model, ctx: Context) -> Iterator[Draft]:
    for pair in _whole(m, ctx):
        if pair.a is None or pair.b is None:
            continue
        a, b = padded(pair.a.shape), padded(pair.b.shape)
        experts = operation(pair.name) == "MUL_MAT_ID"
        sound = a[2:] == b[2:] and a[3] == 1 and (a[2] > 1) == experts
        if sound or not adapted(m.architecture, pair.name):
            continue
        both = f"lora_a ({dims(pair.a.shape)}), lora_b ({dims(pair.b.shape)})"
        if experts and a[2:] != b[2:]:
            text, said = f"{pair.name}: {both} are for different numbers of experts", None
        elif experts and a[2] <= 1:
            text, said = f"{pair.name}: {both} are for one expert: llama.cpp reads past their end", None
        else:
            text, said = f"{pair.name}: {both} have more sizes than a pair for it has", _died(experts, pair)
        yield found(text, where=_place(pair), llama_cpp=said)


def _died(experts: bool, pair: Pair) -> str:
    if experts:
        return "GGML_ASSERT(as->ne[3] == 1) failed"
    words = "a->ne[2] == b->ne[1]" if pair.embedding else "ggml_can_mul_mat(a, b)"
    return f"GGML_ASSERT({words}) failed"


@rule(Severity.ERROR, role="adapter")
def adapter_tensor_type(m: Model, ctx: Context) -> Drafts:
    """The halves of a pair must have a type that matrix products take.

    Why. The loader takes every type; whole numbers, f64 and the types of intermediate results end the process at the
    first token.
    Evidence. Measured with every type on b11434: q8_1, q8_K, i8, i16, i32, i64 and f64 die.
    Example. blk.0.attn_q.weight.lora_a is f64, of which llama.cpp has no matrix product
    Fix. Convert the adapter again, with `--outtype f16` or `f32`.
    """
    bad = {
        half.name: half.type_id
        for pair in _whole(m, ctx)
        if adapted(m.architecture, pair.name)
        for half in (pair.a, pair.b)
        if half is not None and half.type_id in NOT_WEIGHTS
    }
    for names in grouped(bad).values():
        kind = type_name(bad[names[0]])
        text = f"{names[0]} is {kind}, of which llama.cpp has no matrix product{several(names)}"
        yield found(text, where=f"tensor:{names[0]}", tensors=names)


@rule(Severity.WARNING, role="adapter")
def adapter_without_effect(m: Model, ctx: Context) -> Drafts:
    """What an adapter changes should be used by the graph of its architecture.

    Why. llama.cpp asks the adapters where it multiplies with a weight by a function of its own. Some graphs multiply
    directly (the attention of DeepSeek and its kin, the head of some): there an adapter loads and does nothing, in
    part or altogether. Norms and tables that are looked up by row have no place for one at all.
    Evidence. Measured on b11434 with a pair of impossible sizes for each weight of 209 models: where the process does
    not die, the adapter is not asked.
    Example. llama.cpp does not ask an adapter for attn_q_b, attn_kv_a_mqa of deepseek2: 54 of 81 pairs do nothing
    Fix. None: merge the adapter into the model before the conversion.
    """
    it = read(m, ctx)
    if not it.pairs:
        text = "it has no pairs: llama.cpp loads it, and it changes nothing"
        yield found(text, where="file")
        return
    if facts(m.architecture) is None:
        return
    idle, text = in_vain(m.architecture, it)
    if idle:
        severity = Severity.ERROR if len(idle) == len(it.pairs) else None
        yield found(text, where=_place(idle[0]), severity=severity, tensors=[p.name for p in idle[:64]])


@rule(Severity.INFO, role="adapter")
def adapter_norms_aside(m: Model, ctx: Context) -> Drafts:
    """Norms in an adapter are not used.

    Why. Adapters that were extracted from a whole model (mergekit) bring the norms along; llama.cpp passes over them,
    so answers are a little off from the model they were taken from.
    Evidence. `llama-adapter.cpp:llama_adapter_lora_init_impl` (b11434): "for now, we don't really care".
    Example. 33 norms are passed over: blk.0.attn_norm.weight …
    Fix. None needed; merge the adapter into the model for the exact answers.
    """
    norms = read(m, ctx).norms
    if norms:
        more = " …" if len(norms) > 1 else ""
        text = f"{len(norms):,} norm{'s are' if len(norms) > 1 else ' is'} passed over: {norms[0]}{more}"
        yield found(text, where=f"tensor:{norms[0]}", norms=len(norms))
