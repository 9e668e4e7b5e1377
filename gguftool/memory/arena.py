"""What a graph takes of one buffer: ggml's allocator, run over a graph without data (`ggml-alloc.c`, b11434).

Every tensor gets the smallest free block that holds it, takes the place of a parent that nothing else reads where its
operation allows that, and is given back after its last reader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache

from gguftool.facts.data import load
from gguftool.facts.machine.ggml import Tensor, nbytes

IN_PLACE = (
    "FILL SCALE DIAG_MASK_ZERO DIAG_MASK_INF ADD ADD_ID ADD1 SUB MUL DIV SQR SQRT LOG UNARY ROPE ROPE_BACK SILU_BACK "
    "RMS_NORM RMS_NORM_BACK CLAMP SOFT_MAX SOFT_MAX_BACK"
)
"""Operations that may write over what they read (`ggml-alloc.c:ggml_op_can_inplace`)."""
_ENDLESS = 1 << 62


@cache
def in_place() -> frozenset[int]:
    """Numbers of those operations."""
    constants = load("projectors.json")["constants"]
    return frozenset(constants[f"GGML_OP_{n}"] for n in IN_PLACE.split() if f"GGML_OP_{n}" in constants)


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
    def __init__(self, nodes: Sequence[Tensor], outside: set[int], size: Callable[[Tensor], int], blocks: Blocks):
        self.nodes, self.outside, self.size, self.blocks = nodes, outside, size, blocks
        self.at: dict[int, int] = {}
        self.readers: dict[int, int] = {}
        self.views: dict[int, int] = {}

    def run(self) -> int:
        work = [t for t in self.nodes if t.op]
        for t in self.nodes:
            if not t.op:
                self.place(t)
        for t in work:
            if t.view_src is not None:
                self.views[id(t.view_src)] = self.views.get(id(t.view_src), 0) + 1
            for s in _sources(t):
                self.readers[id(s)] = self.readers.get(id(s), 0) + 1
        for t in work:
            for s in _sources(t):
                self.place(s)
            self.place(t)
            for s in _sources(t):
                self.read(s)
        return self.blocks.most

    def place(self, t: Tensor) -> None:
        if id(t) in self.at or id(t) in self.outside or t.view_src is not None:
            return
        if t.op in in_place() and self.over_parent(t):
            return
        self.at[id(t)] = self.blocks.take(self.size(t))

    def over_parent(self, t: Tensor) -> bool:
        for p in _sources(t):
            owner = p if p.view_src is None else p.view_src
            if id(owner) not in self.at or (p.type, p.ne, p.nb) != (t.type, t.ne, t.nb):
                continue
            if self.readers.get(id(p)) != 1 or self.views.get(id(p)):
                continue
            if owner is not p and (self.views.get(id(owner)) != 1 or self.readers.get(id(owner))):
                continue
            offset = self.at.pop(id(owner))
            self.outside.add(id(owner))
            self.at[id(t)] = offset
            spare = _padded(self.size(owner), self.blocks) - _padded(self.size(t), self.blocks)
            if spare > 0:
                self.blocks.give(offset + _padded(self.size(t), self.blocks), spare)
            return True
        return False

    def read(self, s: Tensor) -> None:
        self.readers[id(s)] -= 1
        if self.readers[id(s)] or self.views.get(id(s)):
            return
        owner = s
        if s.view_src is not None:
            owner = s.view_src
            self.views[id(owner)] -= 1
            if self.views[id(owner)] or self.readers.get(id(owner)):
                return
        if id(owner) in self.at:
            self.blocks.give(self.at.pop(id(owner)), self.size(owner))
            self.outside.add(id(owner))


def _padded(n: int, blocks: Blocks) -> int:
    return -(-n // blocks.alignment) * blocks.alignment


def _sources(t: Tensor) -> list[Tensor]:
    return [s for s in t.src if s is not None]


def arena(nodes: Sequence[Tensor], outside: Collection[int], alignment: int = 32) -> int:
    """Bytes of the buffer that a graph needs.

    Args:
        nodes: everything in the graph, in the order in which it was put there, inputs too.
        outside: ``id`` of tensors that lie elsewhere, the weights.
        alignment: of the buffer.
    """
    return _Arena(nodes, set(outside), nbytes, Blocks(alignment)).run()
