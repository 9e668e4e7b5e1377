"""Latent attention with absorbed matrices, as llama.cpp builds it (`deepseek2.cpp`, b11434)."""

from __future__ import annotations

from gguftool.facts.shape import Layer
from gguftool.memory.blocks import Build, CacheOf, NotKnownHere, Tensors, attend, matrix, norm, project
from gguftool.memory.graph import Node, like, made, mul_mat, permute, view
from gguftool.memory.graph import reshape as reshaped


def latent(b: Build, t: Tensors, x: Node, layer: Layer, cache: CacheOf) -> Node:
    """A layer's attention, to the projection of its answer."""
    hp, n = b.hp, b.tokens
    wide, turn = hp.int("attention.key_length_mla"), hp.int("rope.dimension_count")
    rank = layer.key_length - turn
    if matrix(b, t, "attn_q_a") is not None:
        q = norm(b, t, "attn_q_a_norm", project(b, t, "attn_q_a", x))
        q = project(b, t, "attn_q_b", q)
    else:
        q = project(b, t, "attn_q", x)
    absorb, answer_of = matrix(b, t, "attn_k_b"), matrix(b, t, "attn_v_b")
    if absorb is None or answer_of is None or not wide:
        raise NotKnownHere("latent attention without absorbed matrices")
    heads = q.ne[0] // wide
    q = reshaped(q, wide, heads, n)
    both = project(b, t, "attn_kv_a_mqa", x)
    k_turned = like("ROPE", view(both, turn, 1, n), b.position)
    kept = norm(b, t, "attn_kv_a_norm", view(both, rank, n))
    q_turned = like("ROPE", view(q, turn, heads, n), b.position)
    absorbed = permute(mul_mat(absorb, permute(view(q, wide - turn, heads, n), wide - turn, n, heads)), rank, heads, n)
    q = made("CONCAT", (rank + turn, heads, n), absorbed, q_turned)
    kept = reshaped(kept, rank, 1, n)
    k = made("CONCAT", (rank + turn, 1, n), kept, k_turned)
    return project(b, t, "attn_output", attend(b, q, k, kept, cache, latent=answer_of, wide=rank))
