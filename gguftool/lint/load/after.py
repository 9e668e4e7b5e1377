"""What follows a load that succeeds: making the context, then the first decode.

Both build the same graph; the context only plans it, the decode runs it. So shapes, missing tensors and failed
assertions show at the context, tensor types (which no loader checks) and RoPE widths at the decode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from gguftool.arch import Hparams, facts
from gguftool.data import load
from gguftool.lint.load.file import type_name
from gguftool.lint.load.tensors import NVFP4
from gguftool.lint.load.types import fault_of_type
from gguftool.lint.load.verdict import Abort, AfterLoad, Unknown

if TYPE_CHECKING:
    from gguftool.lint.load.predict import Run

CONTEXT, DECODE = "context", "decode"
OK, REFUSED, ABORTS, HANGS, UNKNOWN = "ok", "refused", "aborts", "hangs", "unknown"
_GATING_FUNCS = frozenset({1, 2, 3, 4})
_REUSES_KV = frozenset({"gemma3n", "gemma4"})
NO_KV = "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache"
_NO_KV = frozenset({"none", "recurrent"})


def after_load(state: Run) -> AfterLoad:
    """The first thing that goes wrong after the load, or that nothing does."""
    for check in (*_CONTEXT, *_DECODE):
        for fault in check(state):
            return fault
    return AfterLoad(DECODE, OK)


def _where(state: Run, key: str) -> str:
    return f"field:{state.model.architecture}.{key}"


def _attends(state: Run, layer: int) -> bool:
    """True for a layer with softmax attention; falcon-h1 has it beside the recurrent part of every layer."""
    return state.model.architecture == "falcon-h1" or not _machine(state).names["is_recr()"](layer)


def _asserts(state: Run, part: str, stage: str) -> Iterator[AfterLoad]:
    """Assertions of the architecture's graph about hyperparameters alone."""
    rows = load("load_maps.json")[part].get(state.model.architecture)
    if rows is None:
        return
    try:
        _machine(state).run(rows)
    except Abort as fault:
        yield AfterLoad(stage, ABORTS, fault.text, _where(state, _blame(fault.text)))
    except Unknown as gap:
        yield AfterLoad(stage, UNKNOWN, gap.why)


def _graph_asserts(state: Run) -> Iterator[AfterLoad]:
    yield from _asserts(state, "graph", CONTEXT)


def _decode_asserts(state: Run) -> Iterator[AfterLoad]:
    yield from _asserts(state, "decode", DECODE)


def _blame(words: str) -> str:
    """The key a failed head assertion most likely comes from."""
    for part, key in (
        ("n_rot", "rope.dimension_count"),
        ("n_embd_head_k", "attention.key_length"),
        ("n_embd_head_v", "attention.value_length"),
        ("token_shift_count", "token_shift_count"),
        ("n_group", "ssm.group_count"),
        ("sliding_window", "attention.sliding_window"),
        ("attn_temp_scale", "attention.sliding_window"),
        ("a->ne[d]", "ssm.inner_size"),
        ("ggml_nelements", "wkv.head_size"),
    ):
        if part in words:
            return key
    return "attention.head_count"


def _windows(state: Run) -> Iterator[AfterLoad]:
    """Sliding-window flags against the kind of cache (`llama-model.cpp:create_memory`)."""
    machine, arch = _machine(state), facts(state.model.architecture)
    memory = arch.memory if arch else ""
    if memory in _NO_KV or memory.startswith("hybrid"):
        return
    windows = machine.names["is_swa_any()"]()
    kind = machine.h["swa_type"]
    where = _where(state, "attention.sliding_window_pattern")
    if kind != "none" and not windows:
        yield AfterLoad(CONTEXT, ABORTS, "GGML_ASSERT(hparams.is_swa_any()) failed", where)
    elif kind == "none" and windows:
        yield AfterLoad(CONTEXT, ABORTS, "GGML_ASSERT(!hparams.is_swa_any()) failed", where)


def _shared_kv(state: Run) -> Iterator[AfterLoad]:
    """Layers that use an earlier layer's KV need one of their own kind."""
    machine = _machine(state)
    if state.model.architecture not in _REUSES_KV:
        return
    h, n = machine.h, machine.h["n_layer_all"]
    first = h["n_layer_kv_from_start"]
    where = _where(state, "attention.shared_kv_layers")
    if first < 2:
        yield AfterLoad(CONTEXT, ABORTS, "GGML_ASSERT(hparams.n_layer_kv_from_start >= 2) failed", where)
        return
    swa = h["is_swa_impl"]
    for layer in range(first, n):
        source = first - (2 if swa[layer] else 1)
        if bool(swa[source]) != bool(swa[layer]):
            words = "GGML_ASSERT(map_layer_ids.find(il_reuse) != map_layer_ids.end()) failed"
            yield AfterLoad(CONTEXT, ABORTS, words, _where(state, "attention.sliding_window_pattern"))
            return


