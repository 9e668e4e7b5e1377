"""The parts of a layer as llama.cpp builds them: norms, attention, feed-forward, experts (`llama-graph.cpp`, b11434).

What a layer has is seen from its tensors. A tensor that no part here uses ends it: such a model's graph is not known.
"""

from __future__ import annotations

from collections.abc import Iterable

from gguftool.brief import short_repr
from gguftool.facts.arch import Hparams
from gguftool.facts.shape import Layer
from gguftool.memory.graph import (
    F16,
    F32,
    Graph,
    Node,
    like,
    made,
    mul_mat,
    permute,
    view,
    written,
)
from gguftool.memory.graph import reshape as reshaped
from gguftool.records import dataclass, field

NO_ROPE = frozenset("bloom mpt gpt2 jais refact starcoder".split())
"""Architectures whose positions are not in Q and K."""


_OF_A_MATRIX = (".weight", ".bias", ".scale")


class NotKnownHere(Exception):
    """The graph of a model is not known; the text names what it has that nothing here uses."""


@dataclass(frozen=True, slots=True)
class CacheOf:
    """One layer's K and V and what goes with their cache.

    Attributes:
        k, v: where they lie; ``v`` is None where it is a part of K.
        k_row, v_row: bytes of one token.
        cells: tokens a stream holds.
        type_k, type_v: cache types.
        k_numbers, v_numbers: of the rows written to.
        mask: who sees whom.
        k_turn, v_turn: matrices that rotate quantised K and V; None: they are not rotated.
    """

    k: Node
    v: Node | None
    k_row: int
    v_row: int
    cells: int
    type_k: str
    type_v: str
    k_numbers: Node
    v_numbers: Node
    mask: Node
    k_turn: Node | None = None
    v_turn: Node | None = None

    __repr__ = short_repr


@dataclass(slots=True)
class Build:
    """A graph under construction.

    Attributes:
        hp: hyperparameters.
        graph: the graph.
        tokens: rows of the batch.
        slots: sequences in it.
        streams: caches side by side.
        flash: FlashAttention is used.
        position: input.
        pin: the device a norm of a layer is kept on; "": none.
        host_attention: the device attention without FlashAttention is kept on; "": any.
        used: names of the layer's tensors that a part has asked for; any other means that its graph is not known.
        stems: the same of matrices, with what is added to them and what scales them.
    """

    hp: Hparams
    graph: Graph
    tokens: int
    slots: int
    streams: int
    flash: bool
    position: Node
    pin: str = ""
    host_attention: str = ""
    used: set[str] = field(default_factory=set)
    stems: set[str] = field(default_factory=set)

    __repr__ = short_repr

    def strange(self, names: Iterable[str]) -> list[str]:
        """Those of a layer's tensors that no part has asked for."""
        return [
            k
            for k in names
            if k not in self.used and not (k.endswith(_OF_A_MATRIX) and k.rpartition(".")[0] in self.stems)
        ]


Tensors = dict[str, Node]


def matrix(b: Build, t: Tensors, stem: str) -> Node | None:
    """A matrix of the layer by its name."""
    b.stems.add(stem)
    return t.get(f"{stem}.weight")


def project(b: Build, t: Tensors, stem: str, x: Node) -> Node:
    """Times a matrix; plus what is added and times what scales it, where the layer has it."""
    w = matrix(b, t, stem)
    if w is None:
        raise NotKnownHere(f"no {stem}.weight")
    x = mul_mat(w, x)
    for op, end in (("MUL", "scale"), ("ADD", "bias")):
        if f"{stem}.{end}" in t:
            x = like(op, x, t[f"{stem}.{end}"])
    return x


def norm(b: Build, t: Tensors, stem: str, x: Node, *, pinned: bool = True) -> Node:
    """`build_norm`."""
    w, bias = matrix(b, t, stem), t.get(f"{stem}.bias")
    x = like("RMS_NORM" if bias is None else "NORM", x)
    if pinned:
        x.pin = b.pin
    if w is not None:
        x = like("MUL", x, w)
    return x if bias is None else like("ADD", x, bias)


