"""How far the tensors of two files are apart, as tables by tensor, kind and layer, and as a picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from gguftool.model.compare import DataChange
from gguftool.model.kinds import block
from gguftool.records import dataclass
from gguftool.report.chart import GRAY, Canvas
from gguftool.report.text import Style, count, safe, table

ELSEWHERE = "outside of layers"


@dataclass(frozen=True, slots=True)
class Group:
    """Tensors together.

    Attributes:
        name: what they have in common.
        tensors: how many.
        types: their new types.
        relative: ‖W-Ŵ‖²/‖W‖² over all their weights; None where nothing is known.
        worst: the one with the largest relative error.
    """

    name: str
    tensors: int
    types: tuple[str, ...]
    relative: float | None
    worst: str


def kind_of(name: str) -> str:
    """``ffn_down.weight`` of ``blk.3.ffn_down.weight``."""
    return name.removeprefix(block(name)).lstrip(".") if block(name) else name


def layer_of(name: str) -> str:
    """``blk.3``; `ELSEWHERE` outside of any."""
    return block(name) or ELSEWHERE


def by_kind(changes: Iterable[DataChange]) -> tuple[Group, ...]:
    """Tensors of one name in all layers, the worst kind first."""
    return tuple(sorted(_groups(changes, kind_of), key=lambda g: -(g.relative or 0.0)))


def by_layer(changes: Iterable[DataChange]) -> tuple[Group, ...]:
    """Tensors of each layer, what lies outside of any first."""
    return tuple(sorted(_groups(changes, layer_of), key=lambda g: _order(g.name)))


def _order(layer: str) -> tuple[str, int]:
    """Layers by their number, wherever they are in the file."""
    head, _, number = layer.rpartition(".")
    return (head, int(number)) if head else ("", -1)


def _groups(changes: Iterable[DataChange], name_of: Callable[[str], str]) -> Iterator[Group]:
    found: dict[str, list[DataChange]] = {}
    for c in changes:
        found.setdefault(name_of(c.name), []).append(c)
    for name, rows in found.items():
        known = [c for c in rows if c.relative is not None]
        norm = math.fsum(c.norm for c in known)
        lost = math.fsum((c.relative or 0.0) * c.norm for c in known)
        worst = max(known, key=lambda c: c.relative or 0.0).name if known else ""
        types = tuple(dict.fromkeys(c.new_type for c in rows))
        yield Group(name, len(rows), types, lost / norm if norm else None, worst)


def lines(changes: Sequence[DataChange], style: Style) -> Iterator[str]:
    """Each tensor, then kinds and layers where there are several, then what is much worse than its type."""
    rows = [
        (
            c.name, c.new_type if c.new_type == c.old_type else f"{c.old_type} → {c.new_type}", _number(c.relative),
            _number(c.mean), _number(c.largest), "" if c.cosine is None else f"{c.cosine:.7f}",
            c.why or ("" if c.times is None else f"{c.times:.2f}" + (" !" if c.suspicious else "")),
        )
        for c in changes
    ]  # fmt: skip
    head = ("data differs", "type", "relative error", "mean |Δ|", "largest |Δ|", "cosine", "× own quantiser")
    yield table(rows, head, style=style)
    for title, groups in (("kind", by_kind(changes)), ("layer", by_layer(changes))):
        if 1 < len(groups) < len(changes):
            shown = [(g.name, count(g.tensors), _types(g), _number(g.relative), g.worst) for g in groups]
            yield table(shown, (title, "tensors", "type", "relative error", "worst"), style=style)
    bad = [c for c in changes if c.suspicious]
    if bad:
        worst = max(bad, key=lambda c: c.times or 0.0)
        one = len(bad) == 1
        some = f"{count(len(bad))} tensor{'' if one else 's'} much worse than {'its' if one else 'their'} type"
        yield (
            f"{style.yellow('suspicious:')} {some}: {safe(worst.name)} has {worst.times:.1f} times the error of "
            f"{worst.new_type} made of these weights: quantised twice, made of other weights, or broken"
        )


def _types(g: Group) -> str:
    return ", ".join(g.types[:3]) + (" …" if len(g.types) > 3 else "")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#f0e442", "#000000", GRAY)
"""Distinguishable also with impaired colour vision (Okabe and Ito); the last is for all further kinds."""
FLOOR = 1e-9


def svg(changes: Sequence[DataChange], name: str) -> str:
    """The relative error of each tensor: layers to the right, a colour for each kind; the axis is logarithmic.

    A ring stands round what is much worse than its type.
    """
    drawn = [c for c in changes if c.relative is not None]
    columns = [g.name for g in by_layer(drawn)] or [ELSEWHERE]
    kinds = [g.name for g in by_kind(drawn)]
    values = [max(c.relative or 0.0, FLOOR) for c in drawn] or [FLOOR]
    canvas = Canvas("diff", f"relative error of {name}", "layer", "‖W-Ŵ‖² / ‖W‖²", right=170)
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values) * 1.01))
    canvas.log_axis(low, max(high, low + 1))
    step = max(1, len(columns) // 12)
    for number, column in enumerate(columns):
        if number % step == 0:
            canvas.below(_place(number, len(columns)), "-" if column == ELSEWHERE else column.rpartition(".")[2])
    for c in drawn:
        x = _place(columns.index(layer_of(c.name)), len(columns))
        color = COLORS[min(kinds.index(kind_of(c.name)), len(COLORS) - 1)]
        canvas.point(x, max(c.relative or 0.0, FLOOR), color, title=f"{c.name} {c.new_type} {c.relative:.3g}")
        if c.suspicious:
            canvas.ring(x, max(c.relative or 0.0, FLOOR))
    for number, kind in enumerate(kinds[: len(COLORS)]):
        more = number == len(COLORS) - 1 and len(kinds) > len(COLORS)
        canvas.legend(number, COLORS[number], "others" if more else kind)
    return canvas.done()


def _place(number: int, of: int) -> float:
    """From 0 to 1, with half a step of room at both ends."""
    return (number + 0.5) / of
