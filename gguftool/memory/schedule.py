"""Which device computes which part of a graph, what is copied between them, and what each must hold at once.

The scheduler of ggml (`ggml-backend.cpp:ggml_backend_sched_split_graph`, b11434): work goes to where its matrices are;
what has none follows its neighbours, accelerators before the host; where work changes the device, or a matrix of the
host is borrowed, a part ends, and what the next one reads is copied over at its start. A pipeline keeps such copies
several times, and they are never given back.
"""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.brief import named_repr
from gguftool.memory.devices import HOST
from gguftool.memory.graph import VIEWS, Graph, Node

REARRANGED = "CPU_REPACK"
"""Matrices of the host that no device can read."""
LARGE_BATCH = 32
"""Rows from which on a device takes over what the host's matrices are for (`offload_op` of the backends)."""


class Schedule:
    """A graph given to devices.

    Args:
        graph: it is used up: what is read from elsewhere is replaced by its copy.
        devices: names of the accelerators, in order.
        borrows: devices that take over large batches whose matrices are the host's.
        copies: how often what crosses devices exists.
    """

    def __init__(self, graph: Graph, devices: Sequence[str], borrows: Sequence[str], copies: int) -> None:
        self.graph, self.devices, self.borrows, self.copies = graph, devices, borrows, copies
        self.copied: dict[tuple[int, str], list[Node]] = {}
        self.work = [t for t in graph.nodes if t.op not in VIEWS]

    __repr__ = named_repr

    def reads(self, t: Node, device: str) -> bool:
        """Whether a device can read a tensor where it is (`ggml_backend_sched_buffer_supported`)."""
        root = t.root
        held = root.buffer or t.at or root.at
        return held == device or (device == HOST and held == REARRANGED)

    def first(self, t: Node) -> str:
        """Where a tensor belongs by itself; "": anywhere."""
        if t.pin:
            return t.pin
        if t.root.buffer:
            return HOST if t.root.buffer == REARRANGED else t.root.buffer
        if t.input:
            return HOST
        if t.op in ("ROPE", "FLASH_ATTN_EXT"):
            return ""
        for s in t.src:
            if s.weight:
                if s.buffer == HOST and self.borrows and _large(t):
                    return self.borrows[0]
                return HOST if s.buffer == REARRANGED else s.buffer
        return ""

    def assign(self) -> None:
        for t in (*self.graph.leaves, *self.graph.nodes):
            t.at = self.first(t)
        for order in (self.work, self.work[::-1]):
            self.spread(order, devices_only=True)
        for order in (self.work, self.work[::-1]):
            self.spread(order, devices_only=False)
        for t in self.graph.nodes:
            if not t.at and t.view_src is not None:
                t.at = t.view_src.at
            t.at = t.at or (self.devices[0] if self.devices else HOST)
            for s in t.src:
                if not s.at:
                    s.at = t.at if s.view_src is None else s.view_src.at or t.at

    def spread(self, order: Sequence[Node], *, devices_only: bool) -> None:
        here = ""
        for t in order:
            if t.at:
                here = "" if devices_only and t.at == HOST else t.at
            elif here:
                t.at = here

    def parts(self) -> list[tuple[str, list[Node], list[Node]]]:
        """Device, what it reads from elsewhere, and what it computes, part by part."""
        out: list[tuple[str, list[Node], list[Node]]] = []
        here = ""
        reads: list[Node] = []
        nodes: list[Node] = []
        for t in self.graph.nodes:
            if t.op in VIEWS:
                nodes.append(t)
                continue
            where = t.at
            if not here:
                here = where
            lent = bool(reads) and any(s.weight and not self.reads(s, here) for s in t.src)
            if where != here or lent:
                out.append((here, reads, nodes))
                here, reads, nodes = where, [], []
            nodes.append(t)
            for i, s in enumerate(t.src):
                if self.reads(s, here):
                    continue
                key = (id(s), here)
                if key not in self.copied:
                    self.copied[key] = [self.copy(s, here) for _ in range(self.copies)]
                    reads.append(s)
                t.src[i] = self.copied[key][0]
        out.append((here, reads, nodes))
        return out

    def copy(self, s: Node, device: str) -> Node:
        made = Node("", s.type, s.ne, size=s.size)
        made.nb, made.at, made.grows = s.nb, device, s.grows
        made.input = made.output = self.copies > 1
        return made

    def order(self) -> tuple[list[Node], list[Node]]:
        """What is placed first, and all the rest in order."""
        self.assign()
        leaves: list[Node] = []
        nodes: list[Node] = []
        parts = self.parts()
        for device, reads, work in parts:
            for s in reads:
                kept = Node("", s.type, s.ne, (s,), size=0)
                kept.view_src, kept.at = s.root, s.at
                nodes += (kept, self.copied[id(s), device][0])
            nodes += work
        if self.copies > 1:
            for t in self.graph.leaves:
                if t.input:
                    t.output = True
                    leaves += (t, *(self.copy(t, t.at) for _ in range(self.copies - 1)))
            for device, reads, _ in parts:
                for s in reads:
                    leaves += self.copied[id(s), device]
        leaves += self.graph.leaves
        return leaves, nodes


def _large(t: Node) -> bool:
    if t.op == "GET_ROWS":
        return False
    if t.op == "MUL_MAT":
        return t.ne[1] >= LARGE_BATCH
    if t.op == "MUL_MAT_ID":
        return t.ne[2] >= LARGE_BATCH
    return t.ne[1] * t.ne[2] * t.ne[3] >= LARGE_BATCH