def turned(x: Node, turn: Node | None) -> Node:
    """`llama_mul_mat_hadamard`."""
    if turn is None:
        return x
    count = x.ne[0] * x.ne[1] * x.ne[2] * x.ne[3] // turn.ne[0]
    flat = reshaped(x, turn.ne[0], count) if not x.nb else made("CONT", (turn.ne[0], count), x)
    return reshaped(mul_mat(turn, flat), *x.ne)


def queries(b: Build, t: Tensors, x: Node, layer: Layer) -> tuple[Node, Node, Node, Node | None]:
    """Q, K, V, and a gate where Q is twice as wide as it is used."""
    width, n = layer.key_length, b.tokens
    kv = layer.heads_kv
    if (fused := matrix(b, t, "attn_qkv")) is not None:
        heads = (fused.ne[1] - kv * (width + layer.value_length)) // width
        both = project(b, t, "attn_qkv", x)
        return view(both, width, heads, n), view(both, width, kv, n), view(both, layer.value_length, kv, n), None
    q = project(b, t, "attn_q", x)
    k = project(b, t, "attn_k", x)
    v = project(b, t, "attn_v", x) if matrix(b, t, "attn_v") is not None else k
    wide = q.ne[0] // width
    gate = None
    if matrix(b, t, "ssm_conv1d") is None and b.hp.facts is not None and b.hp.facts.memory.startswith("hybrid"):
        heads = max(b.hp.head_count, default=0)
        if wide == 2 * heads:
            gate = view(q, width, heads, n)
            q = view(q, width, heads, n)
    if gate is None:
        q = reshaped(q, width, wide, n)
    return q, reshaped(k, width, kv, n), reshaped(v, layer.value_length, kv, n), gate


def attention(b: Build, t: Tensors, x: Node, layer: Layer, cache: CacheOf) -> Node:
    """A layer's attention, to the projection of its answer."""
    if not layer.key_length or not layer.heads_kv:
        raise NotKnownHere("a layer without heads")
    q, k, v, gate = queries(b, t, x, layer)
    turns = b.hp.arch not in NO_ROPE and (layer.swa or b.hp.arch != "cohere2")
    if matrix(b, t, "attn_q_norm") is not None:
        q = norm(b, t, "attn_q_norm", q)
    q = like("ROPE", q, b.position) if turns else q
    if matrix(b, t, "attn_k_norm") is not None:
        k = norm(b, t, "attn_k_norm", k)
    k = like("ROPE", k, b.position) if turns else k
    if matrix(b, t, "attn_v") is None and matrix(b, t, "attn_qkv") is None:
        v = like("RMS_NORM", v)
    if b.hp.arch.startswith(("gemma", "phi2", "phi3")):
        q = like("SCALE", q)
    answer = attend(b, q, k, v, cache, sinks=matrix(b, t, "attn_sinks"), wide=layer.value_length)
    if gate is not None:
        flat = made("CONT", (gate.ne[0] * gate.ne[1], b.tokens), gate)
        answer = like("MUL", answer, like("UNARY", flat))
    return project(b, t, "attn_output", answer)


