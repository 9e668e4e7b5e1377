"""Counts: layers, heads, experts, and arrays with one number a layer."""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.edit.ops import Set
from gguftool.facts.keys import read_keys
from gguftool.facts.machine.hparams import MAX_EXPERTS
from gguftool.format.types import ARR
from gguftool.lint.root import caused, root
from gguftool.lint.rule import Context, Drafts, Fix, Severity, edit, found, rule, to_choose
from gguftool.model import Model
from gguftool.predict.disagree import LOOPED
from gguftool.regex import regex
from gguftool.shell import blank

MAX_LAYERS = 512
PER_LAYER = ("attention.head_count", "attention.head_count_kv", "feed_forward_length", "expert_used_count")
"""Keys whose arrays llama.cpp checks against block_count on every architecture."""


def layers_of_tensors(m: Model) -> int:
    """One more than the highest block number of a tensor; 0 without blocks."""
    return max((block_of(name) for name in m.tensors), default=-1) + 1


def block_of(tensor: str) -> int:
    """Number of the block a tensor belongs to; -1 for one outside the blocks."""
    hit = _BLOCK.match(tensor)
    return int(hit[1]) if hit else -1


_BLOCK = regex(r"blk\.(\d{1,18})\.")


@rule(Severity.ERROR)
def block_count_range(m: Model, ctx: Context) -> Drafts:
    """The number of layers must be between 1 and 512.

    Why. llama.cpp does not refuse another number, it aborts the process; builds before July 2026 wrote out of
    bounds.
    Evidence. `llama-model.cpp:load_hparams` (b11434): GGML_ASSERT on n_layer_all and LLAMA_MAX_LAYERS (512).
    Example. llama.block_count is 600, llama.cpp aborts above 512
    Fix. `gguftool fix --set block_count=N`, where the tensors tell the number.
    """
    if not m.architecture:
        return
    key = f"{m.architecture}.block_count"
    n = m.get(key)
    if isinstance(n, bool) or not isinstance(n, int) or 0 < n <= MAX_LAYERS:
        return
    have = layers_of_tensors(m)
    fix = Fix(f"set it to {have}, as the tensors say", (Set(key, have, "u32"),)) if 0 < have <= MAX_LAYERS else None
    yield found(
        f"{key} is {n:,}; llama.cpp aborts unless it is 1 to {MAX_LAYERS}", where=f"field:{key}", fix=fix, aborts=True
    )


@rule(Severity.ERROR, known_arch=True)
def block_count_tensors(m: Model, ctx: Context) -> Drafts:
    """The number of layers must be that of the tensors.

    Why. With fewer layers than tensors llama.cpp counts too many tensors, with more it misses one; both texts
    send people looking for a damaged download.
    Evidence. `llama-model.cpp:load_tensors` (b11434): "tensor 'blk.1.attn_norm.weight' not found", "wrong number
    of tensors; expected …, got …".
    Example. llama.block_count is 7, the tensors have blocks 0 to 0
    Fix. `gguftool fix --set block_count=N`: a repair when the key was edited, useless when tensors are missing.
    """
    n, have = m.get(f"{m.architecture}.block_count"), layers_of_tensors(m)
    if isinstance(n, bool) or not isinstance(n, int) or not 0 < n <= MAX_LAYERS or m.missing_shards:
        return  # 0 and more than 512 have their own rule
    told = tuple(caused(m, ctx, "block-count-tensors"))
    if not have or n == have or m.architecture in LOOPED:
        yield from told
        return
    key = f"{m.architecture}.block_count"
    if root(m, ctx).readings and not told:
        return
    fix = told[0].fix if told else None
    also = ", ".join(op.describe() for op in fix.operations if op.key != key) if fix else ""  # type: ignore[union-attr]
    yield found(
        f"{key} is {n}, the tensors have blocks 0 to {have - 1}" + (f"; with it, {also}" if also else ""),
        where=f"field:{key}",
        fix=fix,
        block_count=n,
        blocks=have,
        readings=told[0].data.get("readings") if told else None,
    )


@rule(Severity.ERROR, known_arch=True)
def head_count_missing(m: Model, ctx: Context) -> Drafts:
    """The number of attention heads must be in the file.

    Why. llama.cpp does not ask for it: without the key it computes with 0 heads and fails later with a text about
    tensor shapes, a division by zero (olmo2, phimoe) or a failed assertion.
    Evidence. `llama-model.cpp:load_hparams` (b11434) reads it as optional; measured by deletion on 87 models: 78
    end in "has wrong shape; expected 640, 0, got 640, 1024", the others crash or cannot make a context.
    Example. gemma3.attention.head_count is missing
    Fix. `gguftool fix --set attention.head_count=N` with num_attention_heads of `config.json`.
    """
    key = f"{m.architecture}.attention.head_count"
    if m.arch.facts is not None and m.arch.facts.memory == "recurrent":
        return
    value = m.get(key)
    missing = value is None
    zero = value == 0 or (isinstance(value, Sequence) and not isinstance(value, str) and not any(value))
    if missing or zero:
        yield found(
            f"{key} is {'missing' if missing else '0'}; llama.cpp then complains about tensor shapes, or crashes",
            where=f"field:{key}",
            fix=to_choose("set it to num_attention_heads of config.json", "--set", key),
        )


