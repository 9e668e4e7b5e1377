"""What a reader of a memory plan should know: assumptions he may argue with, and warnings."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.brief import short_repr
from gguftool.facts import llama_cpp
from gguftool.facts.arch import Hparams
from gguftool.facts.cachetypes import flash_attn_used, shown, slow_pairs
from gguftool.facts.layers import nextn_layers, windowed
from gguftool.facts.machine.rows import position_table
from gguftool.memory.builds import remark
from gguftool.memory.latent import price, unsplit
from gguftool.memory.plan import MemoryPlan, Planner
from gguftool.memory.settings import SERVER_SLOTS
from gguftool.memory.spread import unseen, words
from gguftool.quantity import human
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something the numbers rest on; ``basis``: ``exact``, ``estimated``, ``unknown``, ``chosen`` or ``detected``."""

    name: str
    value: str
    basis: str
    why: str

    __repr__ = short_repr


def assumptions(planner: Planner, plan: MemoryPlan) -> list[Assumption]:
    """What the numbers of a plan rest on, most important first."""
    c, s, p, m = plan.cache.context, plan.settings, plan.placement, planner.machine
    out = [
        Assumption(
            "kv",
            plan.cache.basis,
            plan.cache.basis,
            plan.cache.doubt or f"equals what {llama_cpp()} allocates; checked with 3448 allocations",
        ),
        Assumption(
            "slots",
            f"{c.slots}, {'one shared context' if c.unified else 'each its own context'}",
            "chosen",
            f"llama-server opens {SERVER_SLOTS} that share the context unless -np is given",
        ),
        Assumption("weights", "exact", "exact", "every tensor once, padded as its buffer pads"),
        Assumption(
            "compute", plan.compute_basis, plan.compute_basis, "; ".join(filter(None, (words(plan), unseen(plan))))
        ),
        Assumption(
            "reserve",
            human(m.reserve if m.devices else m.ram_reserve),
            "chosen",
            "left free on each device for the driver, the desktop and what the estimate misses",
        ),
        Assumption("ubatch", str(c.ubatch), "chosen", "tokens of one graph; compute buffers grow with it"),
        Assumption(
            "flash_attn",
            "on" if flash_attn_used(planner.hp, s.type_v, s.flash_attn) else "off",
            "chosen",
            "without it every head's scores for every cell lie in the compute buffer",
        ),
    ]
    if not any(d.backend.pinned_host for d in m.devices) and m.repack != "none":
        out.append(
            Assumption(
                "repack",
                human(plan.placed.buffers.get("CPU_REPACK", 0)),
                "estimated" if m.devices else "exact",
                f"the host ({m.repack}) keeps these weights rearranged; with mmap the file's own pages come on top"
                " while they are cached",
            )
        )
    if any(not d.rules.known for d in m.devices):
        names = ", ".join(d.name for d in m.devices if not d.rules.known)
        out.append(Assumption("rounding", names, "estimated", "this backend's alignment of tensors is a guess"))
    if not p.kv_offload:
        out.append(Assumption("kv_offload", "off", "chosen", "caches stay on the host"))
    return out


def warnings(planner: Planner, plan: MemoryPlan) -> list[str]:
    """What may surprise somebody who launches this plan, most important first."""
    doubt = [plan.cache.doubt] if plan.cache.doubt else []
    return [
        *doubt,
        *([text] if plan.compute_basis == "estimated" and (text := remark(planner.build)) else []),
        *_unsplit(planner, plan),
        *_context(planner.hp, plan),
        *_types(planner, plan),
        *_state(plan),
        *_placement(planner, plan),
    ]


def _context(hp: Hparams, plan: MemoryPlan) -> Iterator[str]:
    c = plan.cache.context
    if c.trained and c.per_slot > c.trained:
        table = position_table(hp.arch) is not None
        way = "; `gguftool fix MODEL --ctx N` or YaRN raises it" if hp.ropes else ""
        yield (
            f"each slot stops at the trained {c.trained:,} tokens: memory for {c.per_slot:,} is allocated all the same"
            + ("; its positions are a table, which cannot be made longer" if table else way)
        )
    if not c.unified and c.slots > 1:
        yield f"{c.slots} slots share {c.total:,} tokens: {c.per_slot:,} each; for one conversation use one slot"
    if c.requested % 256 or c.total != c.requested:
        yield f"llama.cpp makes {c.total:,} tokens of the {c.requested:,} asked for"
    if windowed(hp) and plan.settings.swa_full:
        yield "--swa-full keeps whole contexts in layers that only look at a window"
    if hp.facts is not None and hp.facts.memory == "dsv4" and c.slots > 1:
        yield "this architecture keeps a whole cache for every slot, shared or not: use one slot"


def _unsplit(planner: Planner, plan: MemoryPlan) -> Iterator[str]:
    tokens = plan.cache.context.total
    cost = price(planner.hp, tokens) if unsplit(planner.hp, (t.name for t in planner.tensors)) else None
    if cost is not None and cost[1]:
        yield (
            f"the file is of before April 2025 and keeps whole heads: one made since takes {human(cost[1])} of f16"
            f" cache for {tokens:,} tokens instead of {human(cost[0])}"
        )


def _types(planner: Planner, plan: MemoryPlan) -> Iterator[str]:
    s, kinds = plan.settings, {d.kind for d in planner.machine.devices}
    attention = flash_attn_used(planner.hp, s.type_v, s.flash_attn)
    if kinds & {"cuda", "rocm"} and plan.cache.caches and attention:
        yield from slow_pairs(s.type_k, s.type_v)
    low = {"q4_0", "q4_1", "iq4_nl"} & {s.type_k, s.type_v}
    if low and plan.cache.caches:
        yield (
            f"{shown(s.type_k, s.type_v)} may cost quality, above all in tool calls and long answers; measure it with"
            " `gguftool kv-test`"
        )
    if (s.type_k, s.type_v) != ("f16", "f16") and not plan.cache.caches:
        yield "cache types change nothing: this model keeps no KV cache"


def _state(plan: MemoryPlan) -> Iterator[str]:
    if plan.state and plan.cache.caches:
        yield f"{human(plan.state)} of recurrent state depend on slots only, not on context or cache type"


def _placement(planner: Planner, plan: MemoryPlan) -> Iterator[str]:
    hp = planner.hp
    if hp.arch == "gemma4-assistant":
        yield "a draft model: its cache is that of the model it assists"
    if plan.skipped_bytes:
        yield (
            f"{human(plan.skipped_bytes)} of next-token prediction layers ({nextn_layers(hp)}) are not loaded without"
            " speculative decoding"
        )
    if plan.placed.copies and planner.weights.tied:
        yield f"the tied output matrix exists twice: {human(planner.weights.tied_copy.data)} more"
    if any(d.kind == "rpc" for d in planner.machine.devices):
        yield "RPC hosts get their weights over the network at every start"