def attend(
    b: Build,
    q: Node,
    k: Node,
    v: Node,
    cache: CacheOf,
    *,
    sinks: Node | None = None,
    latent: Node | None = None,
    wide: int,
) -> Node:
    """`build_attn` up to the answer: K and V go into their cache, and all of it is looked at."""
    g, n, s = b.graph, b.tokens, b.streams
    q, k = turned(q, cache.k_turn), turned(k, cache.k_turn)
    v = turned(v, cache.v_turn)
    for t in (q, v, k):
        g.expand(t)
    g.expand(written("SET_ROWS", cache.k, view(k, k.ne[0] * k.ne[1], n, dense=True), cache.k_numbers))
    if cache.v is not None:
        g.expand(_v_kept(b, v, cache))
    kv = k.ne[1]
    all_k = permute(view(cache.k, k.ne[0], kv, cache.cells, s), k.ne[0], cache.cells, kv, s)
    all_k.view_src, all_k.size = cache.k, cache.k_row * cache.cells * s
    all_k.src[0].size = all_k.size
    source = cache.k if cache.v is None else cache.v
    all_v = permute(view(source, wide, kv, cache.cells, s), wide, cache.cells, kv, s)
    all_v.size = all_v.src[0].size = (cache.k_row if cache.v is None else cache.v_row) * cache.cells * s
    heads = q.ne[1]
    look = permute(view(q, q.ne[0], heads, n // s, s, dense=True), q.ne[0], n // s, heads, s)
    more = () if sinks is None else (sinks,)
    if b.flash:
        all_k, all_v = (
            _half(x, kind, cells=cache.cells * s, kv=kv)
            for x, kind in ((all_k, cache.type_k), (all_v, cache.type_k if cache.v is None else cache.type_v))
        )
        out = made("FLASH_ATTN_EXT", (wide, heads, n // s, s), look, all_k, all_v, cache.mask, *more)
        if latent is not None:
            out = mul_mat(latent, permute(out, wide, n // s, heads, s))
            out = made("CONT", (latent.ne[1], heads, n // s, s), permute(out, latent.ne[1], heads, n // s, s))
        out = reshaped(out, out.ne[0] * heads, n)
    else:
        scores = made("MUL_MAT", (cache.cells, n // s, heads, s), all_k, look, grows=all_k.grows)
        scores = like("SOFT_MAX", scores, cache.mask, *more)
        if cache.v is None:
            kind = F32 if cache.type_k == "f32" else F16
            all_v = made("CONT", (cache.cells, wide, kv, s), all_v, kind=kind, grows=all_v.grows)
        out = made("MUL_MAT", (wide, n // s, heads, s), all_v, scores)
        if latent is not None:
            out = mul_mat(latent, out)
        out = made("CONT", (out.ne[0] * heads, n), permute(out, out.ne[0], heads, n // s, s))
        out.pin = b.host_attention
    g.expand(out)
    return turned(out, cache.v_turn)


def _v_kept(b: Build, v: Node, cache: CacheOf) -> Node:
    wide, into = v.ne[0] * v.ne[1], cache.v
    if into is None:
        raise NotKnownHere("a cache without V")
    if b.flash:
        return written("SET_ROWS", into, view(v, wide, b.tokens, dense=True), cache.v_numbers)
    v = reshaped(v, wide, b.tokens) if not v.nb else made("CONT", (wide, b.tokens), v)
    if wide < into.ne[0]:
        v = made("PAD", (into.ne[0], b.tokens), v)
    return written("SET_ROWS", into, reshaped(v, 1, v.ne[0] * b.tokens), cache.v_numbers)


def _half(x: Node, kind: str, *, cells: int, kv: int) -> Node:
    """FlashAttention takes no 32-bit K and V."""
    return made("CPY", (x.ne[0] * kv, cells), x, kind=F16, grows=x.grows) if kind == "f32" else x


def feed_forward(b: Build, t: Tensors, x: Node, end: str = "") -> Node:
    """`build_ffn`."""
    gate = matrix(b, t, f"ffn_gate{end}")
    up = project(b, t, f"ffn_up{end}", x)
    down = matrix(b, t, f"ffn_down{end}")
    if down is None:
        raise NotKnownHere(f"no ffn_down{end}.weight")
    if gate is not None:
        x = like("GLU", project(b, t, f"ffn_gate{end}", x), up)
    elif up.ne[0] == 2 * down.ne[0]:
        x = made("GLU", (down.ne[0], up.ne[1]), up)
    else:
        x = like("UNARY", up)
    return project(b, t, f"ffn_down{end}", x)
