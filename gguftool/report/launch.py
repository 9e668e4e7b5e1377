"""A launch as it is planned, as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gguftool.facts.cachetypes import shown
from gguftool.regex import regex
from gguftool.report.choices import short_lines, speed_lines
from gguftool.report.growth import grows_line
from gguftool.report.text import Style, count, safe, size
from gguftool.run.args import masked
from gguftool.shell import shell

if TYPE_CHECKING:
    from gguftool.run.launch import LaunchPlan
    from gguftool.run.silent import SilentSetting
    from gguftool.run.wishes import Obstacle

_HIDES = "gguftool-hides-"
_HIDDEN = regex(_HIDES + r"([A-Z0-9_]+)")


def shell_line(argv: Sequence[str]) -> str:
    """A command for a shell, which has to know its secrets from elsewhere: nobody reads them here."""
    line = shell(masked(argv, _placeholder))
    if _HIDES not in line:
        return line
    return _HIDDEN.sub(lambda found: '"${' + found[1] + ':?}"', line)


def _placeholder(variable: str) -> str:
    return f"{_HIDES}{variable or 'SECRET'}"


def plan_lines(plan: LaunchPlan, style: Style) -> Iterator[str]:
    """What the command stands for, a few lines for stderr."""
    m, s, c = plan.memory, plan.memory.settings, plan.memory.cache.context
    slots = f"{c.slots} slots" if c.slots > 1 else "1 slot"
    share = " sharing it" if c.unified and c.slots > 1 else f" of {count(c.per_slot)}" if c.slots > 1 else ""
    yield f"context {count(c.total)} tokens, {slots}{share}; cache {shown(s.type_k, s.type_v)}"
    parts = [("weights", m.weights), ("KV cache", m.kv), ("state", m.state), ("compute, about", m.compute)]
    for d in m.devices:
        if d.total and len(m.devices) > 1:
            parts.append((f"on {d.name}", d.total))
    yield "memory: " + ", ".join(f"{name} {size(n)}" for name, n in parts if n) + f"; in all {size(m.total)}"
    if m.drafts:
        from gguftool.report.plan import draft_text

        yield from map(draft_text, m.drafts)
    yield from grows_line(m)
    if plan.speed is not None:
        yield from speed_lines(plan.speed, style)
    yield from short_lines(plan.ways, style)
    if plan.engine.tool:
        from gguftool.run.target import build_name

        build = build_name(plan.engine.build)
        yield f"engine: {safe(plan.engine.tool.path)} ({build}, {plan.engine.tool.source})"
    elif not plan.engine.build.assumed:
        yield f"engine: the library in {plan.engine.build.commit}"
    for note in plan.notes:
        yield f"{style.dim('note:')} {safe(note)}"


def silent_lines(settings: Iterable[SilentSetting], style: Style) -> Iterator[str]:
    """Settings that nobody typed."""
    for s in settings:
        effect = "no effect: the command line says otherwise" if s.overridden else "llama.cpp applies it silently"
        yield f"{style.yellow('setting:')} {safe(s.source)}: {safe(s.name)} = {safe(s.value)} ({effect})"


def obstacle_lines(obstacles: Iterable[Obstacle], style: Style) -> Iterator[str]:
    """Reasons not to start."""
    for o in obstacles:
        label = style.red("error:") if o.severity == "error" else style.yellow("warning:")
        yield f"{label} {safe(o.message)}" + (f"\n  {style.cyan('try:')} {safe(o.remedy)}" if o.remedy else "")
