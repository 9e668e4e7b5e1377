"""Sliding windows and multi-head latent attention."""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.facts.reads import reads
from gguftool.lint.rule import Context, Drafts, Severity, found, rule, to_choose
from gguftool.memory.latent import price, unsplit
from gguftool.model import Model
from gguftool.quantity import human

HAVE_WINDOW = frozenset({"gemma3", "modern-bert", "smallthinker", "mellum", "plamo3"})
"""Architectures whose models all slide, while llama.cpp switches the window off when the key is absent."""


@rule(Severity.WARNING, known_arch=True)
def mla_half(m: Model, ctx: Context) -> Drafts:
    """Latent attention needs both of its head sizes.

    Why. llama.cpp stores the small latent KV cache only when `key_length_mla` and `value_length_mla` are both
    set; with one of them the model runs with the expanded cache, many times larger, or its tensors do not fit.
    Evidence. `llama-hparams.cpp:is_mla` (b11434).
    Example. deepseek2.attention.key_length_mla is set, value_length_mla is missing
    Fix. `gguftool fix --set attention.value_length_mla=N` with v_head_dim of `config.json`.
    """
    if "attention.key_length_mla" not in reads(m.architecture):
        return
    pair = {name: m.arch.int(f"attention.{name}_length_mla") for name in ("key", "value")}
    if bool(pair["key"]) == bool(pair["value"]):
        return
    has, lacks = ("key", "value") if pair["key"] else ("value", "key")
    key = f"{m.architecture}.attention.{lacks}_length_mla"
    yield found(
        f"{m.architecture}.attention.{has}_length_mla is set, {lacks}_length_mla is missing",
        where=f"field:{key}",
        fix=to_choose("set it to the value of config.json", "--set", key),
    )


@rule(Severity.WARNING, known_arch=True)
def mla_unsplit(m: Model, ctx: Context) -> Drafts:
    """Latent attention should keep latents, not whole heads.

    Why. Files made before April 2025 have `attn_kv_b` in one piece and no `attn_k_b` and `attn_v_b`. llama.cpp loads
    them, and keeps K and V of every head: the cache is up to a hundred times as large as that of a newer file.
    Evidence. `models/deepseek2.cpp:load_arch_tensors` (b11434): "only old legacy GGUF files will have the unsplit
    wkv_b tensor in"; llama.cpp pull request 12801. The sizes are those of `gguftool plan`.
    Example. the cache takes 2.1 GiB at 8,192 tokens, in a file made since April 2025 243.0 MiB (8.9 times less)
    Fix. Download a newer file of the same model, or convert it again; ik_llama.cpp splits the tensors as it loads them.
    """
    if not unsplit(m.arch, m.tensors):
        return
    tokens = min(m.arch.context_length or 8192, 32768)
    cost = price(m.arch, tokens)
    more = ""
    if cost is not None and cost[1]:
        now, then = (human(n) for n in cost)
        more = (
            f": the cache takes {now} at {tokens:,} tokens (f16), in a file made since April 2025 {then} "
            f"({cost[0] / cost[1]:.1f} times less)"
        )
    yield found(
        f"attn_kv_b is in one piece, so llama.cpp keeps whole heads instead of latents{more}; download a newer file of "
        "the same model, or convert it again",
        where=f"tensor:{next(name for name in m.tensors if '.attn_kv_b.' in name)}",
        tokens=tokens,
        bytes=list(cost) if cost else None,
    )


@rule(Severity.WARNING, known_arch=True)
def sliding_window_missing(m: Model, ctx: Context) -> Drafts:
    """The sliding window should be in the file of a model that slides.

    Why. Without the key llama.cpp silently gives every layer full attention: the cache grows several times, and
    the answers differ from the trained model. Old Phi-3 files lack it too; b11434 does not need it there, older
    builds do.
    Evidence. Measured by deletion on b11434: gemma3, modern-bert, smallthinker and others load without a line;
    llama.cpp before August 2024 demanded it for phi3.
    Example. gemma3.attention.sliding_window is missing: every layer gets full attention
    Fix. `gguftool fix --set attention.sliding_window=N` with sliding_window of `config.json`.
    """
    arch = m.architecture
    key = f"{arch}.attention.sliding_window"
    if key in m or arch not in HAVE_WINDOW | {"phi3"}:
        return
    phi3 = arch == "phi3"
    yield found(
        f"{key} is missing: older llama.cpp builds refuse the file"
        if phi3
        else f"{key} is missing: every layer gets full attention",
        where=f"field:{key}",
        severity=Severity.INFO if phi3 else None,
        fix=to_choose("set it to sliding_window of config.json", "--set", key),
    )


@rule(Severity.ERROR, known_arch=True)
def sliding_window_pattern_empty(m: Model, ctx: Context) -> Drafts:
    """A sliding-window pattern must have a layer that slides.

    Why. With a period of 1 or an array without a true entry no layer slides, and llama.cpp aborts when it makes
    the context, after a load without a word.
    Evidence. `llama-model.cpp` (b11434): GGML_ASSERT(is_swa_any()); measured.
    Example. gemma3.attention.sliding_window_pattern has no sliding layer: llama.cpp aborts
    Fix. Set the pattern of `config.json`, or delete the key and the window.
    """
    facts = m.arch.facts
    if facts is None or not facts.memory.startswith(("iswa", "dsa-iswa")):
        return
    value = m.arch.raw("attention.sliding_window_pattern")
    window = m.arch.int("attention.sliding_window")
    if value is None or (facts.memory == "iswa-if-window" and not window):
        return
    array = isinstance(value, Sequence) and not isinstance(value, str)
    if (array and len(value) and not any(value)) or (value == 1 and not isinstance(value, bool)):  # type: ignore[arg-type]
        key = f"{m.architecture}.attention.sliding_window_pattern"
        yield found(
            f"{key} has no sliding layer: llama.cpp aborts when it makes the context",
            where=f"field:{key}",
            fix=to_choose("set the pattern of config.json", "--set", key),
            aborts=True,
        )