def _kv_width(state: Run) -> Iterator[AfterLoad]:
    """What a layer writes into the KV cache must be as wide as the cache's row (`ggml.c:ggml_set_rows`)."""
    machine, arch = _machine(state), facts(state.model.architecture)
    if arch is None or arch.memory in _NO_KV or state.asked is None:
        return
    words = "GGML_ASSERT(a->ne[0] == b->ne[0]) failed"
    names, h = machine.names, machine.h
    for layer in range(names["n_layer()"]()):
        if not _attends(state, layer):
            continue
        if names["is_mla()"]() and ("wkv_a_mqa", layer) in machine.slots:
            width = h.get("n_lora_kv", 0) + names["n_rot()"](layer)
            if names["n_embd_k_gqa()"](layer) != width:
                where = _where(state, "attention.head_count_kv")
                empty = not any(names["n_embd_k_gqa()"](i) for i in range(names["n_layer()"]()))
                yield AfterLoad(CONTEXT, REFUSED if empty else ABORTS, NO_KV if empty else words, where)
                return
            continue
        for slot, method, key in (("wk", "n_embd_k_gqa()", "key_length"), ("wv", "n_embd_v_gqa()", "value_length")):
            info = state.asked.slots.get((slot, layer))
            if info is None or (slot, layer) not in machine.slots or len(info.shape) < 2:
                continue
            if info.shape[1] != names[method](layer):
                suffix = "_swa" if names["is_swa()"](layer) else ""
                yield AfterLoad(CONTEXT, ABORTS, words, _where(state, f"attention.{key}{suffix}"))
                return


def _query_width(state: Run) -> Iterator[AfterLoad]:
    """Queries are cut into heads: the product of heads and head size must be their width."""
    machine = _machine(state)
    names = machine.names
    if state.asked is None or state.model.architecture not in load("load_maps.json")["plain"] or names["is_mla()"]():
        return
    for layer in range(names["n_layer()"]()):
        heads, size = names["n_head()"](layer), names["n_embd_head_k()"](layer)
        kv = names["n_embd_k_gqa()"](layer) + names["n_embd_v_gqa()"](layer)
        for slot, width in (("wq", heads * size), ("wqkv", heads * size + kv)):
            info = state.asked.slots.get((slot, layer))
            if info is not None and _attends(state, layer) and info.shape[1:2] != (width,):
                words = "GGML_ASSERT(ggml_nelements(a) == ne0*ne1*ne2) failed"
                yield AfterLoad(CONTEXT, ABORTS, words, _where(state, "attention.head_count"))
                return


def _gating(state: Run) -> Iterator[AfterLoad]:
    """The function that picks experts (`llama-graph.cpp:build_moe_ffn`)."""
    machine = _machine(state)
    if state.model.architecture not in load("load_maps.json")["gating"]:
        return
    moe = any(slot == "ffn_gate_inp" for slot, _ in machine.slots)
    if moe and machine.h.get("expert_gating_func", 0) not in _GATING_FUNCS:
        yield AfterLoad(
            CONTEXT, ABORTS, "fatal error (unknown expert_gating_func)", _where(state, "expert_gating_func")
        )


def _nvfp4(state: Run) -> Iterator[AfterLoad]:
    """NVFP4 weights of a feed-forward layer with both a scale and a bias (`llama-graph.cpp:build_ffn`)."""
    if state.asked is None:
        return
    ignored = load("load_maps.json")["unused"].get(state.model.architecture, ())
    for (slot, layer), info in state.asked.slots.items():
        part = slot.removeprefix("ffn_")
        both = {(f"{slot}_s", layer), (f"{slot}_b", layer)}
        if info.type_id == NVFP4 and part in ("up", "gate", "down") and both <= _machine(state).slots:
            if f"{slot}_s" in ignored:
                continue
            words = f"GGML_ASSERT(!{part}_s || !{part}_b || !{part} || {part}->type != GGML_TYPE_NVFP4) failed"
            yield AfterLoad(CONTEXT, ABORTS, words, f"tensor:{info.name}")
            return


