"""Tensors: names, shapes and types against what the architecture asks for (`gguftool.lint.load`, llama.cpp b11434)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator

from gguftool.data import load
from gguftool.edit.ops import Set
from gguftool.format.types import tensor_type_name
from gguftool.lint.load import Survey, survey
from gguftool.lint.load.tensors import Wanted
from gguftool.lint.load.types import MATRIX_OPS, NOT_WEIGHTS, fault_of_type, needs_f32
from gguftool.lint.rule import Context, Draft, Drafts, Fix, NotEvaluated, Severity, found, not_evaluated, rule
from gguftool.lint.rules.metadata.blocks import LOOPED, MAX_LAYERS, block_of, layers_of_tensors
from gguftool.model import Model

MOST = 8
"""Findings of one rule; the last one counts the rest."""
KEYS = {
    "n_embd": ("embedding_length",),
    "n_ff": ("feed_forward_length",),
    "n_ff_exp": ("expert_feed_forward_length",),
    "n_ff_shexp": ("expert_shared_feed_forward_length",),
    "n_head": ("attention.head_count",),
    "n_head_kv": ("attention.head_count_kv",),
    "n_embd_head": ("attention.key_length", "attention.head_count"),
    "n_embd_head_k": ("attention.key_length", "attention.head_count"),
    "n_embd_head_v": ("attention.value_length", "attention.head_count"),
    "n_embd_k_gqa": ("attention.head_count_kv", "attention.key_length"),
    "n_embd_v_gqa": ("attention.head_count_kv", "attention.value_length"),
    "n_embd_gqa": ("attention.head_count_kv", "attention.value_length"),
    "n_embd_q": ("attention.head_count", "attention.key_length"),
    "n_embd_k": ("attention.head_count_kv", "attention.key_length"),
    "n_embd_v": ("attention.head_count_kv", "attention.value_length"),
    "n_rot": ("rope.dimension_count",),
    "n_expert": ("expert_count",),
    "n_ctx_train": ("context_length",),
    "n_vocab": ("tokenizer.ggml.tokens",),
    "n_token_types": ("tokenizer.ggml.token_type_count",),
    "n_lora_q": ("attention.q_lora_rank",),
    "q_lora_rank": ("attention.q_lora_rank",),
    "n_lora_kv": ("attention.kv_lora_rank",),
    "kv_lora_rank": ("attention.kv_lora_rank",),
    "ssm_d_inner": ("ssm.inner_size",),
    "d_inner": ("ssm.inner_size",),
    "ssm_d_state": ("ssm.state_size",),
    "d_state": ("ssm.state_size",),
    "ssm_d_conv": ("ssm.conv_kernel",),
    "d_conv": ("ssm.conv_kernel",),
    "ssm_dt_rank": ("ssm.time_step_rank",),
    "dt_rank": ("ssm.time_step_rank",),
}
"""Names in the formulas of the load map -> the keys they come from."""
_NAME = re.compile(r"[a-z_]\w*")


def _survey(m: Model, ctx: Context) -> Survey:
    return ctx.once("tensors survey", lambda: survey(m))


def _pattern(name: str) -> str:
    return re.sub(r"(?<=blk\.)\d+", "N", name)


def _groups(names: Iterable[str]) -> dict[str, list[str]]:
    """Names that differ only in the layer, together."""
    out: dict[str, list[str]] = {}
    for name in names:
        out.setdefault(_pattern(name), []).append(name)
    return out


def _several(names: list[str]) -> str:
    """How many layers have it: "" for one, else ``, as in 17 other layers``."""
    rest = len(names) - 1
    return "" if not rest else f", as in {rest} other layer{'s' if rest > 1 else ''}"


def _limited(drafts: Iterator[Draft]) -> Drafts:
    """At most `MOST` findings; one more that counts the rest."""
    rest = 0
    where = "header"
    for i, draft in enumerate(drafts):
        if i < MOST:
            yield draft
        else:
            rest, where = rest + 1, draft.where
    if rest:
        yield found(f"and {rest} more of this kind", where=where, more=rest)


def _size(shape: Iterable[int]) -> str:
    return " × ".join(f"{n:,}" for n in shape)


@rule(Severity.ERROR, known_arch=True)
def tensor_missing(m: Model, ctx: Context) -> Drafts:
    """A tensor that the architecture needs is not there.

    Why. llama.cpp refuses the file at the first tensor it does not find. The file was converted by an old or broken
    script, cut by a tool that read only one shard, or carries another program's names.
    Evidence. `llama-model-loader.cpp:check_tensor_dims` (b11434): "tensor 'output_norm.weight' not found".
    Example. output_norm.weight (64) is missing; the file has output_norm.weightx
    Fix. None: get the whole file, or convert it again.
    """
    s = _survey(m, ctx)
    if s.machine is None:
        yield _blocked(s)
        return
    yield from _limited(_missing(m, s))


def _missing(m: Model, s: Survey) -> Iterator[Draft]:
    # Layers that are missing altogether are one finding: block-count-tensors.
    have = layers_of_tensors(m) or MAX_LAYERS
    for names in _groups(n for n in s.missing if block_of(n) < have).values():
        wanted = s.wanted[names[0]]
        near = difflib.get_close_matches(names[0], s.extra, 1, 0.8)
        hint = f"; the file has {near[0]}" if near else ""
        text = f"{names[0]} ({_size(wanted.shape)}) is missing{_several(names)}{hint}"
        yield found(text, where=f"tensor:{names[0]}", tensors=names, shape=list(wanted.shape))


def _blocked(s: Survey) -> NotEvaluated:
    return not_evaluated(s.problem or "the tensors were not compared")


@rule(Severity.ERROR, known_arch=True)
def tensor_unexpected(m: Model, ctx: Context) -> Drafts:
    """The file has a tensor that the architecture does not know.

    Why. llama.cpp counts what it asked for and refuses the file when tensors are left over; its message names none.
    Evidence. `llama-model-loader.cpp:done_getting_tensors` (b11434): "wrong number of tensors; expected 12, got 11";
    llama.cpp issues 8650, 8676, 8761 (a new rope_freqs tensor under an old program).
    Example. blk.0.attn_q.biax is no tensor of llama; the nearest one is blk.0.attn_q.bias
    Fix. None: a newer llama.cpp may know it, else convert again.
    """
    s = _survey(m, ctx)
    if s.machine is None or s.problem:
        yield _blocked(s)
        return
    yield from _limited(_extra(m, s))


def _extra(m: Model, s: Survey) -> Iterator[Draft]:
    absent = [n for n in s.wanted if n not in s.stored]
    # Layers beyond block_count are one finding too: block-count-tensors.
    count = MAX_LAYERS if m.architecture in LOOPED else m.arch.block_count
    for names in _groups(n for n in s.extra if block_of(n) < count).values():
        near = difflib.get_close_matches(names[0], absent, 1, 0.85)
        hint = f"; the nearest one is {near[0]}" if near else ""
        text = f"{names[0]} is no tensor of {m.architecture}{_several(names)}{hint}"
        yield found(text, where=f"tensor:{names[0]}", tensors=names)


@rule(Severity.ERROR, known_arch=True)
def tensor_shape(m: Model, ctx: Context) -> Drafts:
    """The shape of a tensor must follow from the keys.

    Why. llama.cpp computes every shape from the metadata and refuses the file at the first that differs. Either a key
    was changed by hand, or the file was converted for another build.
    Evidence. `llama-model-loader.cpp:check_tensor_dims` (b11434): "tensor '…' has wrong shape; expected 64, 64, got
    64, 160".
    Example. blk.0.ffn_up.weight is 64 × 128, the keys call for 64 × 96 (feed_forward_length 96)
    Fix. Put the key right with `gguftool fix --set`.
    """
    s = _survey(m, ctx)
    if s.machine is None:
        yield _blocked(s)
        return
    yield from _limited(_shapes(m, s))


def _shapes(m: Model, s: Survey) -> Iterator[Draft]:
    own = _head_size(m, s)
    for names in _groups(s.misshaped).values():
        wanted, have = s.wanted[names[0]], s.stored[names[0]].shape
        odd = [f for f, a, b in zip(wanted.formula, wanted.shape, (*have, 1, 1, 1, 1), strict=False) if a != b]
        if odd == ["n_vocab"] and "token_embd.weight" in s.misshaped:
            continue  # one cause, told by `vocabulary-size-mismatch`
        if own is not None and wanted.slot in ("wq", "wk", "wv", "wo", "attn_q_norm", "attn_k_norm"):
            continue  # one cause, told by `head-size-mismatch`
        if not m.arch.int("attention.head_count") and any("head" in f or "gqa" in f for f in wanted.formula):
            head = m.arch.raw("attention.head_count")
            if head is None or head == 0:
                continue  # `head-count-missing` says it better
        why = _keys(m, odd or list(wanted.formula))
        text = f"{names[0]} is {_size(have)}, the keys call for {_size(wanted.shape)}{why}{_several(names)}"
        yield found(
            text,
            where=f"tensor:{names[0]}",
            expected=list(wanted.shape),
            got=list(have),
            formula=list(wanted.formula),
            tensors=names,
        )


def _keys(m: Model, formulas: list[str]) -> str:
    """`` (feed_forward_length 96)``: the keys that sizes follow from, with their values."""
    seen: dict[str, None] = {}
    for name in dict.fromkeys(n for f in formulas for n in _NAME.findall(f.replace("h.", ""))):
        for key in KEYS.get(name, ()):
            seen.setdefault(key)
    parts = []
    for key in seen:
        full = key if key.startswith("tokenizer.") else f"{m.architecture}.{key}"
        f = m.fields.get(full)
        if f is not None:
            parts.append(f"{key} {f.count:,} long" if f.count is not None else f"{key} {f.value}")
        elif key == "attention.key_length":
            parts.append("attention.key_length absent: embedding_length / head_count")
    return f" ({', '.join(parts)})" if parts else ""


def _head_size(m: Model, s: Survey) -> tuple[int, int, list[str]] | None:
    """(head size the tensors show, size the keys give, tensors that say so) when they differ in one clear way."""
    heads, kv_heads = m.arch.head_count, m.arch.head_count_kv
    if s.machine is None or not heads or len(set(heads)) != 1 or len(set(kv_heads)) != 1 or not heads[0]:
        return None
    expected = s.machine.names["n_embd_head_k()"]()
    sizes: dict[int, list[str]] = {}
    for name in s.misshaped:
        info, wanted = s.stored[name], s.wanted[name]
        count = {"wq": heads[0], "wk": kv_heads[0], "wv": kv_heads[0]}.get(wanted.slot)
        if count and len(info.shape) == 2 and info.shape[1] % count == 0:
            sizes.setdefault(info.shape[1] // count, []).append(name)
        elif count:
            return None
    if len(sizes) != 1:
        return None
    ((size, names),) = sizes.items()
    # Queries, keys and values must all say so, or the number of heads may be what is wrong.
    slots = {s.wanted[n].slot for n in names}
    return (size, expected, names) if size != expected and {"wq", "wk"} <= slots else None


@rule(Severity.ERROR, known_arch=True)
def head_size_mismatch(m: Model, ctx: Context) -> Drafts:
    """The head size of the keys must be that of the attention tensors.

    Why. Without `attention.key_length` llama.cpp takes embedding_length / head_count. Models with another head size
    (Gemma, Qwen3, Mistral-Nemo) then fail with a text about shapes that looks like a damaged file.
    Evidence. llama.cpp issue 12376; "tensor 'blk.0.attn_q.weight' has wrong shape; expected 64, 64, got 64, 160".
    Example. attn_q and attn_k have heads of 80, the keys give 32 (embedding_length 64 / head_count 2)
    Fix. `gguftool fix --set attention.key_length=80 --set attention.value_length=80`.
    """
    s = _survey(m, ctx)
    if s.machine is None:
        yield _blocked(s)
        return
    found_size = _head_size(m, s)
    if found_size is None:
        return
    size, expected, names = found_size
    key, value = f"{m.architecture}.attention.key_length", f"{m.architecture}.attention.value_length"
    source = "attention.key_length" if key in m else "embedding_length / head_count"
    yield found(
        f"attn_q and attn_k have heads of {size}, the keys give {expected} ({source})",
        where=f"field:{key}",
        fix=Fix(
            f"set the head size to {size}, as the tensors say",
            (Set(key, size, "u32"), Set(value, size, "u32")),
            safe=True,
        ),
        head_size=size,
        keys_give=expected,
        tensors=names,
    )


@rule(Severity.INFO, known_arch=True)
def head_size_unusual(m: Model, ctx: Context) -> Drafts:
    """Head size apart from embedding_length / head_count: the file says so on purpose, and is consistent.

    Why. Programs that compute the head size instead of reading `attention.key_length` call such files broken. When
    keys and tensors agree, as here, the fault lies with the program.
    Evidence. llama.cpp issue 12376 (OLMo-2 32B): every published file was right, the loader was not.
    Example. heads of 256 by attention.key_length, not 160 (embedding_length / head_count); keys and tensors agree
    Fix. None needed.
    """
    s = _survey(m, ctx)
    if s.machine is None or s.problem:
        yield _blocked(s)
        return
    heads, size = m.arch.head_count, m.arch.raw("attention.key_length")
    if s.missing or s.misshaped or s.extra or not heads or not heads[0] or not isinstance(size, int):
        return
    plain = m.arch.embedding_length // heads[0]
    shows = next((n for n, w in s.wanted.items() if n in s.stored and w.slot in ("wq", "wqkv")), None)
    if size != plain and shows is not None:
        yield found(
            f"heads of {size} by attention.key_length, not {plain} (embedding_length / head_count); "
            "keys and tensors agree, the file is consistent",
            where=f"field:{m.architecture}.attention.key_length",
            head_size=size,
            tensor=shows,
        )


@rule(Severity.ERROR, known_arch=True)
def tensor_type_not_f32(m: Model, ctx: Context) -> Drafts:
    """Norms, biases and the like must be F32.

    Why. The loader does not look at types: the file loads, and the first decode ends the process.
    Evidence. `binary-ops.cpp:binary_op` (b11434): "unsupported types: dst: f32, src0: f32, src1: f16"; 1,776 of 7,650
    mutated files died of it.
    Example. blk.0.attn_norm.weight is F16; llama.cpp multiplies with it in F32 only and dies at the first decode
    Fix. None in place: convert again, norms and biases stay F32 there.
    """
    s = _survey(m, ctx)
    if s.machine is None:
        yield _blocked(s)
        return
    names = [n for n, w in _suspects(m, s) if needs_f32(w) and fault_of_type(w, s.stored[n].type_id)[0]]
    yield from _limited(_types(s, names, "llama.cpp computes with it in F32 only and dies at the first decode"))


@rule(Severity.ERROR, known_arch=True)
def tensor_type_not_for_weights(m: Model, ctx: Context) -> Drafts:
    """Integer and double types are not for weights.

    Why. The loader does not look at types: the file loads, and the first matrix product ends the process.
    Evidence. `ggml-cpu.c:ggml_compute_forward_mul_mat` (b11434) has no kernel for I8, I16, I32, I64, F64, Q8_1, Q8_K.
    Example. blk.0.attn_q.weight is I32; llama.cpp has no matrix product for it and dies at the first decode
    Fix. None: quantise or convert again.
    """
    s = _survey(m, ctx)
    if s.machine is None:
        yield _blocked(s)
        return
    names = [
        n for n, w in _suspects(m, s) if w.op in MATRIX_OPS and not needs_f32(w) and s.stored[n].type_id in NOT_WEIGHTS
    ]
    yield from _limited(_types(s, names, "llama.cpp has no product for it and dies at the first decode"))


def _suspects(m: Model, s: Survey) -> Iterator[tuple[str, Wanted]]:
    """Tensors that the graph uses and that are not F32."""
    ignored = load("load_maps.json")["unused"].get(m.architecture, ())
    for name, wanted in s.wanted.items():
        info = s.stored.get(name)
        if info is not None and info.type_id and info.type is not None and wanted.used and wanted.slot not in ignored:
            yield name, wanted


def _types(s: Survey, names: list[str], why: str) -> Iterator[Draft]:
    for group in _groups(names).values():
        kind = tensor_type_name(s.stored[group[0]].type_id)
        yield found(f"{group[0]} is {kind}{_several(group)}; {why}", where=f"tensor:{group[0]}", tensors=group)


@rule(Severity.ERROR, known_arch=True)
def tensor_needed_by_graph(m: Model, ctx: Context) -> Drafts:
    """A tensor that the loader calls optional, but the computation needs.

    Why. The file loads; making a context then reads a null pointer and ends the process.
    Evidence. Found by deleting every optional tensor of 215 real model headers (llama.cpp b11549).
    Example. blk.0.ssm_conv1d.bias is not there; nemotron_h loads without it and dies when the context is made
    Fix. None: get the whole file, or convert it again.
    """
    s = _survey(m, ctx)
    if s.machine is None or s.problem:
        yield _blocked(s)
        return
    lost: list[str] = []
    for slot, condition, _ in load("load_maps.json")["needs"].get(m.architecture, ()):
        for layer in range(s.machine.names["n_layer()"]()):
            s.machine.names["il"] = layer
            if (slot, layer) not in s.machine.slots and s.machine.value(condition):
                lost += [n for n, w in s.wanted.items() if w.slot == slot and f"blk.{layer}." in n]
    for group in _groups(lost).values():
        text = f"{group[0]} is not there{_several(group)}; {m.architecture} loads without it and dies afterwards"
        yield found(text, where=f"tensor:{group[0]}", tensors=group)


@rule(Severity.INFO, known_arch=True)
def tensor_ignored(m: Model, ctx: Context) -> Drafts:
    """Tensors that llama.cpp knows but does not use.

    Why. They take room on disk and in downloads; llama.cpp warns about each. Mostly layers for predicting several
    tokens at once.
    Evidence. `llama-model-loader.cpp:create_tensor` (b11434): "model has unused tensor … -- ignoring".
    Example. llama.cpp leaves 12 tensors (1.1 GB) aside: blk.46.nextn.eh_proj.weight …
    Fix. None needed.
    """
    s = _survey(m, ctx)
    if s.machine is None:
        yield _blocked(s)
        return
    if s.ignored:
        size = sum(s.stored[n].nbytes or 0 for n in s.ignored)
        text = f"llama.cpp leaves {len(s.ignored)} tensors ({size:,} bytes) aside: {s.ignored[0]} …"
        yield found(text, where=f"tensor:{s.ignored[0]}", tensors=list(s.ignored), bytes=size)
