"""Small files that draft for another: a model, heads of eagle3, dflash and dspark, prediction layers of their own."""

from __future__ import annotations

import struct

from tests.build import GGUF, llama

WIDTH, FEED, KV, HEAD = 64, 128, 32, 16
"""Of `tests.build.llama`, which they are made for."""


def tokens_of(g: GGUF) -> list[str]:
    """The token texts of a builder."""
    return list(next(e[1] for e in g._kv if isinstance(e, tuple) and e[0] == "tokenizer.ggml.tokens"))


def vocabulary(g: GGUF, like: GGUF) -> GGUF:
    """The tokenizer of another file."""
    for e in like._kv:
        if isinstance(e, tuple) and e[0].startswith("tokenizer."):
            g.kv(*e)
    return g


def _sizes(arch: str, width: int, layers: int) -> GGUF:
    g = GGUF(arch).kv("general.name", f"tiny {arch}").kv("general.file_type", 0)
    g.kv(f"{arch}.block_count", layers).kv(f"{arch}.context_length", 2048).kv(f"{arch}.embedding_length", width)
    g.kv(f"{arch}.feed_forward_length", FEED).kv(f"{arch}.attention.head_count", 4)
    g.kv(f"{arch}.attention.head_count_kv", 2).kv(f"{arch}.attention.layer_norm_rms_epsilon", 1e-5)
    g.kv(f"{arch}.attention.key_length", HEAD).kv(f"{arch}.attention.value_length", HEAD)
    return g.kv(f"{arch}.rope.freq_base", 10000.0).kv(f"{arch}.rope.dimension_count", HEAD)


def eagle3(
    target: GGUF | None = None,
    layers: tuple[int, ...] = (0, 1, 1),
    hidden: int = WIDTH,
    *,
    own: bool = True,
    rows: tuple[int, ...] = (),
) -> GGUF:
    """An eagle3 head; ``own``: with token embedding and output of its own, else it takes the target's.

    ``rows``: of its own output, shorter than the vocabulary, the tokens they stand for.
    """
    target = target or llama(layers=2)
    n = len(tokens_of(target))
    g = _sizes("eagle3", WIDTH, 1).kv("eagle3.target_layers", list(layers), "[u32]")
    vocabulary(g.kv("eagle3.target_hidden_size", hidden), target)
    g.tensor("fc.weight", (len(layers) * hidden, WIDTH)).tensor("output_norm.weight", (WIDTH,))
    if own:
        g.tensor("token_embd.weight", (WIDTH, n)).tensor("output.weight", (WIDTH, len(rows) or n))
    if rows:
        g.tensor("d2t", (len(rows),), "i64", struct.pack(f"<{len(rows)}q", *rows))
    b = "blk.0."
    for norm in ("attn_norm", "attn_norm_2", "ffn_norm"):
        g.tensor(f"{b}{norm}.weight", (WIDTH,))
    g.tensor(b + "attn_q.weight", (2 * WIDTH, WIDTH)).tensor(b + "attn_k.weight", (2 * WIDTH, KV))
    g.tensor(b + "attn_v.weight", (2 * WIDTH, KV)).tensor(b + "attn_output.weight", (WIDTH, WIDTH))
    g.tensor(b + "ffn_gate.weight", (WIDTH, FEED)).tensor(b + "ffn_down.weight", (FEED, WIDTH))
    return g.tensor(b + "ffn_up.weight", (WIDTH, FEED))


def dflash(
    target: GGUF | None = None,
    layers: tuple[int, ...] = (0, 1),
    width: int = WIDTH,
    *,
    own: bool = True,
    markov: bool = False,
    block: int | None = 4,
) -> GGUF:
    """A dflash head; with ``markov`` one of dspark."""
    target = target or llama(layers=2)
    n = len(tokens_of(target))
    g = _sizes("dflash", width, 1).kv("dflash.target_layers", list(layers), "[u32]")
    if block is not None:
        g.kv("dflash.block_size", block)
    vocabulary(g, target).kv("tokenizer.ggml.mask_token_id", 4)
    g.tensor("fc.weight", (len(layers) * width, width))
    for norm in ("enc.output_norm", "output_norm"):
        g.tensor(f"{norm}.weight", (width,))
    if own:
        g.tensor("token_embd.weight", (width, n)).tensor("output.weight", (width, n))
    if markov:
        g.tensor("markov_w1.weight", (8, n)).tensor("markov_w2.weight", (8, n))
        g.tensor("conf_proj.weight", (width + 8, 1))
    b = "blk.0."
    for norm, wide in (("attn_norm", width), ("ffn_norm", width), ("attn_q_norm", HEAD), ("attn_k_norm", HEAD)):
        g.tensor(f"{b}{norm}.weight", (wide,))
    g.tensor(b + "attn_q.weight", (width, WIDTH)).tensor(b + "attn_k.weight", (width, KV))
    g.tensor(b + "attn_v.weight", (width, KV)).tensor(b + "attn_output.weight", (WIDTH, width))
    g.tensor(b + "ffn_gate.weight", (width, FEED)).tensor(b + "ffn_down.weight", (FEED, width))
    return g.tensor(b + "ffn_up.weight", (width, FEED))


