"""A layer's experts as llama.cpp builds them (`llama-graph.cpp:build_moe_ffn`, b11434)."""

from __future__ import annotations

from gguftool.facts.machine.hparams import MAX_EXPERTS
from gguftool.memory.blocks import Build, NotKnownHere, Tensors, feed_forward, matrix, project
from gguftool.memory.graph import I32, Node, get_rows, like, made, mul_mat_id, view, written
from gguftool.memory.graph import reshape as reshaped


def experts(b: Build, t: Tensors, x: Node) -> Node:
    """`build_moe_ffn`, and the experts that all tokens go through."""
    g, n, hp = b.graph, x.ne[1], b.hp
    used = max(hp.per_layer("expert_used_count"), default=0)
    down = matrix(b, t, "ffn_down_exps")
    if down is None or not used:
        raise NotKnownHere("experts without ffn_down_exps.weight")
    if used > MAX_EXPERTS:
        raise NotKnownHere("more experts a token than llama.cpp has room for")
    logits = project(b, t, "ffn_gate_inp", x)
    late = hp.arch == "gpt-oss"
    probs = logits if late else like("SOFT_MAX", logits)
    chosen = probs
    b.used.add("exp_probs_b.bias")
    if "exp_probs_b.bias" in t:
        probs.op = "UNARY"
        chosen = like("ADD", probs, t["exp_probs_b.bias"])
    if hp.int("expert_group_count") > 1:
        chosen = _in_groups(b, chosen, hp.int("expert_group_count"), hp.int("expert_group_used_count"))
    chosen = view(made("ARGSORT", chosen.ne, chosen, kind=I32), used, n)
    weights = get_rows(reshaped(probs, 1, probs.ne[0], n), chosen)
    if late:
        weights = reshaped(like("SOFT_MAX", reshaped(weights, used, n)), 1, used, n)
    else:
        flat = reshaped(weights, used, n)
        weights = reshaped(like("DIV", flat, like("CLAMP", made("SUM_ROWS", (1, n), flat))), 1, used, n)
    g.expand(weights)
    rows = reshaped(x, x.ne[0], 1, n)
    both = matrix(b, t, "ffn_gate_up_exps")
    if both is not None:
        pair = _each(b, t, "ffn_gate_up_exps", rows, chosen)
        half = pair.ne[0] // 2
        gated = made("GLU", (half, used, n), view(pair, half, used, n), view(pair, half, used, n))
    else:
        up = _each(b, t, "ffn_up_exps", rows, chosen)
        if matrix(b, t, "ffn_gate_exps") is not None:
            gated = like("GLU", _each(b, t, "ffn_gate_exps", rows, chosen), up)
        else:
            gated = like("UNARY", up)
    answers = like("MUL", _each(b, t, "ffn_down_exps", gated, chosen), weights)
    g.expand(answers)
    parts = [g.expand(view(answers, x.ne[0], n)) for _ in range(used)]
    out = parts[0]
    for part in parts[1:]:
        out = g.expand(like("ADD", out, part))
    if used == 1:
        out = like("CONT", out)
    if matrix(b, t, "ffn_up_shexp") is None:
        return out
    shared = feed_forward(b, t, x, "_shexp")
    if matrix(b, t, "ffn_gate_inp_shexp") is not None:
        shared = like("MUL", shared, like("UNARY", project(b, t, "ffn_gate_inp_shexp", x)))
    return like("ADD", out, shared)


def _each(b: Build, t: Tensors, stem: str, x: Node, chosen: Node) -> Node:
    w = matrix(b, t, stem)
    if w is None:
        raise NotKnownHere(f"no {stem}.weight")
    x = mul_mat_id(w, x, chosen)
    return like("ADD_ID", x, t[f"{stem}.bias"], chosen) if f"{stem}.bias" in t else x


def _in_groups(b: Build, probs: Node, count: int, used: int) -> Node:
    """Only the experts of the best groups may be chosen."""
    n, each = b.tokens, probs.ne[0] // count
    groups = reshaped(probs, each, count, n)
    best = view(made("ARGSORT", groups.ne, groups, kind=I32), 2, count, n)
    scores = made("GET_ROWS", (1, 2, count, n), reshaped(groups, 1, each, count, n), best)
    sums = reshaped(made("SUM_ROWS", (1, count, n), reshaped(scores, 2, count, n)), count, n)
    top = view(made("ARGSORT", (count, n), sums, kind=I32), used, n)
    kept = made("GET_ROWS", (each, used, n), groups, top)
    return reshaped(written("SET_ROWS", like("FILL", groups), kept, top), probs.ne[0], n)
