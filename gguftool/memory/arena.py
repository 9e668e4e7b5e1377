"""What a graph takes of its buffers: ggml's allocator, run over a graph without data (`ggml-alloc.c`, b11434).

Every tensor gets the smallest free block that holds it, takes the place of a parent that nothing else reads where its
operation allows that, and is given back after its last reader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

from gguftool.facts.data import load
from gguftool.facts.machine.ggml import Tensor, nbytes

IN_PLACE = (
    "FILL SCALE DIAG_MASK_ZERO DIAG_MASK_INF ADD ADD_ID ADD1 SUB MUL DIV SQR SQRT LOG UNARY ROPE ROPE_BACK SILU_BACK "
    "RMS_NORM RMS_NORM_BACK CLAMP SOFT_MAX SOFT_MAX_BACK"
)
"""Operations that may write over what they read (`ggml-alloc.c:ggml_op_can_inplace`)."""
_ENDLESS = 1 << 62


class Allocated(Protocol):
    """What the allocator looks at: `machine.ggml.Tensor`, whose operations are numbers, and `graph.Node`."""

    op: Any
    type: Any
    ne: Any
    nb: Any
    src: Any
    view_src: Any


IN_PLACE_NAMES = frozenset(IN_PLACE.split())


@cache
def in_place() -> frozenset[int]:
    """Numbers of those operations."""
    constants = load("projectors.json")["constants"]
    return frozenset(constants[f"GGML_OP_{n}"] for n in IN_PLACE_NAMES if f"GGML_OP_{n}" in constants)


class Blocks:
    """Free blocks of one buffer, in order (`ggml_dyn_tallocr`)."""

    def __init__(self, alignment: int) -> None:
        self.alignment = alignment
        self.free: list[list[int]] = [[0, _ENDLESS]]
        self.most = 0

    def take(self, size: int) -> int:
        """The offset of a block that holds ``size`` bytes; the last one, which has no end, only when no other does."""
        size = -(-size // self.alignment) * self.alignment
        fitting = [(n, -i) for i, (_, n) in enumerate(self.free[:-1]) if n >= size]
        at = -min(fitting)[1] if fitting else len(self.free) - 1
        block = self.free[at]
        offset = block[0]
        block[0], block[1] = offset + size, block[1] - size
        if not block[1]:
            del self.free[at]
        self.most = max(self.most, offset + size)
        return offset

    def give(self, offset: int, size: int) -> None:
        """Give a block back; it grows together with those beside it."""
        size = -(-size // self.alignment) * self.alignment
        for i, block in enumerate(self.free):
            if block[0] + block[1] == offset:
                block[1] += size
                if i + 1 < len(self.free) and block[0] + block[1] == self.free[i + 1][0]:
                    block[1] += self.free.pop(i + 1)[1]
                return
            if offset + size == block[0]:
                block[0], block[1] = offset, block[1] + size
                if i and self.free[i - 1][0] + self.free[i - 1][1] == offset:
                    self.free[i - 1][1] += self.free.pop(i)[1]
                return
        at = next((i for i, block in enumerate(self.free) if block[0] > offset), len(self.free))
        self.free.insert(at, [offset, size])


class _Arena:
    def __init__(
        self,
        outside: Callable[[Any], bool],
        where: Callable[[Any], str],
        size: Callable[[Any], int],
        kept: Callable[[Any], bool],
        sources: Callable[[Any], Sequence[Any]],
        in_place: Collection[int | str],
        blocks: Mapping[str, Blocks],
    ) -> None:
        self.outside, self.where, self.size, self.kept, self.blocks = outside, where, size, kept, blocks
        self.sources = sources
        self.in_place = in_place
        self.at: dict[int, tuple[Blocks, int]] = {}
        self.done: set[int] = set()
        self.readers: dict[int, int] = {}
        self.views: dict[int, int] = {}

    def run(self, leaves: Sequence[Any], nodes: Sequence[Any]) -> None:
        for t in leaves:
            self.place(t, self.where(t))
        for t in nodes:
            if t.view_src is not None and t.op:
                self.views[id(t.view_src)] = self.views.get(id(t.view_src), 0) + 1
            for s in self.sources(t):
                self.readers[id(s)] = self.readers.get(id(s), 0) + 1
        for t in nodes:
            where = self.where(t)
            for s in self.sources(t):
                self.place(s, where)
            self.place(t, where)
            for s in self.sources(t):
                self.read(s)

    def place(self, t: Any, where: str) -> None:
        if id(t) in self.at or id(t) in self.done or t.view_src is not None or self.outside(t):
            return
        if t.op in self.in_place and self.over_parent(t):
            return
        blocks = self.blocks[where]
        self.at[id(t)] = blocks, blocks.take(self.size(t))

    def over_parent(self, t: Any) -> bool:
        for p in self.sources(t):
            # A view has no memory of its own to give (`ggml_gallocr_is_own`).
            if id(p) not in self.at or (p.type, p.ne, p.nb) != (t.type, t.ne, t.nb) or self.kept(p):
                continue
            if self.readers.get(id(p)) != 1 or self.views.get(id(p)):
                continue
            blocks, offset = self.at.pop(id(p))
            self.done.add(id(p))
            self.at[id(t)] = blocks, offset
            spare = _padded(self.size(p), blocks) - _padded(self.size(t), blocks)
            if spare > 0:
                blocks.give(offset + _padded(self.size(t), blocks), spare)
            return True
        return False

    def read(self, s: Any) -> None:
        left = self.readers[id(s)] = self.readers[id(s)] - 1
        if left or self.views.get(id(s)):
            return
        owner = s
        if s.view_src is not None:
            owner = s.view_src
            self.views[id(owner)] -= 1
            if self.views[id(owner)] or self.readers.get(id(owner)):
                return
        if id(owner) in self.at and not self.kept(owner):
            blocks, offset = self.at.pop(id(owner))
            blocks.give(offset, self.size(owner))
            self.done.add(id(owner))


def _padded(n: int, blocks: Blocks) -> int:
    return -(-n // blocks.alignment) * blocks.alignment


def _sources(t: Allocated) -> list[Any]:
    return [s for s in t.src if s is not None]


def arena(nodes: Sequence[Tensor], outside: Collection[int], alignment: int = 32) -> int:
    """Bytes of the one buffer that a graph needs.

    Args:
        nodes: everything in the graph, in the order in which it was put there, inputs too.
        outside: ``id`` of tensors that lie elsewhere, the weights.
        alignment: of the buffer.
    """
    blocks = {"": Blocks(alignment)}
    it = _Arena(lambda t: id(t) in outside, lambda t: "", nbytes, lambda t: False, _sources, in_place(), blocks)
    it.run([t for t in nodes if not t.op], [t for t in nodes if t.op])
    return blocks[""].most


def arenas(
    leaves: Sequence[Allocated],
    nodes: Sequence[Allocated],
    *,
    outside: Callable[[Any], bool],
    where: Callable[[Any], str],
    size: Callable[[Any], int],
    kept: Callable[[Any], bool],
    sources: Callable[[Any], Sequence[Any]],
    alignments: Mapping[str, int],
) -> dict[str, int]:
    """Bytes of every buffer that a graph over several devices needs.

    Args:
        leaves: what is placed first: inputs, and copies of them.
        nodes: the rest, in order.
        outside: whether a tensor lies elsewhere: weights, caches.
        where: the buffer a tensor goes to.
        size: its bytes.
        kept: whether it is never given back.
        sources: what it is made from.
        alignments: of the buffers, by name.
    """
    blocks = {name: Blocks(n) for name, n in alignments.items()}
    _Arena(outside, where, size, kept, sources, IN_PLACE_NAMES, blocks).run(leaves, nodes)
    return {name: b.most for name, b in blocks.items()}
