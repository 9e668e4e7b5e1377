"""A memory plan as one screen of text and as JSON."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from gguftool.facts.cachetypes import shown
from gguftool.memory.spread import unseen, words
from gguftool.report.choices import choices_text, speed_lines
from gguftool.report.growth import growth_text
from gguftool.report.text import Style, Styled, bar, count, safe, size, table
from gguftool.shell import gguftool, path_word, shell

if TYPE_CHECKING:
    from gguftool.memory.advice import Advice
    from gguftool.memory.fit import Cell
    from gguftool.memory.plan import MemoryPlan
    from gguftool.memory.speed.estimate import Estimate
    from gguftool.memory.use import DeviceUse, DraftContext
    from gguftool.run.ways import Way

BAR = 16


def plan_text(
    a: Advice,
    name: str,
    command: Sequence[str],
    style: Style,
    speed: Estimate | None = None,
    ways: Sequence[Way] = (),
    not_ready: Sequence[str] = (),
    not_loaded: str = "",
    measuring: str = "",
) -> str:
    """The screen: what it is, what lies where, what contexts fit, how it came about, the command where it can start."""
    fast = "\n".join(speed_lines(speed, style)) if speed is not None else ""
    parts = ["\n".join(_head(a, name, style)), _devices(a, style), growth_text(a.plan, style), fast, _table(a, style)]
    parts = [text for text in (*parts, choices_text(ways, style)) if text]
    parts += [text for text in (_steps(a, style), _smaller(a, style), _notes(a, style, measuring)) if text]
    if not_ready:
        parts.append(f"{style.red('no command')}: {safe('; '.join(not_ready))}")
    else:
        once = ""
        if not_loaded:
            parts.append(
                f"{style.red('does not load')}: {safe(not_loaded)}\nwhat to mend: {gguftool('lint', path_word(name))}"
            )
            once = " once the file is mended"
        parts.append(f"{style.bold('command')}{style.red(once)}\n  {safe(shell(command))}")
    return "\n\n".join(parts)


def _head(a: Advice, name: str, style: Style) -> Iterator[str]:
    plan, hp = a.plan, a.planner.hp
    c, s = plan.cache.context, plan.settings
    trained = f" of {count(c.trained)} trained" if c.trained else ""
    yield (
        f"{style.bold(os.path.basename(name) or name)}   {safe(hp.arch) or 'no architecture'}"
        f" · {size(plan.tensor_bytes)} of weights · context {count(c.requested)}{trained}"
    )
    slots = f"{c.slots} slots" if c.slots > 1 else "1 slot"
    share = "sharing" if c.unified and c.slots > 1 else "of"
    yield (
        f"{slots} {share} {count(c.per_slot)} tokens · cache {shown(s.type_k, s.type_v)}"
        f" · each token costs {_per_token(a.per_token)}"
    )
    for x in plan.cache.caches:
        streams = f" × {x.streams}" if x.streams > 1 else ""
        yield style.dim(
            f"  {x.name} cache: {len(x.layers)} layers, {count(x.cells)} cells{streams}, "
            f"K {size(x.k_bytes)} + V {size(x.v_bytes)}"
        )
    if plan.cache.state:
        yield style.dim(
            f"  state: {len(plan.cache.state)} layers, {size(plan.cache.state_bytes)}, whatever the context"
        )
    for draft in plan.drafts:
        yield style.dim("  " + draft_text(draft))
    yield _verdict(plan, style)


def draft_text(x: DraftContext) -> str:
    """A context that drafts, in one line."""
    what = "draft" if x.what == "draft" else "its own prediction layers"
    caches = ", ".join(
        f"{len(c.layers)} {'layer' if len(c.layers) == 1 else 'layers'} of {count(c.cells)} cells in "
        f"{shown(c.type_k, c.type_v)} {size(c.bytes)}"
        for c in x.cache.caches
    )
    parts = [f"weights {size(x.weights)}"] if x.weights else []
    parts += [f"cache {caches}" if caches else "no cache of its own"]
    parts += [f"state {size(x.state)}"] if x.state else []
    return f"{what}: " + "; ".join([*parts, f"compute about {size(x.compute + x.output)}"])


def _per_token(n: float) -> str:
    if not n:
        return "nothing more: no cache grows with the context"
    return f"{size(n)} of cache" if n == int(n) else f"{n:,.1f} B of cache"


def _verdict(plan: MemoryPlan, style: Style) -> Styled | str:
    if plan.refused:
        return "\n".join(style.red(f"llama.cpp refuses: {safe(why)}") for why in plan.refused)
    if plan.fits is None:
        return f"takes {size(plan.total)}; name --vram and --ram to see whether it fits"
    if plan.fits:
        return style.green(f"fits: {size(plan.total)} in all")
    over = ", ".join(f"{d.name} by {size(d.missing)}" for d in plan.devices if d.missing)
    there = sum(d.memory or 0 for d in plan.devices)
    kept = max((d.reserve for d in plan.devices if d.missing), default=0)
    short = ""
    if plan.total > there:
        short = f"; it takes {size(plan.total)} and there are {size(there)} in all"
    elif kept:
        # Without it "over" is a riddle where the total is below what the device has.
        short = f", {size(kept)} kept free (--reserve)"
    return style.red(f"does not fit: over on {over}{short}")


def _devices(a: Advice, style: Style) -> str:
    plan = a.plan
    columns: list[tuple[str, str, Callable[[DeviceUse], int]]] = [
        ("weights", "exact", lambda d: d.weights),
        ("KV", plan.cache.basis, lambda d: d.kv),
        ("state", plan.cache.basis, lambda d: d.state),
        ("compute", plan.compute_basis, lambda d: d.compute + d.output),
        ("mmproj", "estimated", lambda d: d.projector),
        ("beside", "estimated", lambda d: d.beside),
    ]
    used = [x for x in columns if x[0] in ("weights", "compute") or any(x[2](d) for d in plan.devices)]
    rows: list[list[object]] = []
    for d in plan.devices:
        label = f"{d.name} {d.about}".strip()
        rows.append(
            [label[:28], *(_bytes(get(d)) for _, _, get in used), size(d.total), *_room(d, style)],
        )
    rows.append([style.dim(""), *(style.dim(basis) for _, basis, _ in used)])
    headers = ["device", *(title for title, _, _ in used), "total", "of", "", ""]
    return table(rows, headers, align="l" + "r" * (len(used) + 2) + "ll", style=style)


def _bytes(n: int) -> str:
    return size(n) if n else "–"


def _room(d: DeviceUse, style: Style) -> list[object]:
    if d.memory is None:
        return ["?", "", ""]
    share = d.total / d.memory if d.memory else 1.0
    drawn = bar(share, BAR)
    if d.fits:
        return [size(d.memory), style.green(drawn), f"{size(d.memory - d.total)} free"]
    return [size(d.memory), style.red(drawn), style.red(f"{size(d.missing)} over")]


def _table(a: Advice, style: Style) -> str:
    pairs = [cell.types for cell in a.rows[0]] if a.rows else []
    asked = a.plan.cache.context.requested
    rows: list[list[object]] = [
        [("> " if row[0].context == asked else "  ") + count(row[0].context), *(_cell(x, a.plan, style) for x in row)]
        for row in a.rows
    ]
    largest = dict(a.largest)
    if any(n is not None for n in largest.values()):
        rows.append(["  most", *(_largest(largest.get(pair)) for pair in pairs)])
    headers = ["  context", *(f"{shown(*pair)}  KV / all" for pair in pairs)]
    return table(rows, headers, align="r" * (len(pairs) + 1), style=style)


def _largest(n: int | None) -> str:
    return "" if n is None else f"{count(n)} fit " if n else "none fits "


def _cell(x: Cell, plan: MemoryPlan, style: Style) -> Styled | str:
    if x.refused:
        return style.dim("refused ")
    text = f"{size(x.kv)} / {size(x.total)}"
    if x.fits is None:
        return text
    mark = "✓" if x.fits else "✗"
    return style.green(f"{text} {mark}") if x.fits else style.red(f"{text} {mark}")


def _steps(a: Advice, style: Style) -> str:
    if len(a.fit.steps) < 2:
        return ""
    lines = [style.bold("how it came about")]
    for i, x in enumerate(a.fit.steps, 1):
        line = f"  {i}. {x.what}: {x.result}"
        lines.append(style.dim(line) if not x.kept else Styled(safe(line)))
    return "\n".join(lines)


def _smaller(a: Advice, style: Style) -> str:
    if not a.smaller:
        return ""
    rows = [
        [f"  {x.ftype}", size(x.weights), size(x.total), style.green("fits") if x.fits else style.red("over")]
        for x in a.smaller
    ]
    return table(rows, ["weights as", "weights", "in all", ""], align="lrrl", style=style)


def still_estimated(plan: MemoryPlan) -> list[str]:
    """What nobody measures: contexts that draft, and projectors."""
    drafts = ["the contexts that draft"] if plan.drafts else []
    return [*drafts, *(["the buffers of the projector"] if any(d.projector for d in plan.devices) else [])]


def _notes(a: Advice, style: Style, measuring: str = "") -> str:
    lines = [f"{style.yellow('note:')} {safe(x)}" for x in a.warnings]
    if a.plan.compute_basis == "estimated":
        lines.append(style.dim(f"compute is estimated: {words(a.plan)}"))
        lines += [style.dim(f"  {text}") for text in (unseen(a.plan),) if text]
        if measuring:
            lines.append(style.dim(measuring))
    elif left := still_estimated(a.plan):
        lines.append(style.dim(f"measured is the model's own context; {' and '.join(left)} stay estimated"))
    return "\n".join(lines)
