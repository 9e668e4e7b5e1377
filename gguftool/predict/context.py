"""Making a context of 512 tokens: the memory, and the plan of the graph (llama.cpp b11434).

Shapes, missing tensors and failed assertions show here, before a single number is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gguftool.facts.arch import facts
from gguftool.facts.data import load
from gguftool.facts.enums import numbers
from gguftool.predict.graph import (
    ABORTS,
    CONTEXT,
    DECODE,
    REFUSED,
    UNKNOWN,
    asserts,
    attends,
    field,
    head_size,
    heads,
    machine_of,
    missing,
    rotation,
    types,
)
from gguftool.predict.state import Run
from gguftool.predict.tensors import NVFP4
from gguftool.predict.verdict import AfterLoad

CONTEXT_TOKENS = 512
"""Size of the context that is judged."""
MUCH = 16 << 30
"""Bytes beyond which the outcome depends on the machine."""
NO_KV = "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache"
_NO_KV = frozenset({"none", "recurrent"})
_PLAIN_KV = frozenset({"kv", "iswa", "iswa-if-window"})


def _huge(state: Run) -> Iterator[AfterLoad]:
    """What only a machine of another age could hold: whether it fails, and how, is up to the machine."""
    machine, arch = machine_of(state), state.model.architecture
    names, h = machine.names, machine.h
    known = facts(arch)
    memory = known.memory if known else ""
    values = 0 if names["is_mla()"]() else 1
    rows = (names["n_embd_k_gqa()"](i) + values * names["n_embd_v_gqa()"](i) for i in range(h["n_layer_all"]))
    kv = 0 if memory in _NO_KV else 2 * CONTEXT_TOKENS * sum(rows)
    shift = h["n_embd"] * max(h.get("wkv_head_size", 0), h["token_shift_count"])
    recurrent = 4 * max(shift, h.get("ssm_d_inner", 0) * max(1, h.get("ssm_d_state", 0)))
    if any(names["is_recr()"](i) for i in range(h["n_layer_all"])):
        kv = max(kv, recurrent)
    if kv > MUCH:
        text = f"the memory of {CONTEXT_TOKENS} tokens would take {kv >> 30:,} GiB"
        yield AfterLoad(CONTEXT, UNKNOWN, text, field(state, "attention.key_length"))
    elif arch.startswith("t5") and h["n_ctx_train"] > MUCH >> 12:
        text = f"relative positions of {h['n_ctx_train']:,} tokens"
        yield AfterLoad(CONTEXT, UNKNOWN, text, field(state, "context_length"))
    elif h["swa_type"] != "none" and MUCH >> 8 < h.get("n_swa", 0) < 1 << 31:
        text = f"a sliding window of {h['n_swa']:,} tokens"
        yield AfterLoad(DECODE, UNKNOWN, text, field(state, "attention.sliding_window"))


def _windows(state: Run) -> Iterator[AfterLoad]:
    """Sliding-window flags against the kind of cache (`llama-model.cpp:create_memory`)."""
    machine, arch = machine_of(state), facts(state.model.architecture)
    memory = arch.memory if arch else ""
    if memory in _NO_KV or memory.startswith("hybrid"):
        return
    windows = machine.names["is_swa_any()"]()
    kind = machine.h["swa_type"]
    where = field(state, "attention.sliding_window_pattern")
    if kind != "none" and not windows:
        yield AfterLoad(CONTEXT, ABORTS, "GGML_ASSERT(hparams.is_swa_any()) failed", where)
    elif kind == "none" and windows:
        yield AfterLoad(CONTEXT, ABORTS, "GGML_ASSERT(!hparams.is_swa_any()) failed", where)


def _reuses_kv(state: Run) -> bool:
    arch = facts(state.model.architecture)
    return arch is not None and arch.reuses_kv


def _shared_kv(state: Run) -> Iterator[AfterLoad]:
    """Layers that use an earlier layer's KV need one of their own kind."""
    machine = machine_of(state)
    if not _reuses_kv(state):
        return
    h, n = machine.h, machine.h["n_layer_all"]
    first = h["n_layer_kv_from_start"]
    where = field(state, "attention.shared_kv_layers")
    if first < 2:
        yield AfterLoad(CONTEXT, ABORTS, "GGML_ASSERT(hparams.n_layer_kv_from_start >= 2) failed", where)
        return
    swa = h["is_swa_impl"]
    for layer in range(first, n):
        source = first - (2 if swa[layer] else 1)
        if bool(swa[source]) != bool(swa[layer]):
            words = "GGML_ASSERT(map_layer_ids.find(il_reuse) != map_layer_ids.end()) failed"
            yield AfterLoad(CONTEXT, ABORTS, words, field(state, "attention.sliding_window_pattern"))
            return


