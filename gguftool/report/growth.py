"""What a server takes at the start and what it may grow to, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.memory.devices import HOST
from gguftool.memory.limit import host_limit
from gguftool.memory.plan import MemoryPlan
from gguftool.report.text import Style, size, table


def growth_text(plan: MemoryPlan, style: Style) -> str:
    """At the start, what comes to it, and in all; of all devices together."""
    start = plan.total + plan.program
    parts = f"the buffers above, and {size(plan.program)} of the program ({plan.process.basis})"
    rows: list[list[object]] = [["at start", size(start), plan.compute_basis, parts]]
    for g in plan.growth:
        where = "" if g.device == HOST else f" on {g.device}"
        rows.append([f"  + {g.what}{where}", size(g.bytes), g.basis, g.why])
    if plan.growth:
        limit = f"a limit of {size(host_limit(plan))} holds the host"
        rows.append(["may grow to", size(start + plan.grows()), "", limit])
    return table(rows, ["process", "", "", ""], align="lrll", style=style)


def grows_line(plan: MemoryPlan) -> Iterator[str]:
    """One line for a launch; none when nothing grows."""
    if plan.growth:
        parts = ", ".join(f"{g.what} {size(g.bytes)}" for g in plan.growth)
        yield f"after the start it may grow by {size(plan.grows())}: {parts}"


def growth_json(plan: MemoryPlan) -> dict[str, object]:
    """The fields ``growth`` and ``process``."""
    start = plan.total + plan.program
    return {
        "growth": [
            {
                "what": g.what,
                "device": g.device,
                "bytes": g.bytes,
                "basis": g.basis,
                "count": g.count or None,
                "each": g.each or None,
                "why": g.why,
            }
            for g in plan.growth
        ],
        "process": {
            "program": plan.program,
            "program_basis": plan.process.basis,
            "at_start": start,
            "at_most": start + plan.grows(),
            "host_limit": host_limit(plan),
        },
    }
