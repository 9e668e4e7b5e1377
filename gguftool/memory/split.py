"""Shares of several devices so that each is filled to the same degree.

llama.cpp splits layers by free memory alone. Layers are not alike, though: the output layer is heavy, layers whose
experts stay on the host are light, caches of window layers are small. As shares in `-ts` layer counts give exactly
those layers to each device.
"""

from __future__ import annotations

from gguftool.memory.plan import MemoryPlan, Planner
from gguftool.memory.settings import Settings
from gguftool.memory.weights import Placement
from gguftool.records import replace

ROUNDS = 24


def balanced(planner: Planner, s: Settings, p: Placement) -> Placement:
    """The placement with shares that leave the fullest device as empty as can be.

    With fewer than two devices, with shares of its own, or where a memory is unknown it comes back as it is.
    """
    devices = planner.machine.devices
    if len(devices) < 2 or p.split or any(d.memory is None for d in devices):
        return p
    plan = planner.plan(s, p)
    counts = _counts(_costs(planner, plan), _budgets(planner, plan))
    return p if counts is None else replace(p, split=tuple(float(n) for n in counts))


def _costs(planner: Planner, plan: MemoryPlan) -> list[int]:
    """Bytes of each layer that goes to a device, the output layer last."""
    p = plan.placement
    count = planner.weights.layer_count
    on_devices = count + 1 if p.gpu_layers is None else min(p.gpu_layers, count + 1)
    weights = planner.weights.layer_bytes(p)
    cache = plan.cache.layer_bytes() if p.kv_offload else {}
    every = [weights[i] + cache.get(i, 0) for i in range(count + 1)]
    return every[count + 1 - on_devices :] if on_devices else []


def _budgets(planner: Planner, plan: MemoryPlan) -> list[int]:
    """Bytes each device has for layers: its memory without the reserve and its compute buffer."""
    uses = plan.devices[:-1]
    # A device without layers has no compute buffer yet, but will have one as large as the smallest.
    least = min((u.compute for u in uses if u.compute), default=0)
    return [max(0, (u.memory or 0) - u.reserve - (u.compute or least) - u.projector - u.beside) for u in uses]


def _counts(costs: list[int], budgets: list[int]) -> list[int] | None:
    """Layers of each device, in order, such that the fullest is as empty as can be; None: nothing to share."""
    if not costs or not any(budgets):
        return None
    low, high = 0.0, max(1.0, 2 * sum(costs) / max(1, min(b for b in budgets if b)))
    best = None
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        counts = _fill(costs, [middle * b for b in budgets])
        if counts is None:
            low = middle
        else:
            high, best = middle, counts
    return best


def _fill(costs: list[int], room: list[float]) -> list[int] | None:
    """Layers in order into devices in order, each taking what it can; None: they do not all go in."""
    counts = [0] * len(room)
    at, used = 0, 0.0
    for cost in costs:
        while at < len(room) and used + cost > room[at]:
            at, used = at + 1, 0.0
        if at == len(room):
            return None
        used += cost
        counts[at] += 1
    return counts