def _missing(state: Run, stage: str) -> Iterator[AfterLoad]:
    """Tensors the graph uses without a look whether they are there (found by deleting each from real models)."""
    machine = _machine(state)
    for slot, condition, when in load("load_maps.json")["needs"].get(state.model.architecture, ()):
        if when != stage:
            continue
        for layer in range(machine.names["n_layer()"]()):
            machine.names["il"] = layer
            if (slot, layer) not in machine.slots and machine.value(condition):
                yield AfterLoad(stage, ABORTS, f"a null pointer: the graph needs {slot} of layer {layer}")
                return


def _context_missing(state: Run) -> Iterator[AfterLoad]:
    yield from _missing(state, CONTEXT)


def _decode_missing(state: Run) -> Iterator[AfterLoad]:
    yield from _missing(state, DECODE)


def _context_types(state: Run) -> Iterator[AfterLoad]:
    yield from _types(state, CONTEXT)


def _qkv(state: Run) -> Iterator[AfterLoad]:
    """Where queries, keys and values are stored apart, all three must be there."""
    machine = _machine(state)
    if state.model.architecture in _REUSES_KV:
        return
    for layer in range(machine.names["n_layer()"]()):
        there = [slot for slot in ("wq", "wk", "wv") if (slot, layer) in machine.slots]
        if there and len(there) < 3 and state.asked is not None:
            for slot in {"wq", "wk", "wv"} - set(there):
                name = f"blk.{layer}.attn_{slot[1]}.weight"
                if name in state.asked.wanted:
                    yield AfterLoad(CONTEXT, ABORTS, f"a null pointer: the graph needs {name}", f"tensor:{name}")
                    return


def _heads(state: Run) -> Iterator[AfterLoad]:
    """Attention without heads, experts without a choice."""
    machine, arch = _machine(state), facts(state.model.architecture)
    names = machine.names
    for layer in range(names["n_layer()"]()):
        attention = {("wq", layer), ("wqkv", layer)} & machine.slots
        where = _where(state, "attention.head_count")
        if attention and not names["n_head()"](layer) and _attends(state, layer):
            if arch is not None and arch.memory in ("kv", "iswa", "iswa-if-window"):
                words = (
                    "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache"
                )
                yield AfterLoad(CONTEXT, REFUSED, words, where)
            else:
                yield AfterLoad(CONTEXT, ABORTS, "a shape with 0 heads", where)
            return
        if ("ffn_gate_inp", layer) in machine.slots and not names["n_expert_used()"]():
            yield AfterLoad(CONTEXT, ABORTS, "division by zero (SIGFPE)", _where(state, "expert_used_count"))
            return
    if not names["n_layer()"]():
        words = 'GGML_ASSERT(buf != NULL && "tensor buffer not set") failed'
        yield AfterLoad(DECODE, ABORTS, words, _where(state, "nextn_predict_layers"))


def _rope_factors(state: Run) -> Iterator[AfterLoad]:
    """Frequency factors must cover half the rotation (`ggml.c:ggml_rope_impl`)."""
    machine = _machine(state)
    if state.asked is None:
        return
    for (slot, layer), info in state.asked.slots.items():
        if slot in ("rope_freqs", "rope_long", "rope_short") and layer < machine.names["n_layer()"]():
            rot = _int32(machine.names["n_rot()"](layer))
            if info.shape[0] < rot // 2:
                words = "GGML_ASSERT(c->ne[0] >= n_dims / 2) failed"
                yield AfterLoad(CONTEXT, ABORTS, words, f"tensor:{info.name}")
                return


def _start_token(state: Run) -> Iterator[AfterLoad]:
    """The token a decoder starts with."""
    if state.model.architecture != "t5":
        return
    start = state.model.get("t5.decoder_start_token_id")
    if isinstance(start, int) and state.vocab is not None and _int32(start) >= state.vocab.n_tokens:
        words = f"init: invalid token[0] = {_int32(start)}"
        yield AfterLoad(DECODE, "fails", words, _where(state, "decoder_start_token_id"))


def _decode_types(state: Run) -> Iterator[AfterLoad]:
    yield from _types(state, DECODE)


def _types(state: Run, stage: str) -> Iterator[AfterLoad]:
    """Tensor types no kernel takes."""
    if state.asked is None:
        return
    ignored = load("load_maps.json")["unused"].get(state.model.architecture, ())
    for wanted in state.asked.wanted.values():
        info = state.asked.stored.get(wanted.name)
        if info is None or not wanted.used or info.type_id == 0 or wanted.slot in ignored:
            continue
        when, words = fault_of_type(wanted, info.type_id)
        if when == stage:
            yield AfterLoad(stage, ABORTS, words.format(type=type_name(info.type_id)), f"tensor:{wanted.name}")
            return


