"""How far the estimate of compute buffers was off where a real library could be asked, by class of plan.

`gguftool/facts/data/compute_errors.json`, written by `scripts/compute_errors.py`.
"""

from __future__ import annotations

from gguftool.facts.data import load
from gguftool.memory.builds import formula
from gguftool.memory.devices import HOST
from gguftool.memory.plan import MemoryPlan

SMALL = 512
"""Models narrower than this are nobody's: fractions of a MiB decide there."""


def class_of(plan: MemoryPlan) -> str:
    """Where the layers are, one slot or several, with a recurrent state or without, and how the figure was got."""
    devices = [d for d in plan.devices if d.name != HOST]
    apart = not plan.placement.kv_offload or plan.placed.experts_on_host or HOST in plan.placed.layer_device
    where = "host" if not devices else "split" if apart else "one device" if len(devices) == 1 else "devices"
    slots = "one slot" if plan.cache.context.slots == 1 else "several slots"
    state = ", state" if plan.cache.state else ""
    small = ", small" if plan.terms.row < SMALL * 4 * plan.cache.context.ubatch else ""
    return f"{where}, {slots}{state}{small}" + ("" if plan.laid_out else ", by formula")


REORDERS = frozenset({"vulkan", "metal", "hexagon"})
"""Backends that compute a graph in another order than llama.cpp wrote it down (`graph_optimize`)."""
REORDERED = (-33.0, 8.0)
"""Per cent between which estimates lay on a real device of that kind (Vulkan on llvmpipe, b10434, 26 plans)."""


UNMEASURED = frozenset({"cuda", "rocm", "sycl", "musa"})
"""Backends that no plan was measured with: devices stood for them that keep the order and fuse nothing."""
UNSEEN = "no real GPU of that kind was measured: its fused operations of experts may keep their inputs for longer"


def reorders(plan: MemoryPlan) -> bool:
    """Whether a device of the plan may change the order of its graph, and so what is held at once."""
    return any(d.kind in REORDERS and d.compute for d in plan.devices)


def spread(plan: MemoryPlan) -> tuple[float, float] | None:
    """Per cent between which nine of ten estimates of this class lay; None: the class was not measured."""
    row = load("compute_errors.json")["classes"].get(class_of(plan))
    if row is None:
        return None
    low, high = row["low"], row["high"]
    return (min(low, REORDERED[0]), max(high, REORDERED[1])) if reorders(plan) else (low, high)


def over(plan: MemoryPlan) -> float | None:
    """The share by which a real buffer was larger than its estimate at most; None: nothing like it was measured."""
    if plan.compute_basis == "measured":
        return 0.0
    row = load("compute_errors.json")["classes"].get(class_of(plan))
    if row is None:
        return None
    lows = [row["low"], row["least"], formula(plan.build).low or 0, REORDERED[0] if reorders(plan) else 0]
    return float(round(1 / (1 + max(-90, min(lows)) / 100) - 1, 3))


def unseen(plan: MemoryPlan) -> str:
    """What the range leaves out; "": nothing."""
    return UNSEEN if any(d.compute and d.kind in UNMEASURED for d in plan.devices) else ""


def words(plan: MemoryPlan) -> str:
    """The error of a plan's estimate, for people."""
    found = spread(plan)
    if found is None:
        return "nothing of this class was measured"
    where = f"{class_of(plan)}; its backend reorders the graph" if reorders(plan) else class_of(plan)
    row = load("compute_errors.json")["classes"][class_of(plan)]
    if (own := formula(plan.build)).low is not None:
        return f"{own.low:+d} … {own.high:+d} % of what builds before b{own.before} reserved ({where})"
    least, most = min(row["least"], found[0]), max(row["most"], found[1])
    if not (least or most or any(found)):
        return f"met to the byte in all {row['buffers']} measured buffers of this class ({where})"
    ten = "met to the byte" if not any(found) else f"{found[0]:+.0f} … {found[1]:+.0f} %"
    return f"{ten} in nine of ten measured plans of this class, {least:+.0f} … {most:+.0f} % in all ({where})"
