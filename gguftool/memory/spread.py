"""How far the estimate of compute buffers was off where a real library could be asked, by class of plan.

`gguftool/facts/data/compute_errors.json`, written by `scripts/compute_errors.py`.
"""

from __future__ import annotations

from gguftool.facts.data import load
from gguftool.memory.devices import HOST
from gguftool.memory.plan import MemoryPlan


def class_of(plan: MemoryPlan) -> str:
    """Where the layers are, one slot or several, with a recurrent state or without."""
    devices = [d for d in plan.devices if d.name != HOST]
    apart = not plan.placement.kv_offload or plan.placed.experts_on_host or HOST in plan.placed.layer_device
    where = "host" if not devices else "split" if apart else "one device" if len(devices) == 1 else "devices"
    slots = "one slot" if plan.cache.context.slots == 1 else "several slots"
    return f"{where}, {slots}" + (", state" if plan.cache.state else "")


def spread(plan: MemoryPlan) -> tuple[int, int] | None:
    """Per cent between which nine of ten estimates of this class lay; None: the class was not measured."""
    row = load("compute_errors.json")["classes"].get(class_of(plan))
    return (row["low"], row["high"]) if row else None


def words(plan: MemoryPlan) -> str:
    """The error of a plan's estimate, for people."""
    found = spread(plan)
    if found is None:
        return "nothing of this class was measured"
    return f"{found[0]:+d} … {found[1]:+d} % in nine of ten measured plans of this class ({class_of(plan)})"
