"""What a graph takes of its buffers: ggml's allocator, run over a graph without data (`ggml-alloc.c`, b11434).

Every tensor gets the smallest free block that holds it, takes the place of a parent that nothing else reads where its
operation allows that, and is given back after its last reader. When that is does not depend on how large the tensors
are, so a graph is gone through once, and what it takes and gives back is then added up for any sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol

from gguftool.brief import short_repr
from gguftool.memory.graph import Again
from gguftool.records import dataclass

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


@dataclass(frozen=True, slots=True)
class Course:
    """What a graph takes of its buffers and gives back, in order.

    Attributes:
        owners: the tensors that are given room.
        steps: by buffer: ``n``: room is taken for ``owners[n]``, ``~n``: it is given back.
    """

    owners: tuple[Any, ...]
    steps: Mapping[str, Sequence[int]]

    __repr__ = short_repr


def course(
    leaves: Sequence[Allocated],
    nodes: Sequence[Allocated],
    *,
    outside: Callable[[Any], Any],
    where: Callable[[Any], str],
    kept: Callable[[Any], bool],
    sources: Callable[[Any], Sequence[Any]],
    in_place: Collection[int | str],
    again: Sequence[Again] = (),
) -> Course:
    """In which order a graph over several devices takes room and gives it back.

    Args:
        leaves: what is placed first: inputs, and copies of them.
        nodes: the rest, in order.
        outside: whether a tensor lies elsewhere: weights, caches.
        where: the buffer a tensor goes to.
        kept: whether it is never given back.
        sources: what it is made from.
        in_place: operations that may write over what they read.
        again: stretches of the nodes that come once more, where all goes to one buffer.
    """
    owners: list[Any] = []
    steps: dict[str, list[int]] = {}
    # What has room: its number, and the steps of the buffer where that is. What had room, or needs none, has None.
    at: dict[Any, tuple[int, list[int]] | None] = {}
    readers: dict[Any, int] = {}
    views: dict[Any, int] = {}

    def over_parent(t: Any) -> bool:
        for p in sources(t):
            # A view has no memory of its own to give (`ggml_gallocr_is_own`).
            room = at.get(p)
            if room is None or p.type != t.type or p.ne != t.ne or p.nb != t.nb or kept(p):
                continue
            if readers.get(p) != 1 or views.get(p):
                continue
            # What has the same type, sizes and strides is as large: nothing of the block is left over.
            at[p], at[t] = None, room
            return True
        return False

    def place(t: Any, there: str) -> None:
        if t.view_src is not None or outside(t):
            at[t] = None
            return
        if t.op in in_place and over_parent(t):
            return
        mine = steps.setdefault(there, [])
        at[t] = len(owners), mine
        mine.append(len(owners))
        owners.append(t)

    for t in leaves:
        if t not in at:
            place(t, where(t))
    read = [(t, sources(t)) for t in nodes]
    for t, made_from in read:
        if t.view_src is not None and t.op:
            views[t.view_src] = views.get(t.view_src, 0) + 1
        for s in made_from:
            readers[s] = readers.get(s, 0) + 1
    outer = _read_outside(read, again)
    for more in again:
        for s, n in outer[more.first, more.end].items():
            s = more.x if s is more.was else s
            readers[s] = readers.get(s, 0) + n

    def pass_through(t: Any, made_from: Sequence[Any]) -> None:
        here = where(t)
        for s in made_from:
            if s not in at:
                place(s, here)
        if t not in at:
            place(t, here)
        for s in made_from:
            left = readers[s] = readers[s] - 1
            if left or views.get(s):
                continue
            owner = s
            if s.view_src is not None:
                owner = s.view_src
                views[owner] -= 1
                if views[owner] or readers.get(owner):
                    continue
            room = at.get(owner)
            if room is not None and not kept(owner):
                at[owner] = None
                room[1].append(~room[0])

    known: dict[tuple[int, int], _Stretch] = {}
    waiting = list(again)
    for first, end in pairwise(sorted({0, len(read)}.union(*((x.after, x.first, x.end) for x in again)))):
        while waiting and waiting[0].after == first:
            more = waiting.pop(0)
            room = at[more.x]
            if room is None:
                raise ValueError("what a stretch reads has no room")
            at[more.x], at[more.out] = None, (known[more.first, more.end].again(room[0], owners), room[1])
            for s, n in outer[more.first, more.end].items():
                readers[more.x if s is more.was else s] -= n
        like = next((x for x in again if (x.first, x.end) == (first, end)), None)
        stretch = _Stretch(at[like.was], len(owners)) if like is not None else None
        for t, made_from in read[first:end]:
            pass_through(t, made_from)
        if like is not None and stretch is not None:
            stretch.ended(at[like.came], len(owners))
            known[first, end] = stretch
    return Course(tuple(owners), steps)


class _Stretch:
    """What a stretch of nodes took and gave back.

    Args:
        room: of what went into it: its number, and the steps of its buffer.
        owners: so many had room before.
    """

    def __init__(self, room: tuple[int, list[int]] | None, owners: int) -> None:
        self.into, self.steps = room or (-1, [])
        self.begun, self.first = len(self.steps), owners

    def ended(self, room: tuple[int, list[int]] | None, owners: int) -> None:
        """It is passed through: the room of what came out, and how many owners there are now."""
        self.out, _ = room or (-1, [])
        self.took, self.last = self.steps[self.begun :], owners

    def again(self, into: int, owners: list[Any]) -> int:
        """Take and give back the same once more; returns the number of what comes out."""
        further = len(owners) - self.first
        owners += owners[self.first : self.last]

        def now(n: int) -> int:
            return n + further if self.first <= n < self.last else into if n == self.into else n

        self.steps += [now(n) if n >= 0 else ~now(~n) for n in self.took]
        return now(self.out)


def _read_outside(
    read: Sequence[tuple[Any, Sequence[Any]]], again: Sequence[Again]
) -> dict[tuple[int, int], Counter[Any]]:
    """How often each stretch that comes once more reads what is not made in it."""
    outer = {}
    for first, end in {(x.first, x.end) for x in again}:
        inside = {t for t, _ in read[first:end]}
        outer[first, end] = Counter(s for _, made_from in read[first:end] for s in made_from if s not in inside)
    return outer


def most(steps: Sequence[int], sizes: Sequence[int], alignment: int) -> int:
    """Bytes of one buffer (`ggml_dyn_tallocr`).

    Args:
        steps: what is taken of it and given back.
        sizes: bytes of what is given room, by number.
        alignment: of the buffer.
    """
    # Free blocks in order, where each begins and how large it is; the last one has no end.
    begins, rooms = [0], [_ENDLESS]
    padded = [-(-n // alignment) * alignment for n in sizes]
    starts = [0] * len(padded)
    top = 0
    for n in steps:
        if n >= 0:
            size = padded[n]
            # The smallest block that holds it, of equal ones the last; the endless one only when no other does.
            at, least = -1, _ENDLESS
            for i, room in enumerate(rooms):
                if size <= room <= least:
                    at, least = i, room
            starts[n] = start = begins[at]
            if least == size:
                del begins[at], rooms[at]
            else:
                begins[at] += size
                rooms[at] = least - size
            if start + size > top:
                top = start + size
            continue
        start, size = starts[~n], padded[~n]
        end = start + size
        for i, begin in enumerate(begins):
            # It grows together with those beside it.
            if begin + rooms[i] == start:
                rooms[i] += size
                if i + 1 < len(begins) and begin + rooms[i] == begins[i + 1]:
                    rooms[i] += rooms.pop(i + 1)
                    del begins[i + 1]
                break
            if end == begin:
                begins[i] = start
                rooms[i] += size
                break
            if start < begin:
                begins.insert(i, start)
                rooms.insert(i, size)
                break
    return top
