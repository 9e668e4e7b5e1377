"""The limit that holds a server of a plan, and settings under which it stays below what there is.

One answer for everything that names a limit: emitted units, containers and pods, and ``launch`` under ``--ram``.
"""

from __future__ import annotations

from gguftool.brief import short_repr
from gguftool.memory.growth import CHECKPOINTS, MIB, PROMPTS
from gguftool.memory.plan import MemoryPlan, Planner
from gguftool.memory.settings import Settings
from gguftool.records import dataclass, replace

SLACK = 64 * MIB
"""Requests in work, memory of threads, what the allocator keeps (measured, docs/memory.md)."""
KEPT_BACK = 32
"""One part in so many of what grows: blocks that are free but not given back."""

ROUND = 64
"""MiB of a step in which a large prompt cache is chosen."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may be bounded: what nobody named."""

    cache_ram: bool = True
    checkpoints: bool = True

    __repr__ = short_repr


def overhead(plan: MemoryPlan) -> int:
    """Bytes of the host beside the buffers: the program itself, and room for what is only estimated."""
    host = plan.devices[-1]
    return plan.program + (host.compute + host.beside) // 4 + SLACK


def with_slack(grown: int) -> int:
    """What growth comes to for the system."""
    return grown + grown // KEPT_BACK


def host_limit(plan: MemoryPlan) -> int:
    """Bytes of host memory under which the server is never killed, with everything that comes after the start."""
    return host_start(plan) + with_slack(plan.grows(plan.devices[-1].name))


def host_start(plan: MemoryPlan) -> int:
    """Bytes of host memory that the server takes before it grows."""
    return plan.devices[-1].total + overhead(plan)


def room(plan: MemoryPlan) -> int | None:
    """Bytes of the host that are left for what grows; None: it is not known how much there is."""
    host = plan.devices[-1]
    if host.memory is None:
        return None
    left = host.memory - max(host.reserve, overhead(plan)) - host.total
    return max(0, left - left // (KEPT_BACK + 1))


def bounded(planner: Planner, plan: MemoryPlan, free: Bounds) -> MemoryPlan:
    """The plan with a prompt cache, and checkpoints, as large as the host has room for.

    Checkpoints are taken first, up to half of the room: without any a model with a state reads every prompt anew.
    """
    left = room(plan)
    host = plan.devices[-1].name
    if left is None or plan.grows(host) <= left:
        return plan
    found = next((g for g in plan.growth if g.what == CHECKPOINTS), None)
    s = plan.settings
    if found is not None and free.checkpoints and found.bytes > left // 2:
        one = found.each * s.slots
        s = replace(s, checkpoints=max(1, min(s.checkpoints, left // 2 // one)))
        plan = _with(planner, plan, s)
    if free.cache_ram and s.cache_ram:
        others = plan.grows(host) - sum(g.bytes for g in plan.growth if g.what == PROMPTS)
        fits = _even(max(0, left - others) // MIB)
        s = replace(s, cache_ram=fits if s.cache_ram < 0 else min(s.cache_ram, fits))
        plan = _with(planner, plan, s)
    return plan


def _even(mib: int) -> int:
    """Of much room a round number: what is free changes from one moment to the next, a command should not."""
    return mib - mib % ROUND if mib > 8 * ROUND else mib


def _with(planner: Planner, plan: MemoryPlan, s: Settings) -> MemoryPlan:
    return planner.plan(s, plan.placement)
