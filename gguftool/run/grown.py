"""What a deployment says of memory that is taken after the start."""

from __future__ import annotations

from gguftool.memory.devices import HOST
from gguftool.memory.growth import CHECKPOINTS, PROMPTS
from gguftool.memory.limit import room
from gguftool.memory.plan import MemoryPlan
from gguftool.memory.settings import PROMPT_CACHE
from gguftool.quantity import human
from gguftool.run.deploy import Deployment


def growth_notes(d: Deployment, plan: MemoryPlan) -> list[str]:
    """What was bounded so that the host holds what grows after the start, and what it does not hold."""
    s, out = plan.settings, []
    if s.checkpoints != d.settings.checkpoints:
        out.append(
            f"--ctx-checkpoints {s.checkpoints}: the host has no room for {d.settings.checkpoints} a slot"
            " beside the rest"
        )
    if s.cache_ram != d.settings.cache_ram:
        out.append(
            f"--cache-ram {s.cache_ram}: the host has no room for {d.settings.cache_ram} MiB of prompts seen before"
            " beside the rest"
        )
    left = room(plan)
    over = 0 if left is None else plan.grows(HOST) - left
    if over > 0:
        named = " and ".join(g.what for g in plan.growth if g.device == HOST)
        out.append(
            f"{named} may grow to {human(plan.grows(HOST))} of the host, {human(over)} more than there is room for:"
            f" {' and '.join(o for o, g in _BOUNDING if any(x.what == g for x in plan.growth))} bound them"
        )
    prompts = next((g for g in plan.growth if g.what == PROMPTS), None)
    chosen_here = s.cache_ram != PROMPT_CACHE
    if prompts is not None and chosen_here and prompts.bytes < prompts.each:
        out.append(
            f"a slot that is full takes {human(prompts.each)}, more than --cache-ram {s.cache_ram} holds:"
            " so long a prompt is not kept, and read anew"
        )
    return out


_BOUNDING = (("--cache-ram", PROMPTS), ("--ctx-checkpoints", CHECKPOINTS))