@rule(Severity.ERROR, known_arch=True)
def per_layer_length(m: Model, ctx: Context) -> Drafts:
    """Arrays with one number a layer must have exactly block_count entries.

    Why. llama.cpp refuses an array of another length. The sliding-window pattern is the exception: there a wrong
    length loads, and the layers behind its end get the wrong attention.
    Evidence. `llama-model-loader.cpp:get_key_or_arr` (b11434): "key … has wrong array length; expected …, got …".
    Example. lfm2.attention.head_count_kv has 15 entries for 16 layers
    Fix. Convert again; the missing number is not in the file.
    """
    arch, n = m.architecture, m.arch.block_count
    if not n or arch in LOOPED or m.arch.int("block_count") > MAX_LAYERS:
        return
    known = read_keys(arch)
    for suffix in (*PER_LAYER, "attention.sliding_window_pattern"):
        key = f"{arch}.{suffix}"
        f = m.fields.get(key)
        if f is None or f.type != ARR or f.count == n:
            continue
        pattern = suffix.endswith("pattern")
        if pattern and key not in known:
            continue
        yield found(
            f"{key} has {f.count} entries for {n} layers",
            where=f"field:{key}",
            severity=Severity.WARNING if pattern else None,
            llama_cpp=None if pattern else f"key {key} has wrong array length; expected {n}, got {f.count}",
        )


def _used(m: Model) -> int:
    """The largest number of experts used in a layer."""
    value = m.arch.raw("expert_used_count")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return max((v for v in value if isinstance(v, int)), default=0)
    return m.arch.int("expert_used_count")


@rule(Severity.ERROR, known_arch=True)
def expert_keys(m: Model, ctx: Context) -> Drafts:
    """The expert keys must fit together.

    Why. llama.cpp does not refuse a set that does not fit, it aborts: one key without the other, more experts
    used than there are, groups that do not divide them.
    Evidence. `llama-model.cpp:load_hparams` (b11434): GGML_ASSERT on n_expert_used and the group keys; measured
    on 81 MoE models by deleting one of the keys.
    Example. llama.expert_count is 8, expert_used_count is missing
    Fix. `gguftool fix --set expert_used_count=N` with num_experts_per_tok of `config.json`.
    """
    arch, n, used = m.architecture, m.arch.int("expert_count"), _used(m)
    where = f"field:{arch}.expert_used_count"
    command = edit("--set", blank(f"{arch}.expert_used_count="))
    fix = Fix("set it to num_experts_per_tok of config.json", command=command)
    if n > MAX_EXPERTS:
        yield found(
            f"{arch}.expert_count is {n:,}, llama.cpp allows {MAX_EXPERTS:,}", where=f"field:{arch}.expert_count"
        )
    elif n and not used:
        state = "missing" if m.arch.raw("expert_used_count") is None else "0"
        yield found(f"{arch}.expert_count is {n}, expert_used_count is {state}", where=where, fix=fix, aborts=True)
    elif used > n:
        text = f"{arch}.expert_used_count is {used}, but there are {n} experts"
        yield found(text if n else f"{text}: expert_count is missing", where=where, fix=fix, aborts=True)
    groups, used_groups = m.arch.int("expert_group_count"), m.arch.int("expert_group_used_count")
    if groups:
        if groups >= max(n, 1) and not (groups == 1 and n == 1):
            fault = f"{groups} groups for {n} experts"
        elif n % groups:
            fault = f"{n} experts do not divide into {groups} groups"
        elif not 0 < used_groups < groups and groups > 1:
            fault = f"{used_groups} of {groups} groups used"
        else:
            return
        yield found(f"{arch}.expert_group_count: {fault}", where=f"field:{arch}.expert_group_count", aborts=True)


@rule(Severity.ERROR, known_arch=True)
def expert_count_tensors(m: Model, ctx: Context) -> Drafts:
    """The number of experts must be that of the expert tensors.

    Why. The third dimension of `ffn_*_exps` is the number of experts; llama.cpp compares shapes and refuses.
    Evidence. `llama-model-loader.cpp:check_tensor_dims` (b11434): "has wrong shape; expected …, got …".
    Example. qwen3moe.expert_count is 8, blk.0.ffn_down_exps.weight holds 16 experts
    Fix. `gguftool fix --set expert_count=N`, where the key was edited.
    """
    n = m.arch.int("expert_count")
    told = tuple(caused(m, ctx, "expert-count-tensors"))
    if root(m, ctx).readings and not told:
        return
    for name, t in m.tensors.items():
        if name.endswith(("ffn_down_exps.weight", "ffn_up_exps.weight")) and len(t.shape) == 3:
            key = f"{m.architecture}.expert_count"
            if t.shape[2] != n:
                yield found(
                    f"{key} is {n or 'missing'}, {name} holds {t.shape[2]} experts",
                    where=f"field:{key}",
                    fix=told[0].fix if told else None,
                )
                return
    yield from told


@rule(Severity.ERROR, known_arch=True)
def nextn_layers(m: Model, ctx: Context) -> Drafts:
    """Next-token prediction layers are part of block_count, and have tensors of their own.

    Why. llama.cpp takes them off the end of the layers and aborts when there are more of them than layers. A last
    layer that is an ordinary one is left out of the computation without an error: the answers are garbage.
    Evidence. `llama-model.cpp:load_hparams` (b11434): GGML_ASSERT(n_layer_nextn <= n_layer_all).
    Example. glm4moe.nextn_predict_layers is 3, block_count is 2
    Fix. `gguftool fix --set nextn_predict_layers=N`.
    """
    n, layers = m.arch.int("nextn_predict_layers"), m.arch.int("block_count")
    told = tuple(caused(m, ctx, "nextn-layers"))
    if not (layers and n > layers):
        yield from told
    else:
        key = f"{m.architecture}.nextn_predict_layers"
        fix = told[0].fix if told else to_choose("set it to the number in config.json", "--set", key)
        yield found(f"{key} is {n}, block_count is {layers}", where=f"field:{key}", fix=fix, aborts=True)