def _graph_asserts(state: Run) -> Iterator[AfterLoad]:
    yield from asserts(state, "graph", CONTEXT)


def _context_missing(state: Run) -> Iterator[AfterLoad]:
    yield from missing(state, CONTEXT)


APART = ("attn_q.weight", "attn_k.weight", "attn_v.weight")
"""How tensors end whose being asked for counts though they are not there: of all others only those in the file do."""


def _qkv(state: Run) -> Iterator[AfterLoad]:
    """Where queries, keys and values are stored apart, all three must be there."""
    machine = machine_of(state)
    if _reuses_kv(state):
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
    """Attention without heads: the head size is reckoned from those of the first layer."""
    machine, arch = machine_of(state), facts(state.model.architecture)
    names = machine.names
    if not names["n_layer()"]():
        words = 'GGML_ASSERT(buf != NULL && "tensor buffer not set") failed'
        yield AfterLoad(DECODE, ABORTS, words, field(state, "nextn_predict_layers"))
        return
    if not names["n_head()"](0):
        for layer in range(names["n_layer()"]()):
            if {("wq", layer), ("wqkv", layer)} & machine.slots and attends(state, layer):
                where = field(state, "attention.head_count")
                if arch is not None and arch.memory in _PLAIN_KV:
                    yield AfterLoad(CONTEXT, REFUSED, NO_KV, where)
                else:
                    yield AfterLoad(CONTEXT, ABORTS, "a shape with 0 heads", where)
                return


def _experts(state: Run) -> Iterator[AfterLoad]:
    """Experts without a choice: the graph picks as many as the first layer says, and adds up as many as each says."""
    machine = machine_of(state)
    names = machine.names
    if "ffn_gate_inp" in load("load_maps.json")["unused"].get(state.model.architecture, ()):
        return
    for layer in range(names["n_layer()"]()):
        if ("ffn_gate_inp", layer) not in machine.slots:
            continue
        where = field(state, "expert_used_count")
        if not names["n_expert_used()"](0):
            yield AfterLoad(CONTEXT, ABORTS, "division by zero (SIGFPE)", where)
            return
        if not names["n_expert_used()"](layer):
            yield AfterLoad(CONTEXT, ABORTS, f"a null pointer: layer {layer} adds up the answers of 0 experts", where)
            return
        if names["n_expert_used()"](layer) > names["n_expert_used()"](0):
            words = "GGML_ASSERT(view_src == NULL || data_size == 0 || data_size + view_offs <= ggml_nbytes(view_src))"
            yield AfterLoad(CONTEXT, ABORTS, f"{words} failed", where)
            return


def _query_width(state: Run) -> Iterator[AfterLoad]:
    """Queries are cut into heads: the product of heads and head size must be their width."""
    machine = machine_of(state)
    names = machine.names
    if state.asked is None or state.model.architecture not in load("load_maps.json")["plain"] or names["is_mla()"]():
        return
    for layer in range(names["n_layer()"]()):
        size = head_size(state, layer)
        queries = heads(state, layer) * size
        kv = (size + head_size(state, layer, value=True)) * heads(state, layer, kv=True)
        for slot, width in (("wq", queries), ("wqkv", queries + kv)):
            info = state.asked.slots.get((slot, layer))
            if info is not None and attends(state, layer) and info.shape[1:2] != (width,):
                words = "GGML_ASSERT(ggml_nelements(a) == ne0*ne1*ne2) failed"
                yield AfterLoad(CONTEXT, ABORTS, words, field(state, "attention.head_count"))
                return


def _empty_cache(state: Run) -> Iterator[AfterLoad]:
    """A cache whose layers have no KV heads takes no memory, which llama.cpp takes for a failed allocation.

    Layers with a sliding window have a cache of their own; layers without attention have none.
    """
    machine, arch = machine_of(state), facts(state.model.architecture)
    names = machine.names
    if arch is None or arch.memory in _NO_KV:
        return
    values = 0 if names["is_mla()"]() else 1
    rows: dict[bool, int] = {}
    for layer in range(machine.h["n_layer_all"]):
        if names["has_kv()"](layer) and attends(state, layer):
            own = machine.h["swa_type"] != "none" and bool(names["is_swa()"](layer))
            width = names["n_embd_k_gqa()"](layer) + values * names["n_embd_v_gqa()"](layer)
            rows[own] = rows.get(own, 0) + width
    if 0 in rows.values():
        yield AfterLoad(CONTEXT, REFUSED, NO_KV, field(state, "attention.head_count_kv"))


