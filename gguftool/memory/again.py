"""Which layers are built, and which of those like one that is: its stretch of the graph comes once more for theirs.

Where all of a graph lies in one buffer, two layers with the same tensors and caches take the same room in the same
order. The last of them is built, so that what all of them read is given back where it has to be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence

from gguftool.brief import named_repr
from gguftool.memory.arena import IN_PLACE_NAMES
from gguftool.memory.graph import Graph, Node

ALIKE, ALIKE_APART = 2, 3
"""So many layers between like neighbours are built, and so many where a part is on the host; others need no more."""


def picked(marks: Sequence[int], *, apart: bool) -> list[int]:
    """Which layers are built, by what marks each.

    Args:
        marks: of each layer, a number for its sign (`Layout.signs`).
        apart: a part of the model is on the host, another on a device.
    """
    most = ALIKE_APART if apart else ALIKE
    seen: Counter[object] = Counter()
    out = []
    for i in range(len(marks)):
        around = tuple(marks[max(0, i - 1) : i + 2])
        seen[around] += 1
        if seen[around] <= most or i == len(marks) - 1:
            out.append(i)
    return out


class Repeats:
    """The layers of a graph that lies in one buffer.

    Args:
        graph: where they go.
        marks: of each layer, in order, what decides about its part of the graph.
    """

    __repr__ = named_repr

    def __init__(self, graph: Graph, marks: Sequence[Hashable]) -> None:
        self.graph, self.marks = graph, marks
        self._last = {mark: i for i, mark in enumerate(marks)}
        self._count = Counter(marks)
        self._built: dict[Hashable, tuple[int, int, Node, Node] | None] = {}

    def layer(self, i: int, x: Node, build: Callable[[Node], Node]) -> Node:
        """What comes out of a layer.

        Args:
            i: its number among those with marks.
            x: what goes in.
            build: builds it.
        """
        mark, graph = self.marks[i], self.graph
        known = self._built.get(mark)
        if known is not None and self._last[mark] != i and _same(x, known[2]):
            graph.expand(x)
            return graph.once_more(*known, x)
        if mark in self._built or self._count[mark] < 3:
            return build(x)
        graph.expand(x)
        first = len(graph.nodes)
        out = graph.expand(build(x))
        whole = _same(x, x) and _closed(graph.nodes[first:], x, out)
        self._built[mark] = (first, len(graph.nodes), x, out) if whole else None
        return out


def _same(x: Node, was: Node) -> bool:
    """Whether the allocator sees no difference between what goes into one layer and another."""
    return (
        x.view_src is None
        and (x.type, x.ne, x.nb, x.grows, x.output) == (was.type, was.ne, was.nb, was.grows, was.output)
        and not (x.buffer or x.input)
    )


def _closed(nodes: Sequence[Node], x: Node, out: Node) -> bool:
    """Whether a stretch touches nothing outside but what it reads and what lies elsewhere.

    Views of what is outside, and what could be written over it, depend on who reads that later.
    """
    inside = set(nodes)
    if out not in inside or out.view_src is not None:
        return False
    for t in nodes:
        if t.view_src is not None and t.view_src not in inside and not t.view_src.buffer:
            return False
        if t.op in IN_PLACE_NAMES:
            for s in t.src:
                if s not in inside and s is not x and not s.buffer and (s.type, s.ne, s.nb) == (t.type, t.ne, t.nb):
                    return False
    return True
