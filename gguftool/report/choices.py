"""The ways that fit, side by side, and the estimate of speed, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gguftool.facts.cachetypes import shown
from gguftool.memory.speed.estimate import PROMPT, Estimate, Speed
from gguftool.report.text import Style, Styled, count, safe, size, table
from gguftool.shell import shell

if TYPE_CHECKING:
    from gguftool.run.ways import Way

MEASURED = (
    "  KL divergence from f16, measured on two small models: q8_0 0.004–0.008, q4_0 0.06–0.14; of this one: kv-test"
)
"""`docs/launch.md`, "What a cache type costs"."""


def speed_lines(e: Estimate, style: Style) -> Iterator[str]:
    """What speed a plan can have, and what that rests on."""
    if e.unknown:
        reads = " and ".join(f"{size(n)} on {name}" for name, n in e.reads if n)
        hint = f"--bandwidth {e.unknown[0]}=GB/s, or its name, tells how fast"
        yield style.dim(f"speed: a token reads {reads}; {hint}")
        return
    for label, s in (
        ("writes", e.start), (f"at {count(e.depth)} tokens", e.full), (f"reads a prompt of {PROMPT}", e.prompt),
    ):  # fmt: skip
        if s is not None:
            yield f"speed: {label}: {_range(s)} tokens/s likely, at most {_number(s.most)} ({s.by} of {safe(s.device)})"
    used = {name for name, n in e.reads if n}
    there = ((name, r) for name, r in e.rates.items() if name in used)
    sources = "; ".join(f"{name} {r.bandwidth / 1e9:,.0f} GB/s ({r.source.partition(':')[0]})" for name, r in there)
    if sources:
        yield style.dim(f"  {safe(sources)}")


def _number(x: float) -> str:
    return f"{x:,.0f}" if x >= 10 else f"{x:.1f}"


def _range(s: Speed) -> str:
    return f"{_number(s.low)}–{_number(s.high)}"


def choices_text(ways: Sequence[Way], style: Style) -> str:
    """The ways side by side, then the command of each; "" when there are none."""
    if not ways:
        return ""
    rows: list[list[object]] = []
    for i, w in enumerate(ways, 1):
        x, s = w.choice, w.choice.plan.settings
        cache = shown(s.type_k, s.type_v) if x.plan.cache.caches else "–"
        speed = _range(w.speed.start) if w.speed.start else "?"
        weights = safe(x.ftype) or "as they are"
        rows.append(
            [
                f"{i}. {x.keeps}",
                count(x.plan.cache.context.requested),
                cache,
                weights,
                x.on_host or "–",
                size(x.devices),
                size(max(0, x.asked - x.devices)),
                speed,
                x.quality or "–",
            ]
        )
    headers = [
        "what it keeps",
        "context",
        "cache",
        "weights",
        "on the host",
        "takes",
        "saves",
        "tokens/s",
        "the cache costs",
    ]
    lines = [style.bold("ways that fit"), table(rows, headers, align="lrlllrrrl", style=style)]
    if any(w.choice.plan.cache.caches for w in ways):
        lines.append(style.dim(MEASURED))
    lines += [Styled(safe(f"  {i}. {_line(w)}")) for i, w in enumerate(ways, 1)]
    return "\n".join(lines)


def _line(w: Way) -> str:
    return " && ".join(shell(words) for words in w.commands)


def short_lines(ways: Sequence[Way], style: Style) -> Iterator[str]:
    """The same in short: the other ways, and what they keep."""
    for w in ways[1:] if ways and ways[0].choice.keeps.startswith("recommended") else ways:
        speed = f", {_range(w.speed.start)} tokens/s" if w.speed.start else ""
        yield f"{style.dim('or:')} {w.choice.keeps}{speed}: {safe(_line(w))}"
