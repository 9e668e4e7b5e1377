"""What the log of a launch has to show, told from the plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gguftool.facts.cachetypes import flash_attn_said
from gguftool.memory.kv import Cache
from gguftool.memory.plan import MemoryPlan
from gguftool.memory.spread import over
from gguftool.memory.use import PROJECTOR, DeviceUse, Side
from gguftool.model import Model
from gguftool.run.args import quiet
from gguftool.run.beside import media
from gguftool.run.buffers import ExpectedCompute
from gguftool.run.features import features, template
from gguftool.run.options.extra import changes_rope
from gguftool.run.proof import Expected, ExpectedCache
from gguftool.run.speculative import asked
from gguftool.run.wishes import Wishes


def expectations(model: Model, plan: MemoryPlan, said: Wishes, sides: Sequence[Side] = ()) -> Expected:
    """What the log of this launch has to show."""
    named: dict[str, Any] = {"media": media(model, said), "features": features(said), "template": template(model, said)}
    c, s, hp = plan.cache.context, plan.settings, model.arch
    if quiet(said):
        # The endpoints are left to ask, and whether it drafts.
        usable = None if changes_rope(said.extra) else c.usable
        return Expected(slots=c.slots, slot_context=usable, **named)
    same = not changes_rope(said.extra)
    ropes = hp.ropes and same
    usable = min(c.usable, said.slot_ctx) if said.slot_ctx else c.usable
    sizes = [t.nbytes for t in model.tensors.values()]
    # Sizes that are a guess must not be held against a server.
    known = not plan.cache.doubt
    return Expected(
        architecture=model.architecture or None,
        tensors=None if model.missing_shards else len(sizes),
        weights_bytes=None if None in sizes or model.missing_shards else sum(n for n in sizes if n is not None),
        context=c.total,
        slot_context=usable if same else None,
        slots=c.slots,
        unified=c.unified,
        type_k=s.type_k if plan.cache.caches else None,
        type_v=s.type_v if plan.cache.caches else None,
        flash_attn=flash_attn_said(s.type_v, s.flash_attn, hp.arch),
        caches=tuple(_expected_cache(k) for k in plan.cache.caches) if known else (),
        kv_bytes=plan.cache.kv_bytes if known else None,
        state_bytes=plan.cache.state_bytes if known else None,
        compute=_buffers(plan.devices) if known else (),
        compute_over=over(plan),
        rope_freq_base=hp.rope_freq_base if ropes else None,
        rope_freq_scale=hp.rope_freq_scale if ropes else None,
        devices=tuple(d.name for d in plan.devices if d.kind not in ("cpu", "rpc") and d.weights),
        rpc=tuple(d.about for d in plan.devices if d.kind == "rpc" and d.name in plan.placed.layer_device),
        kv_devices=tuple(d.name for d in plan.devices if d.kind not in ("cpu", "rpc") and d.kv),
        projector_bytes=sum(x.compute for x in sides if x.what == PROJECTOR) or None,
        drafting=asked(said),
        **named,
        **_draft_expected(plan),
    )


def _draft_expected(plan: MemoryPlan) -> dict[str, Any]:
    """The cache of the context that drafts, where it is known."""
    drafts = [d for d in plan.drafts if d.kv and not d.cache.doubt]
    if not drafts:
        return {}
    first = drafts[0].cache.caches[0]
    return {
        "draft_kv_bytes": drafts[0].kv, "draft_compute": _buffers(drafts[0].devices),
        "draft_compute_over": drafts[0].over, "draft_type_k": first.type_k, "draft_type_v": first.type_v,
    }  # fmt: skip


def _buffers(devices: Sequence[DeviceUse]) -> tuple[ExpectedCompute, ...]:
    return tuple(ExpectedCompute(d.name, d.compute) for d in devices)


def _expected_cache(c: Cache) -> ExpectedCache:
    return ExpectedCache(c.name, c.cells, len(c.layers), c.streams, c.bytes, c.k_bytes, c.v_bytes)