def _epsilon(state: Run) -> Iterator[AfterLoad]:
    """Normalisation wants an epsilon that is not negative."""
    for key in ("attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon"):
        name = "f_norm_rms_eps" if "rms" in key else "f_norm_eps"
        value = _machine(state).h.get(name)
        if isinstance(value, float) and (math.isnan(value) or value < 0):
            yield AfterLoad(DECODE, ABORTS, "GGML_ASSERT(eps >= 0.0f) failed", _where(state, key))
            return


def _rope(state: Run) -> Iterator[AfterLoad]:
    """Width of the rotation against the head size (`ops.cpp:ggml_compute_forward_rope_flt`)."""
    machine, arch = _machine(state), facts(state.model.architecture)
    hp = Hparams(state.model.architecture, state.model.get)
    if arch is None or not hp.ropes or machine.names["is_mla()"]() or arch.memory == "mla":
        return
    names = machine.names
    for layer in range(names["n_layer()"]()):
        if not names["n_head()"](layer) or not _attends(state, layer) or not names["has_rope()"](layer):
            continue
        rot, head = _int32(names["n_rot()"](layer)), names["n_embd_head_k()"](layer)
        where = _where(state, "rope.dimension_count" + ("_swa" if names["is_swa()"](layer) else ""))
        if rot == 0:
            yield AfterLoad(DECODE, HANGS, "a rotation of width 0 never ends", where)
        elif rot > head:
            yield AfterLoad(DECODE, ABORTS, "GGML_ASSERT(n_dims <= ne0) failed", where)
        elif rot % 2:
            yield AfterLoad(DECODE, ABORTS, "GGML_ASSERT(n_dims % 2 == 0) failed", where)
        else:
            continue
        return
    if arch.rope in ("mrope", "imrope") and not any(v > 0 for v in machine.h["rope_sections"][:3]):
        words = "GGML_ASSERT(sections[0] > 0 || sections[1] > 0 || sections[2] > 0) failed"
        yield AfterLoad(DECODE, ABORTS, words, _where(state, "rope.dimension_sections"))


def _int32(n: int) -> int:
    return n - (1 << 32) if n >> 31 else n


def _prompt(state: Run) -> Iterator[AfterLoad]:
    """Tokens that a prompt needs."""
    vocab = state.vocab
    if vocab is None:
        return
    if vocab.kind == "none":
        words = (
            'GGML_ASSERT(tokenizer && "Tokenizer not initialized. Call llama_vocab::init_tokenizer() first.") failed'
        )
        yield AfterLoad(DECODE, ABORTS, words, "field:tokenizer.ggml.model")
        return
    ids = vocab.ids
    words = "GGML_ASSERT(special_{}_id != LLAMA_TOKEN_NULL) failed"
    if vocab.kind in ("SPM", "UGM", "PLaMo2", "BPE"):
        if vocab.add_bos and ids["bos"] < 0:
            yield AfterLoad(DECODE, ABORTS, words.format("bos"), "field:tokenizer.ggml.bos_token_id")
        elif vocab.add_eos and ids["eos"] < 0:
            yield AfterLoad(DECODE, ABORTS, words.format("eos"), "field:tokenizer.ggml.eos_token_id")
    elif vocab.kind == "WPM":
        for role, key in (("bos", "bos_token_id"), ("sep", "seperator_token_id")):
            if ids[role] < 0:
                yield AfterLoad(DECODE, ABORTS, words.format(role), f"field:tokenizer.ggml.{key}")
                return
    if vocab.kind == "SPM" and not vocab.newline:
        text = "terminate called after throwing an instance of 'std::out_of_range' (a prompt with a line feed)"
        yield AfterLoad(DECODE, ABORTS, text, "field:tokenizer.ggml.tokens")


def _machine(state: Run) -> Any:
    if state.machine is None:
        raise Unknown("the hyperparameters were not read")
    return state.machine


Check = Callable[["Run"], Iterator[AfterLoad]]
_CONTEXT: tuple[Check, ...] = (
    _windows,
    _shared_kv,
    _graph_asserts,
    _context_missing,
    _qkv,
    _heads,
    _query_width,
    _kv_width,
    _rope_factors,
    _nvfp4,
    _gating,
    _context_types,
)
_DECODE: tuple[Check, ...] = (_decode_missing, _decode_asserts, _decode_types, _epsilon, _rope, _start_token, _prompt)
