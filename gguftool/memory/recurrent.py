"""Layers that keep a state, as llama.cpp builds them (`delta-net-base.cpp`, `mamba-base.cpp`, b11434)."""

from __future__ import annotations

from gguftool.brief import short_repr
from gguftool.memory.blocks import Build, NotKnownHere, Tensors, matrix, norm, project
from gguftool.memory.graph import Node, get_rows, like, made, permute, view, written
from gguftool.memory.graph import reshape as reshaped
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class StateOf:
    """One layer's states.

    Attributes:
        window, state: where they lie, a row a slot.
        rows: numbers of the rows to read.
        slots: sequences the memory holds.
        snapshots: older states kept of each.
    """

    window: Node
    state: Node
    rows: Node
    slots: int
    snapshots: int = 0

    __repr__ = short_repr


def loaded(b: Build, all_rows: Node, s: StateOf) -> Node:
    """`build_rs`: the states of the batch, gathered."""
    width = all_rows.ne[0]
    flat = reshaped(all_rows, width, all_rows.ne[1])
    b.graph.expand(written("SCALE", view(flat, width)))
    gathered = made("GET_ROWS", (width, s.slots), flat, s.rows)
    mine = view(gathered, width, b.slots, dense=True)
    b.graph.expand(mine)
    _others(b, all_rows, gathered, s)
    return mine


def _others(b: Build, all_rows: Node, gathered: Node, s: StateOf) -> None:
    """States of sequences that are not in the batch stay as they are."""
    width, more = all_rows.ne[0], s.slots - b.slots
    into = view(all_rows, width, more, size=0)
    b.graph.expand(written("CPY", into, view(gathered, width, more, size=0)))


def stored_back(b: Build, what: Node, all_rows: Node) -> None:
    """A new state goes where the old one was."""
    b.graph.expand(written("CPY", view(all_rows, *what.ne, size=what.size), what))