def _kv_width(state: Run) -> Iterator[AfterLoad]:
    """What a layer writes into the KV cache must be as wide as the cache's row (`ggml.c:ggml_set_rows`)."""
    machine, arch = machine_of(state), facts(state.model.architecture)
    if arch is None or arch.memory in _NO_KV or state.asked is None:
        return
    words = "GGML_ASSERT(a->ne[0] == b->ne[0]) failed"
    names, h = machine.names, machine.h
    for layer in range(names["n_layer()"]()):
        if not attends(state, layer):
            continue
        if names["is_mla()"]() and ("wkv_a_mqa", layer) in machine.slots:
            width = h.get("n_lora_kv", 0) + rotation(state, layer)[0]
            if names["n_embd_k_gqa()"](layer) != width:
                where = field(state, "attention.head_count_kv")
                yield AfterLoad(CONTEXT, ABORTS, words, where)
                return
            continue
        for slot, method, key in (("wk", "n_embd_k_gqa()", "key_length"), ("wv", "n_embd_v_gqa()", "value_length")):
            if _written(state, slot, layer) not in (None, names[method](layer)):
                suffix = "_swa" if names["is_swa()"](layer) else ""
                yield AfterLoad(CONTEXT, ABORTS, words, field(state, f"attention.{key}{suffix}"))
                return


def _written(state: Run, slot: str, layer: int) -> int | None:
    """Width of the keys or values that a layer makes; None where that is not known."""
    info = state.asked.slots.get((slot, layer)) if state.asked is not None else None
    if info is not None and (slot, layer) in machine_of(state).slots:
        return info.shape[1] if len(info.shape) > 1 else None
    if machine_of(state).names["is_mla()"]() or _reuses_kv(state):
        return None
    return head_size(state, layer, value=slot == "wv") * heads(state, layer, kv=True)


def _rope_factors(state: Run) -> Iterator[AfterLoad]:
    """Frequency factors must cover half the rotation (`ggml.c:ggml_rope_impl`)."""
    machine = machine_of(state)
    if state.asked is None:
        return
    for (slot, layer), info in state.asked.slots.items():
        if slot in ("rope_freqs", "rope_long", "rope_short") and layer < machine.names["n_layer()"]():
            rot, _ = rotation(state, layer)
            if info.shape[0] < rot // 2:
                words = "GGML_ASSERT(c->ne[0] >= n_dims / 2) failed"
                yield AfterLoad(CONTEXT, ABORTS, words, f"tensor:{info.name}")
                return


def _nvfp4(state: Run) -> Iterator[AfterLoad]:
    """NVFP4 weights of a feed-forward layer with both a scale and a bias (`llama-graph.cpp:build_ffn`)."""
    if state.asked is None:
        return
    ignored = load("load_maps.json")["unused"].get(state.model.architecture, ())
    for (slot, layer), info in state.asked.slots.items():
        if info.type_id != NVFP4:
            continue
        part = slot.removeprefix("ffn_")
        both = {(f"{slot}_s", layer), (f"{slot}_b", layer)}
        if part in ("up", "gate", "down") and both <= machine_of(state).slots:
            if f"{slot}_s" in ignored:
                continue
            words = f"GGML_ASSERT(!{part}_s || !{part}_b || !{part} || {part}->type != GGML_TYPE_NVFP4) failed"
            yield AfterLoad(CONTEXT, ABORTS, words, f"tensor:{info.name}")
            return


def _gating(state: Run) -> Iterator[AfterLoad]:
    """The function that picks experts (`llama-graph.cpp:build_moe_ffn`)."""
    machine = machine_of(state)
    if state.model.architecture not in load("load_maps.json")["gating"]:
        return
    moe = any(slot == "ffn_gate_inp" for slot, _ in machine.slots)
    known = {n for n in numbers("expert_gating_func").values() if n > 0}
    if moe and machine.h.get("expert_gating_func", 0) not in known:
        yield AfterLoad(CONTEXT, ABORTS, "fatal error (unknown expert_gating_func)", field(state, "expert_gating_func"))


def _context_types(state: Run) -> Iterator[AfterLoad]:
    yield from types(state, CONTEXT)


Check = Callable[[Run], Iterator[AfterLoad]]
CHECKS: tuple[Check, ...] = (
    _huge,
    _windows,
    _shared_kv,
    _graph_asserts,
    _context_missing,
    _qkv,
    _heads,
    _experts,
    _query_width,
    _empty_cache,
    _kv_width,
    _rope_factors,
    _nvfp4,
    _gating,
    _context_types,
)