def _nextn(g: GGUF, b: str, width: int) -> None:
    g.tensor(b + "nextn.eh_proj.weight", (2 * width, width))
    for norm in ("enorm", "hnorm", "shared_head_norm"):
        g.tensor(f"{b}nextn.{norm}.weight", (width,))


def glm4() -> GGUF:
    """A glm4 model with a prediction layer, which llama.cpp never uses."""
    arch, like = "glm4", llama()
    n = len(tokens_of(like))
    g = vocabulary(_sizes(arch, WIDTH, 3).kv(f"{arch}.nextn_predict_layers", 1), like)
    for name, shape in (("token_embd", (WIDTH, n)), ("output_norm", (WIDTH,)), ("output", (WIDTH, n))):
        g.tensor(f"{name}.weight", shape)
    for i in range(3):
        b = f"blk.{i}."
        for norm in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            g.tensor(f"{b}{norm}.weight", (WIDTH,))
        g.tensor(b + "attn_q.weight", (WIDTH, WIDTH)).tensor(b + "attn_k.weight", (WIDTH, KV))
        g.tensor(b + "attn_v.weight", (WIDTH, KV)).tensor(b + "attn_output.weight", (WIDTH, WIDTH))
        g.tensor(b + "ffn_down.weight", (FEED, WIDTH)).tensor(b + "ffn_up.weight", (WIDTH, 2 * FEED))
        if i == 2:
            _nextn(g, b, WIDTH)
    return g


def glm(*, trunk: bool = True, heads: bool = True, width: int = WIDTH, tokens: int = 32, two: bool = False) -> GGUF:
    """A glm4moe model of two layers and one that predicts the next token but one; with ``two`` of one and two."""
    arch, experts = "glm4moe", 4
    like = llama(tokens=tokens)
    n = len(tokens_of(like))
    g = _sizes(arch, width, 3)
    g.kv(f"{arch}.nextn_predict_layers", 1 + two).kv(f"{arch}.expert_count", experts).kv(f"{arch}.expert_used_count", 2)
    g.kv(f"{arch}.expert_shared_count", 1).kv(f"{arch}.expert_feed_forward_length", 32)
    vocabulary(g.kv(f"{arch}.leading_dense_block_count", 0), like)
    g.tensor("token_embd.weight", (width, n)).tensor("output_norm.weight", (width,))
    g.tensor("output.weight", (width, n))
    for i in range(0 if trunk else 2 - two, 3 if heads else 2 - two):
        b = f"blk.{i}."
        g.tensor(b + "attn_norm.weight", (width,)).tensor(b + "post_attention_norm.weight", (width,))
        g.tensor(b + "attn_q.weight", (width, WIDTH)).tensor(b + "attn_k.weight", (width, KV))
        g.tensor(b + "attn_v.weight", (width, KV)).tensor(b + "attn_output.weight", (WIDTH, width))
        g.tensor(b + "ffn_gate_inp.weight", (width, experts)).tensor(b + "exp_probs_b.bias", (experts,))
        for name, shape in (("gate", (width, 32)), ("down", (32, width)), ("up", (width, 32))):
            g.tensor(f"{b}ffn_{name}_exps.weight", (*shape, experts)).tensor(f"{b}ffn_{name}_shexp.weight", shape)
        if i >= 2 - two:
            _nextn(g, b, width)
    return g


def gemma4_assistant(target: GGUF | None = None, width: int = WIDTH) -> GGUF:
    """A head that reads the cache of the gemma4 model it drafts for, whose rows are ``width`` wide."""
    arch, own = "gemma4-assistant", 32
    like = target or llama()
    n = len(tokens_of(like))
    g = _sizes(arch, own, 2).kv(f"{arch}.nextn_predict_layers", 2).kv(f"{arch}.embedding_length_out", width)
    g.kv(f"{arch}.attention.sliding_window", 64).kv(f"{arch}.attention.sliding_window_pattern", [True, False])
    g.kv(f"{arch}.attention.key_length_swa", HEAD).kv(f"{arch}.attention.value_length_swa", HEAD)
    vocabulary(g, like).tensor("token_embd.weight", (own, n)).tensor("output_norm.weight", (own,))
    g.tensor("nextn.post_projection.weight", (own, width)).tensor("nextn.pre_projection.weight", (2 * width, own))
    for i in (0, 1):
        b = f"blk.{i}."
        for norm, wide in (
            ("attn_norm", own), ("attn_q_norm", HEAD), ("post_attention_norm", own), ("layer_output_scale", 1),
            ("ffn_norm", own), ("post_ffw_norm", own),
        ):  # fmt: skip
            g.tensor(f"{b}{norm}.weight", (wide,))
        g.tensor(b + "attn_q.weight", (own, 4 * HEAD)).tensor(b + "attn_output.weight", (4 * HEAD, own))
        g.tensor(b + "ffn_gate.weight", (own, FEED)).tensor(b + "ffn_down.weight", (FEED, own))
        g.tensor(b + "ffn_up.weight", (own, FEED))
    return g.tensor("rope_freqs.weight", (HEAD // 2,))
