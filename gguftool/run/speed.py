"""How fast a plan can be."""

from __future__ import annotations

from gguftool.memory.plan import MemoryPlan, Planner
from gguftool.memory.speed.estimate import Estimate, estimate
from gguftool.memory.speed.measured import stored
from gguftool.memory.speed.rates import rates
from gguftool.memory.speed.touched import usage
from gguftool.run.deploy import Deployment


def speed(d: Deployment, planner: Planner, plan: MemoryPlan) -> Estimate:
    """How fast a plan can be, on devices as they are named, measured or known.

    Raises:
        UsageError: a bandwidth is named for a device that is not there.
    """
    known = rates(plan.devices, d.wishes.bandwidth, stored())
    return estimate(usage(planner, plan), known, plan.cache.context.usable)
