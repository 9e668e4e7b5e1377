"""What a LoRA adapter says of itself: type, architecture, alpha, invocation tokens."""

from __future__ import annotations

import math

from gguftool.edit.ops import Set
from gguftool.facts.arch import facts, nearest
from gguftool.facts.machine.ends import Abort
from gguftool.facts.machine.taken import taken
from gguftool.format.header import Field
from gguftool.format.types import ARR
from gguftool.lint.rule import Context, Draft, Drafts, Fix, Severity, found, rule, to_choose
from gguftool.model import Model
from gguftool.model.adapter import ALPHA, INVOCATION, TYPE, Adapter, adapter

GENERAL, ARCHITECTURE = "general.type", "general.architecture"
MOST_SCALE = 256.0
"""Trainers scale by 0.5 to 4; what is beyond this was not meant."""
_ID_MAX = (1 << 31) - 1


def read(m: Model, ctx: Context) -> Adapter:
    """The adapter, taken apart once a run."""
    return ctx.once("adapter", lambda: adapter(m))


def text_of(m: Model, key: str) -> tuple[str, str]:
    """The text that a loader takes for a key, and the assertion it dies of instead."""
    try:
        return taken(m.fields, key, "str") or "", ""
    except Abort as end:
        return "", end.text


def _is_lora(it: Adapter) -> bool:
    return any(p.whole for p in it.pairs) and not it.strangers


def _stated(m: Model, ctx: Context, key: str, wanted: str) -> Drafts:
    """A key that must say one word."""
    value, died = text_of(m, key)
    if value == wanted:
        return
    fix = Fix(f"set {key} to {wanted}", (Set(key, wanted, "str"),), safe=True) if _is_lora(read(m, ctx)) else None
    said = died or f"expect {key} to be '{wanted}', but got: {value[:200]}"
    state = f"{m.fields[key].type_name}, must be a string" if died else repr(value[:60])
    text = f"{key} is {state if key in m.fields else 'missing'}"
    yield found(f"{text}; llama.cpp takes an adapter only as {wanted!r}", where=f"field:{key}", fix=fix, llama_cpp=said)


@rule(Severity.ERROR, role="adapter")
def adapter_general_type(m: Model, ctx: Context) -> Drafts:
    """`general.type` of an adapter must be `adapter`.

    Why. It is the first thing that the loader of adapters asks, and the server ends when it is anything else.
    Evidence. `llama-adapter.cpp:llama_adapter_lora_init_impl` (b11434): "expect general.type to be 'adapter'".
    Example. general.type is missing; llama.cpp takes an adapter only as 'adapter'
    Fix. `gguftool fix --set general.type=adapter`, where the tensors are those of a LoRA.
    """
    yield from _stated(m, ctx, GENERAL, "adapter")


@rule(Severity.ERROR, role="adapter")
def adapter_type(m: Model, ctx: Context) -> Drafts:
    """`adapter.type` must be `lora`, the only kind that llama.cpp has.

    Why. The loader refuses every other word, and a missing one.
    Evidence. `llama-adapter.cpp:llama_adapter_lora_init_impl` (b11434): "expect adapter.type to be 'lora'".
    Example. adapter.type is 'LoRA'; llama.cpp takes an adapter only as 'lora'
    Fix. `gguftool fix --set adapter.type=lora`, where the tensors are those of a LoRA.
    """
    yield from _stated(m, ctx, TYPE, "lora")


@rule(Severity.ERROR, role="adapter")
def adapter_architecture(m: Model, ctx: Context) -> Drafts:
    """An adapter must name the architecture of its base model.

    Why. It must be the very one of the model that it is given beside, so a name that no model has fits none.
    Evidence. `llama-adapter.cpp:llama_adapter_lora_init_impl` (b11434): "model arch and LoRA arch mismatch".
    Example. general.architecture is 'lama', which no model of llama.cpp b11434 has; did you mean llama?
    Fix. `gguftool fix --set general.architecture=NAME`, the one of the base model.
    """
    value, died = text_of(m, ARCHITECTURE)
    if facts(value) is not None:
        return
    where, said = f"field:{ARCHITECTURE}", died or "model arch and LoRA arch mismatch"
    fix = to_choose("name the architecture of the base model", "--set", ARCHITECTURE)
    if ARCHITECTURE not in m.fields or (not value and not died):
        state = "empty" if ARCHITECTURE in m.fields else "missing"
        yield found(f"{ARCHITECTURE} is {state}", where=where, fix=fix, llama_cpp=said)
    elif died:
        text = f"{ARCHITECTURE} is {m.fields[ARCHITECTURE].type_name}, must be a string"
        yield found(text, where=where, fix=fix, llama_cpp=said)
    else:
        near = nearest(value)[:1]
        guess = f"; did you mean {near[0]}?" if near else ""
        if near:
            fix = Fix(f"set it to {near[0]}", (Set(ARCHITECTURE, near[0], "str"),))
        text = f"{ARCHITECTURE} is {value[:60]!r}, which no model of llama.cpp has{guess}"
        yield found(text, where=where, fix=fix, llama_cpp=said)


