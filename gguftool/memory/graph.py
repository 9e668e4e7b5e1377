"""Graphs without data: what is made from what, how large it is, and in which order it is computed.

Only what ggml's allocator and its scheduler look at is here (`ggml.c`, `ggml_build_forward_expand`, b11434): sizes,
whether a tensor is a view and of what, its sources, and whether it is an input or an output.
"""

from __future__ import annotations

from math import prod

F32, F16, I32, I64 = "f32", "f16", "i32", "i64"
_BYTES = {F32: 4, F16: 2, I32: 4, I64: 8}
VIEWS = frozenset({"VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE"})
"""Operations that do nothing (`ggml_is_view_op`)."""
_ONES = (1, 1, 1, 1)


class Node:
    """A tensor of a graph.

    Attributes:
        op: its operation; "" for weights, caches and inputs.
        type, ne, nb: as ggml's; ``nb`` is "" where the elements lie one after the other.
        size: bytes.
        src: what it is made from.
        view_src: whose memory it lies in; None: its own.
        buffer: the device it already lies on, the host's matrices that it rearranged apart; "": it is to be allocated.
        weight: it is a matrix of the model.
        input, output: filled in before, or kept after, the graph is computed.
        pin: the device it has to be computed on; "": any.
        grows: the cache in proportion to whose cells its size is; "": it has nothing to do with them.
        at: where the scheduler put it.
    """

    __slots__ = (
        "at",
        "buffer",
        "grows",
        "input",
        "nb",
        "ne",
        "op",
        "output",
        "pin",
        "size",
        "src",
        "type",
        "view_src",
        "weight",
    )

    def __init__(self, op: str, kind: str, ne: tuple[int, ...], src: tuple[Node, ...] = (), size: int = -1) -> None:
        self.op, self.type = op, kind
        self.ne = ne if len(ne) == 4 else (*ne, *_ONES[len(ne) :])
        self.nb: object = ""
        self.size = prod(ne) * _BYTES[kind] if size < 0 else size
        self.src = list(src)
        self.view_src: Node | None = None
        self.buffer = self.pin = self.at = self.grows = ""
        self.weight = self.input = self.output = False

    @property
    def root(self) -> Node:
        """The tensor whose memory this one lies in."""
        return self if self.view_src is None else self.view_src


class Again:
    """A stretch of a graph that comes once more.

    Attributes:
        after: so many nodes stand before it.
        first, end: the nodes that it is like.
        was, came: what went into those, and what came out.
        x, out: the same of this one; ``out`` stands for a node that is not built.
    """

    __slots__ = ("after", "came", "end", "first", "out", "was", "x")

    def __init__(self, after: int, first: int, end: int, was: Node, came: Node, x: Node, out: Node) -> None:
        self.after, self.first, self.end = after, first, end
        self.was, self.came, self.x, self.out = was, came, x, out


class Graph:
    """Nodes and leaves in the order in which llama.cpp puts them there; ``again``: what of it is not built anew."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.leaves: list[Node] = []
        self.again: list[Again] = []
        self._seen: set[Node] = set()

    def expand(self, t: Node) -> Node:
        """Put a tensor into the graph, after what it is made from; a layer is put there in many steps, none is deep."""
        seen = self._seen
        if t not in seen:
            seen.add(t)
            for s in t.src:
                if s not in seen:
                    self.expand(s)
            (self.nodes if t.op else self.leaves).append(t)
        return t

    def once_more(self, first: int, end: int, was: Node, came: Node, x: Node) -> Node:
        """Put a stretch of nodes into the graph once more, with another node going in; the result is what comes out."""
        out = Node(came.op, came.type, came.ne, size=came.size)
        out.nb, out.grows, out.output = came.nb, came.grows, came.output
        self._seen.add(out)
        self.again.append(Again(len(self.nodes), first, end, was, came, x, out))
        return out


def given(kind: str, *ne: int, grows: str = "") -> Node:
    """An input."""
    t = Node("", kind, ne)
    t.input, t.grows = True, grows
    return t


def stored(buffer: str, size: int, *ne: int, weight: bool = False, grows: str = "") -> Node:
    """A matrix, cache or state that lies on a device already."""
    t = Node("", F32, ne, size=size)
    t.buffer, t.weight, t.grows = buffer, weight, grows
    return t


def like(op: str, a: Node, *more: Node) -> Node:
    """An operation whose result has the sizes of its first source."""
    t = Node(op, F32, a.ne, (a, *more))
    t.grows = a.grows
    return t


def made(op: str, ne: tuple[int, ...], *src: Node, kind: str = F32, grows: str = "") -> Node:
    """An operation whose result has other sizes."""
    t = Node(op, kind, ne, src)
    t.grows = grows
    return t


def view(a: Node, *ne: int, dense: bool = False, size: int = -1) -> Node:
    """A part of a tensor, or the same cut otherwise; ``dense``: its elements lie one after the other."""
    t = Node("VIEW", a.type, ne, (a,), size=size if size >= 0 else _spanned(a, prod(ne)))
    return _of(a, t, dense=dense)


def reshape(a: Node, *ne: int) -> Node:
    """The same elements with other sizes."""
    return _of(a, Node("RESHAPE", a.type, ne, (a,), size=a.size), dense=True)


def permute(a: Node, *ne: int) -> Node:
    """The same elements in another order."""
    return _of(a, Node("PERMUTE", a.type, ne, (a,), size=a.size), dense=False)


def _of(a: Node, t: Node, *, dense: bool) -> Node:
    # What is taken of a cache is taken of all its cells.
    t.view_src, t.grows = a.root, a.grows
    t.nb = "" if dense and not a.nb else (t.op, t.ne, id(a))
    return t


def _spanned(a: Node, count: int) -> int:
    """Bytes from the first element to the last, where a few are taken of every row (`ggml_nbytes`)."""
    rows = a.ne[1] * a.ne[2] * a.ne[3]
    taken = count // rows if rows and count % rows == 0 else 0
    return (((rows - 1) * a.ne[0] + taken) if taken else count) * _BYTES[a.type]


def written(op: str, into: Node, *src: Node) -> Node:
    """An operation that writes into a tensor that is there."""
    t = Node(op, F32, into.ne, (*src, into), size=into.size)
    t.view_src, t.grows = into.root, into.grows
    t.nb = into.nb or "into"
    return t


def mul_mat(a: Node, b: Node) -> Node:
    """`ggml_mul_mat`."""
    return made("MUL_MAT", (a.ne[1], *b.ne[1:]), a, b)


def mul_mat_id(a: Node, b: Node, ids: Node) -> Node:
    """`ggml_mul_mat_id`."""
    return made("MUL_MAT_ID", (a.ne[1], ids.ne[0], b.ne[2]), a, b, ids)


def get_rows(a: Node, ids: Node) -> Node:
    """`ggml_get_rows`."""
    return made("GET_ROWS", (a.ne[0], *ids.ne[:3]), a, ids)