def delta_net(b: Build, t: Tensors, x: Node, s: StateOf) -> Node:
    """The gated delta net of qwen3next and qwen35."""
    n = b.hp.shape.number
    inner, key, groups, heads = n("ssm_d_inner"), n("ssm_d_state"), n("ssm_n_group"), n("ssm_dt_rank")
    if not (inner and key and groups and heads) or "ssm_dt.bias" not in t or "ssm_a" not in t:
        raise NotKnownHere("a recurrent layer of another kind")
    seq = b.tokens // b.slots
    value = inner // heads
    b.graph.expand(x)
    mixed, z = _mixed(b, t, x, seq)
    if matrix(b, t, "ssm_ba") is not None:
        pair = project(b, t, "ssm_ba", x)
        beta = like("UNARY", made("CONT", (heads // groups, groups, seq, b.slots), view(pair, heads, b.tokens)))
        alpha = made("CONT", (heads, seq, b.slots), view(pair, heads, b.tokens))
    else:
        beta = like("UNARY", reshaped(project(b, t, "ssm_beta", x), 1, heads, seq, b.slots))
        alpha = reshaped(project(b, t, "ssm_alpha", x), heads, seq, b.slots)
    b.used.update(("ssm_dt.bias", "ssm_a"))
    gate = like("MUL", like("UNARY", like("ADD", alpha, t["ssm_dt.bias"])), t["ssm_a"])
    beta, gate = reshaped(beta, 1, heads, seq, b.slots), reshaped(gate, 1, heads, seq, b.slots)
    kernel = matrix(b, t, "ssm_conv1d")
    if kernel is None:
        raise NotKnownHere("a delta net without ssm_conv1d.weight")
    channels = inner + 2 * groups * key
    past = reshaped(loaded(b, s.window, s), kernel.ne[0] - 1, channels, b.slots)
    window = made("CONCAT", (kernel.ne[0] - 1 + seq, channels, b.slots), past, permute(mixed, seq, channels, b.slots))
    last = view(window, kernel.ne[0] - 1, channels, b.slots)
    for _ in range(1 + s.snapshots):
        stored_back(b, last, s.window)
    state = reshaped(loaded(b, s.state, s), value, value, heads, b.slots)
    conv = like("UNARY", made("SSM_CONV", (channels, seq, b.slots), window, kernel))
    q, k = (_unit(view(conv, key, groups, seq, b.slots)) for _ in range(2))
    v = view(conv, value, heads, seq, b.slots)
    if heads != groups and b.hp.arch == "qwen3next":
        q, k = (_repeated(one, key, heads, seq, b.slots, groups) for one in (q, k))
    kept = (1 + s.snapshots) * value * value * heads * b.slots
    out = made("GATED_DELTA_NET", (value * heads * b.tokens + kept,), q, k, v, gate, beta, state)
    answer = view(out, value, heads, seq, b.slots, dense=True)
    stored_back(b, view(out, kept), s.state)
    answer = norm(b, t, "ssm_norm", answer)
    answer = like("MUL", answer, like("UNARY", reshaped(z, value, heads, seq, b.slots)))
    return reshaped(project(b, t, "ssm_out", reshaped(answer, inner, seq, b.slots)), b.hp.embedding_length, b.tokens)


def _mixed(b: Build, t: Tensors, x: Node, seq: int) -> tuple[Node, Node]:
    if matrix(b, t, "attn_qkv") is None:
        return _joined(b, t, x, seq)
    b.used.add("ssm_in.weight")  # the older form of the same, not used beside it
    both = project(b, t, "attn_qkv", x)
    z = project(b, t, "attn_gate", x)
    return reshaped(both, both.ne[0], seq, b.slots), z


def _joined(b: Build, t: Tensors, x: Node, seq: int) -> tuple[Node, Node]:
    """Q, K, V and Z of one matrix, head by head, taken apart."""
    n = b.hp.shape.number
    inner, key, groups = n("ssm_d_inner"), n("ssm_d_state"), n("ssm_n_group")
    every = project(b, t, "ssm_in", x)
    part = view(every, key, groups, seq, b.slots)
    value = view(every, inner // groups, groups, seq, b.slots)
    z = made("CONT", (inner // groups, groups, seq, b.slots), value)
    q, k = (made("CONT", (key * groups, seq, b.slots), part) for _ in range(2))
    v = made("CONT", (inner, seq, b.slots), view(every, inner // groups, groups, seq, b.slots))
    pair = made("CONCAT", (2 * key * groups, seq, b.slots), q, k)
    return made("CONCAT", (2 * key * groups + inner, seq, b.slots), pair, v), z


def _unit(x: Node) -> Node:
    return like("L2_NORM", x)


def _repeated(x: Node, key: int, heads: int, seq: int, slots: int, groups: int) -> Node:
    many = made("REPEAT", (key, heads // groups, groups, seq * slots), reshaped(x, key, 1, groups, seq * slots))
    return reshaped(many, key, heads, seq, slots)


def mamba(b: Build, t: Tensors, x: Node, s: StateOf) -> Node:
    """The first Mamba."""
    n = b.hp.shape.number
    inner, width, rank = n("ssm_d_inner"), n("ssm_d_state"), n("ssm_dt_rank")
    seq, slots = b.tokens // b.slots, b.slots
    kernel = matrix(b, t, "ssm_conv1d")
    if kernel is None or "ssm_a" not in t or "ssm_d" not in t:
        raise NotKnownHere("a Mamba of another kind")
    past = reshaped(loaded(b, s.window, s), kernel.ne[0] - 1, inner, slots)
    xz = project(b, t, "ssm_in", reshaped(x, x.ne[0], seq, slots))
    if xz.ne[0] != 2 * inner:
        raise NotKnownHere("a Mamba of another kind")
    window = made(
        "CONCAT", (kernel.ne[0] - 1 + seq, inner, slots), past, permute(view(xz, inner, seq, slots), seq, inner, slots)
    )
    stored_back(b, view(window, kernel.ne[0] - 1, inner, slots), s.window)
    conv = made("SSM_CONV", (inner, seq, slots), window, kernel)
    if "ssm_conv1d.bias" in t:
        conv = like("ADD", conv, t["ssm_conv1d.bias"])
    conv = like("UNARY", conv)
    parts = project(b, t, "ssm_x", conv)
    step: Node = view(parts, rank, seq, slots)
    step = norm(b, t, "ssm_dt_norm", step) if matrix(b, t, "ssm_dt_norm") is not None else like("CONT", step)
    step = project(b, t, "ssm_dt", step)
    b.used.update(("ssm_a", "ssm_d"))
    entry, leave = (view(parts, width, 1, seq, slots) for _ in range(2))
    main = view(s.rows, slots)
    many = reshaped(s.state, width, 1, inner, s.slots)
    scan = made(
        "SSM_SCAN", (inner * b.tokens + width * inner * slots,),
        many, reshaped(conv, 1, inner, seq, slots), step, t["ssm_a"], entry, leave, main,
    )  # fmt: skip
    flat = reshaped(s.state, s.state.ne[0], s.state.ne[1])
    b.graph.expand(written("SCALE", view(flat, s.state.ne[0])))
    # All states but the first are gathered, only so that those of sequences elsewhere can be put back.
    gathered = get_rows(flat, view(s.rows, s.slots - 1))
    b.graph.expand(scan)
    _others(b, s.state, gathered, s)
    stored_back(b, view(scan, width * inner * slots), s.state)
    answer = like("ADD", view(scan, inner, seq, slots), like("MUL", conv, t["ssm_d"]))
    gate = made("CONT", (inner, seq, slots), view(xz, inner, seq, slots))
    out = project(b, t, "ssm_out", like("GLU", gate, answer))
    return reshaped(out, out.ne[0], b.tokens)