@rule(Severity.WARNING, role="adapter")
def adapter_alpha(m: Model, ctx: Context) -> Drafts:
    """`adapter.lora.alpha` must be a finite f32 above 0.

    Why. What an adapter adds is multiplied by alpha / rank. Without alpha, or with 0, llama.cpp multiplies by 1: as
    strongly as the rank is large compared with what was trained. NaN makes every answer garbage; another type than f32
    ends the process.
    Evidence. `llama-adapter.h:get_scale`, `llama-adapter.cpp:llama_adapter_lora_init_impl` (b11434);
    convert_lora_to_gguf.py always writes it (`lora_alpha` of adapter_config.json).
    Example. adapter.lora.alpha is missing: llama.cpp takes the scale as 1, whatever the rank (8) is
    Fix. `gguftool fix --set adapter.lora.alpha=N`, with `lora_alpha` of adapter_config.json.
    """
    f, it = m.fields.get(ALPHA), read(m, ctx)
    try:
        alpha = taken(m.fields, ALPHA, "f32")
    except Abort as end:
        yield _retyped(m.fields[ALPHA], end.text)
        return
    where, fix = f"field:{ALPHA}", to_choose("take lora_alpha of adapter_config.json", "--set", ALPHA)
    rank = next(iter(it.ranks), None)
    of_rank = f" ({rank:,})" if rank is not None else ""
    unscaled = f"llama.cpp takes the scale as 1, whatever the rank{of_rank} is"
    if f is None and it.pairs:
        yield found(f"{ALPHA} is missing: {unscaled}", where=where, fix=fix)
    if alpha is None:
        return
    if not math.isfinite(alpha):
        text = f"{ALPHA} is {alpha}: every answer with the adapter is garbage"
        yield found(text, where=where, severity=Severity.ERROR, fix=fix)
    elif alpha == 0:
        yield found(f"{ALPHA} is 0, which switches nothing off: {unscaled}", where=where, fix=fix)
    elif alpha < 0:
        text = f"{ALPHA} is {alpha:g}: what was trained is taken away instead of added"
        yield found(text, where=where, fix=fix)
    elif rank and alpha / rank > MOST_SCALE:
        text = f"{ALPHA} is {alpha:g}, with rank {rank:,} a scale of {alpha / rank:g}: no trainer uses one like that"
        yield found(text, where=where, fix=fix)


def _retyped(f: Field, said: str) -> Draft:
    value = f.told if f.type != ARR else None
    fix = None
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        fix = Fix("write it as f32", (Set(ALPHA, float(value), "f32"),), safe=True)
    text = f"{ALPHA} is {f.type_name}, must be f32: llama.cpp aborts"
    return found(text, where=f"field:{ALPHA}", severity=Severity.ERROR, fix=fix, llama_cpp=said)


@rule(Severity.ERROR, role="adapter")
def adapter_invocation(m: Model, ctx: Context) -> Drafts:
    """The invocation tokens of an activated LoRA must be an array of u32 with ids of tokens.

    Why. The server looks for them in the prompt and switches the adapter on behind them. Another type ends the load; an
    id that no token can have is never found, so the adapter never works.
    Evidence. `llama-adapter.cpp:llama_adapter_lora_init_impl`, `server-context.cpp:launch_slot_with_task` (b11434):
    "invalid gguf element type for adapter.alora.invocation_tokens".
    Example. adapter.alora.invocation_tokens is arr[i32], must be arr[u32]
    Fix. Convert the adapter again, or `gguftool fix --set` with the ids.
    """
    f = m.fields.get(INVOCATION)
    if f is None:
        return
    where = f"field:{INVOCATION}"
    if f.type_name != "arr[u32]":
        said = f"invalid gguf {'type' if f.type != ARR else 'element type'} for {INVOCATION}"
        yield found(f"{INVOCATION} is {f.type_name}, must be arr[u32]", where=where, llama_cpp=said)
        return
    beyond = [n for n in read(m, ctx).invocation if n > _ID_MAX]
    if beyond:
        text = f"{INVOCATION} has {beyond[0]:,}, which no token can be: the adapter is never switched on"
        yield found(text, where=where, severity=Severity.WARNING)
