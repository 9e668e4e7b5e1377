"""What the compute buffers of a graph must hold at once, for caches of any number of cells.

On one buffer a graph is laid out as it is; over several devices `gguftool.memory.schedule` first says which computes
what, and what is copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

from gguftool.brief import short_repr
from gguftool.memory.arena import IN_PLACE_NAMES, course, most
from gguftool.memory.devices import HOST
from gguftool.memory.graph import Graph
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class Backends:
    """Where a graph may run.

    Attributes:
        devices: names of the accelerators, in order.
        alignments: of their buffers and the host's, by name.
        borrows: devices that take over large batches whose matrices are the host's.
        copies: how often what crosses devices exists.
    """

    devices: tuple[str, ...]
    alignments: Mapping[str, int]
    borrows: tuple[str, ...] = ()
    copies: int = 1

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Reserve:
    """What the devices must hold at once, for caches of any number of cells.

    Attributes:
        steps: by buffer, as in `gguftool.memory.arena.Course`.
        sizes: by number, bytes, or of what grows with a cache bytes a cell.
        grows: by number, the name of that cache; "": none.
        alignments: of the buffers.
    """

    steps: Mapping[str, Sequence[int]]
    sizes: tuple[int, ...]
    grows: tuple[str, ...]
    alignments: Mapping[str, int]

    __repr__ = short_repr

    def bytes(self, cells: Mapping[str, int]) -> dict[str, int]:
        """Bytes of the compute buffer of every device and the host.

        Args:
            cells: of each cache, by name.
        """
        sizes = [n * cells[cache] if cache else n for n, cache in zip(self.sizes, self.grows, strict=True)]
        return {name: most(self.steps.get(name, ()), sizes, n) for name, n in self.alignments.items()}


def reserve(graph: Graph, backends: Backends, cells: Mapping[str, int]) -> Reserve:
    """What every device and the host must hold at once.

    Args:
        graph: it is used up: what is read from elsewhere is replaced by its copy.
        backends: where it runs.
        cells: of each cache the graph was built with, by name.
    """
    leaves, nodes = graph.leaves, graph.nodes
    if backends.devices:
        from gguftool.memory.schedule import Schedule

        leaves, nodes = Schedule(graph, backends.devices, backends.borrows, backends.copies).order()
    else:
        for t in (*leaves, *nodes):
            t.at = HOST
    it = course(
        leaves, nodes, outside=attrgetter("buffer"), where=attrgetter("at"), kept=attrgetter("output"),
        sources=attrgetter("src"), in_place=IN_PLACE_NAMES, again=graph.again,
    )  # fmt: skip
    sizes = tuple(t.size // cells[t.grows] if t.grows else t.size for t in it.owners)
    return Reserve(it.steps, sizes, tuple(t.grows for t in it.owners), backends.alignments)
