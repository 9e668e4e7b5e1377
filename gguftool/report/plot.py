"""Memory against context as a picture (extra ``plot``: matplotlib)."""

from __future__ import annotations

import html
import io
import os
from typing import Any

from gguftool.errors import ToolFailed, UsageError
from gguftool.facts.cachetypes import refusals, shown
from gguftool.files.small import check_mine, write_file
from gguftool.memory.advice import Advice
from gguftool.memory.fit import PAIRS
from gguftool.memory.plan import MemoryPlan
from gguftool.records import replace
from gguftool.report.text import size

GIB = 1 << 30
POINTS = 24
_WHAT = "picture of gguftool"
_BEGINS = (b"<?xml", b"<svg", b"<!doctype html>", b"\x89PNG", b"%PDF")
COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7")
"""Distinguishable also with impaired colour vision (Okabe and Ito)."""
MARK = b"gguftool"
"""In every picture of ours."""
FORMATS = (".svg", ".png", ".pdf", ".html")


def draw(a: Advice, name: str, path: str) -> None:
    """Draw memory against context, one line a pair of cache types, with the memory there is as a level.

    Args:
        a: the plan.
        name: the model's, for the title.
        path: where to write; the suffix says the format.

    Raises:
        UsageError: a suffix that is no picture.
        ToolFailed: matplotlib is not installed.
        Refused, NoRoom: see `save`.
    """
    if not path.lower().endswith(FORMATS):
        raise UsageError(f"{path}: a picture ends in {', '.join(FORMATS)}")
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise ToolFailed("drawing needs matplotlib, which is not installed", "pip install 'gguftool[plot]'") from None
    figure, axes = pyplot.subplots(figsize=(9, 5.5))
    where, level = _watched(a)
    xs = _contexts(a)
    own = (a.plan.settings.type_k, a.plan.settings.type_v)
    pairs = [x for x in dict.fromkeys((*PAIRS, own)) if not refusals(a.planner.hp, *x, a.plan.settings.flash_attn)]
    for pair, color in zip(pairs, COLORS, strict=False):
        ys = [_on(_at(a, ctx, pair), where) / GIB for ctx in xs]
        axes.plot(xs, ys, label=f"cache {shown(*pair)}", color=color, linewidth=2)
    weights = next(d.weights for d in a.plan.devices if d.name == where)
    axes.axhline(weights / GIB, color="#999999", linewidth=1, linestyle=":", label="weights alone")
    if level is not None:
        axes.axhline(
            level / GIB, color="#d55e00", linewidth=1.5, linestyle="--", label=f"what {where} has, less reserve"
        )
    asked = a.plan.cache.context.requested
    planned = _on(a.plan, where) / GIB
    axes.plot(
        [asked],
        [planned],
        "o",
        color="black",
        markersize=7,
        clip_on=False,
        zorder=5,
        label=f"planned: {asked:,} tokens",
    )
    axes.set_xlabel("context, tokens of all slots together")
    axes.set_ylabel(f"memory on {where}, GiB" if where else "memory, GiB")
    axes.set_title(f"{os.path.basename(name)}: {size(a.plan.tensor_bytes)} of weights, {_placed(a.plan)}", fontsize=11)
    axes.set_xlim(0, xs[-1])
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x / 1024:.0f}k" if x else "0")
    axes.set_xticks(_ticks(xs[-1]))
    axes.grid(alpha=0.25)
    axes.legend(loc="best", frameon=True, fontsize=9)
    figure.tight_layout()
    try:
        save(path, _rendered(figure, name, path))
    finally:
        pyplot.close(figure)


def save(path: str, picture: str | bytes) -> None:
    """Write a picture; an older one of ours is replaced, nothing else.

    Raises:
        Refused: something else has that name.
        NoRoom, MissingFile: it cannot be written.
    """
    write_file(path, picture, mine=is_ours, what=_WHAT)


def check_name(path: str) -> None:
    """Before an hour of work: whether `save` may write there.

    Raises:
        Refused, MissingFile: it may not.
    """
    check_mine(path, is_ours, _WHAT)


def check_svg(path: str) -> None:
    """The same for pictures that are always an SVG.

    Raises:
        UsageError: the name says something else.
        Refused, MissingFile: see `check_name`.
    """
    if not path.lower().endswith(".svg"):
        raise UsageError(f"{path}: the picture is an SVG", "name it FILE.svg")
    check_name(path)


def is_ours(begin: bytes) -> bool:
    """Whether a file is a picture that gguftool has drawn, by its first MiB; or empty."""
    return not begin or (begin.startswith(_BEGINS) and MARK in begin)


def _rendered(figure: Any, name: str, path: str) -> bytes:
    """The picture in the format of the suffix, with our name in it."""
    suffix = os.path.splitext(path)[1][1:].lower()
    kind = "svg" if suffix == "html" else suffix
    out = io.BytesIO()
    figure.savefig(out, format=kind, dpi=150, metadata={"Creator": MARK.decode()})
    picture = out.getvalue()
    if suffix == "html":
        title = html.escape(os.path.basename(name))
        head = "<!doctype html>\n<meta charset=utf-8>\n<meta name=generator content=gguftool>\n"
        head += f"<title>{title}</title>\n"
        picture = head.encode() + picture[picture.index(b"<svg") :]
    return picture


def _watched(a: Advice) -> tuple[str, int | None]:
    """The device the picture is about, the first one or else the host, and the bytes it has for us."""
    d = a.plan.devices[0]
    return d.name, None if d.memory is None else max(0, d.memory - d.reserve)


def _contexts(a: Advice) -> list[int]:
    c = a.plan.cache.context
    top = max(c.trained, c.requested)
    return sorted({max(256, top * i // POINTS // 256 * 256) for i in range(POINTS + 1)} | {c.requested})


def _ticks(top: int) -> list[int]:
    step = 1024
    while top / step > 9:
        step *= 2
    return list(range(0, top + 1, step))


def _at(a: Advice, ctx: int, pair: tuple[str, str]) -> MemoryPlan:
    return a.planner.plan(replace(a.plan.settings.with_types(pair), ctx=ctx), a.plan.placement)


def _on(plan: MemoryPlan, where: str) -> int:
    return next(d.total for d in plan.devices if d.name == where)


def _placed(plan: MemoryPlan) -> str:
    slots = plan.cache.context.slots
    parts = [f"{slots} slot{'s' if slots > 1 else ''}", f"-ub {plan.cache.context.ubatch}"]
    if plan.placement.gpu_layers is not None and len(plan.devices) > 1:
        parts.append(f"-ngl {plan.placement.gpu_layers} of {len(plan.placed.layer_device)}")
    if plan.placement.cpu_moe and len(plan.devices) > 1:
        parts.append(f"-ncmoe {plan.placement.cpu_moe}")
    return ", ".join(parts)
