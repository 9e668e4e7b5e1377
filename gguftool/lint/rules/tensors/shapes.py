"""Shapes against keys: which key is wrong, and what the tensors say instead."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.edit.ops import Set
from gguftool.lint.predicted import surveyed
from gguftool.lint.root import caused, root
from gguftool.lint.rule import Context, Draft, Drafts, Severity, found, rule
from gguftool.lint.rules.tensors.groups import blocked, dims, grouped, limited, several
from gguftool.model import Model
from gguftool.predict import Survey
from gguftool.predict.tensors import Wanted
from gguftool.records import replace
from gguftool.regex import regex

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
_NAME = regex(r"[a-z_]\w*")
ONE_KEY = frozenset({"n_embd", "n_ff", "n_ff_exp", "n_ff_shexp", "n_ctx_train", "n_lora_q", "q_lora_rank", "n_lora_kv"})
"""Names that are one key and nothing else: tensors that all disagree with it alike say what it should be."""
KEY_LENGTH = "attention.key_length"
ATTENTION = frozenset("wq wk wv wo wqkv wq_b wk_b wv_b wqkv_b attn_q_norm attn_k_norm".split())


@rule(Severity.ERROR, known_arch=True)
def tensor_shape(m: Model, ctx: Context) -> Drafts:
    """The shape of a tensor must follow from the keys.

    Why. llama.cpp computes every shape from the metadata and refuses the file at the first that differs. Either a key
    was changed by hand, or the file was converted for another build.
    Evidence. `llama-model-loader.cpp:check_tensor_dims` (b11434): "tensor '…' has wrong shape; expected 64, 64, got
    64, 160".
    Example. blk.0.attn_k.weight is 64 × 64, the keys call for 64 × 32 (attention.head_count_kv 2, …)
    Fix. Put the key right with `gguftool fix --set`.
    """
    s = surveyed(m, ctx)
    if s.machine is None:
        yield blocked(s)
        return
    # One cause that explains all is told where its key is told.
    if not root(m, ctx).readings:
        yield from limited(_shapes(m, s))


def _shapes(m: Model, s: Survey) -> Iterator[Draft]:
    told = {n for names in _by_key(m, s).values() for n in names}
    if not m.arch.head_count or not m.arch.head_count[0]:
        # One cause, told by `head-count-missing`.
        told |= {n for n in s.misshaped if s.wanted[n].slot in ATTENTION}
    for names in grouped(n for n in s.misshaped if n not in told).values():
        wanted, have = s.wanted[names[0]], s.stored[names[0]].shape
        odd = _odd(wanted, have)
        if odd == ["n_vocab"] and "token_embd.weight" in s.misshaped:
            continue  # one cause, told by `vocabulary-size-mismatch`
        why = _keys(m, odd or list(wanted.formula))
        yield found(
            f"{names[0]} is {dims(have)}, the keys call for {dims(wanted.shape)}{why}{several(names)}",
            where=f"tensor:{names[0]}",
            expected=list(wanted.shape),
            got=list(have),
            formula=list(wanted.formula),
            tensors=names,
        )


def _odd(wanted: Wanted, have: tuple[int, ...]) -> list[str]:
    """Formulas of the sizes that differ."""
    return [f for f, a, b in zip(wanted.formula, wanted.shape, (*have, 1, 1, 1, 1), strict=False) if a != b]


def _keys(m: Model, formulas: list[str]) -> str:
    """`` (feed_forward_length 96)``: the keys that sizes follow from, with their values."""
    seen: dict[str, None] = {}
    for name in dict.fromkeys(n for f in formulas for n in _NAME.findall(f.replace("h.", ""))):
        for key in KEYS.get(name, ()):
            seen.setdefault(key)
    parts = []
    for key in seen:
        f = m.fields.get(key if key.startswith("tokenizer.") else f"{m.architecture}.{key}")
        if f is not None:
            parts.append(f"{key} {f.count:,} long" if f.count is not None else f"{key} {f.told}")
        elif key == "attention.key_length":
            parts.append("attention.key_length absent: embedding_length / head_count")
    return f" ({', '.join(parts)})" if parts else ""


def _by_key(m: Model, s: Survey) -> dict[tuple[str, int], list[str]]:
    """(key, size the tensors say) -> tensors, where one whole number key is alone to blame."""
    said: dict[str, dict[int, list[str]]] = {}
    for name in s.misshaped:
        wanted, have = s.wanted[name], s.stored[name].shape
        odd = set(_odd(wanted, have))
        formula = next(iter(odd), "").removeprefix("h.")
        if len(odd) == 1 and formula in ONE_KEY and len(have) == len(wanted.shape):
            sizes = {b for f, b in zip(wanted.formula, have, strict=True) if f.removeprefix("h.") == formula}
            for size in sizes:
                said.setdefault(formula, {}).setdefault(size, []).append(name)
    out = {}
    for formula, by_size in said.items():
        full = f"{m.architecture}.{KEYS[formula][0]}"
        value = m.get(full)
        whole = isinstance(value, int) and not isinstance(value, bool)
        # Two tensors at least must say so, and all the same: one alone may be what is wrong.
        if whole and len(by_size) == 1:
            ((size, names),) = by_size.items()
            if len(names) > 1 and size:
                out[full, size] = names
    return out


@rule(Severity.ERROR, known_arch=True)
def size_key_mismatch(m: Model, ctx: Context) -> Drafts:
    """A size in the keys contradicts all tensors alike.

    Why. llama.cpp complains about the first tensor, which looks like a damaged download; it is the key that is wrong.
    Evidence. `llama-model-loader.cpp:check_tensor_dims` (b11434): "tensor 'blk.0.ffn_gate.weight' has wrong shape".
    Example. llama.feed_forward_length is 96, 3 tensors say 128: blk.0.ffn_gate.weight …
    Fix. `gguftool fix --set feed_forward_length=128`.
    """
    s = surveyed(m, ctx)
    told = tuple(caused(m, ctx, "size-key-mismatch"))
    if s.machine is None and not told:
        yield blocked(s)
        return
    alike = _by_key(m, s)
    if told or root(m, ctx).readings:
        yield from (_counted(m, alike, draft) for draft in told)
        return
    for (key, size), names in alike.items():
        yield found(_alike(m, key, size, names), where=f"field:{key}", tensors=names, tensors_say=size)


def _alike(m: Model, key: str, size: int, names: list[str]) -> str:
    return f"{key} is {m.get(key)}, {len(names)} tensors say {size}: {names[0]} …"


def _counted(m: Model, alike: dict[tuple[str, int], list[str]], draft: Draft) -> Draft:
    """The finding of one wrong key with the tensors that say so."""
    ops = draft.fix.operations if draft.fix is not None else ()
    if len(ops) == 1 and isinstance(ops[0], Set) and "readings" not in draft.data:
        key, size = ops[0].key, ops[0].value
        for (known, say), names in alike.items():
            if (known, say) == (key, size):
                return replace(draft, message=_alike(m, known, say, names), data={"tensors": names, "tensors_say": say})
    return draft


@rule(Severity.ERROR, known_arch=True)
def head_size_mismatch(m: Model, ctx: Context) -> Drafts:
    """The head size of the keys must be that of the attention tensors.

    Why. Without `attention.key_length` llama.cpp takes embedding_length / head_count. Models with another head size
    (Gemma, Qwen3, Mistral-Nemo) then fail with a text about shapes that looks like a damaged file.
    Evidence. llama.cpp issue 12376; "tensor 'blk.0.attn_q.weight' has wrong shape; expected 64, 64, got 64, 160".
    Example. the attention tensors have heads of 80, the keys give 32 (embedding_length / head_count)
    Fix. `gguftool fix --set attention.key_length=80 --set attention.value_length=80`.
    """
    s = surveyed(m, ctx)
    told = tuple(caused(m, ctx, "head-size-mismatch"))
    if s.machine is None:
        yield from told or (blocked(s),)
        return
    for draft in told:
        size = {op.value for op in (draft.fix.operations if draft.fix else ()) if isinstance(op, Set)}
        if len(size) != 1 or "readings" in draft.data:
            yield draft
            continue
        ((head,), expected) = (size, s.machine.names["n_embd_head_k()"]())
        source = "attention.key_length" if f"{m.architecture}.{KEY_LENGTH}" in m else "embedding_length / head_count"
        if draft.where.endswith("value_length"):
            expected, source = s.machine.names["n_embd_head_v()"](), "attention.value_length"
        text = f"the attention tensors have heads of {head}, the keys give {expected} ({source})"
        names = [n for n in s.misshaped if s.wanted[n].slot in ATTENTION]
        yield replace(draft, message=text, data={"head_size": head, "keys_give": expected, "tensors": names})


@rule(Severity.INFO, known_arch=True)
def head_size_unusual(m: Model, ctx: Context) -> Drafts:
    """Head size apart from embedding_length / head_count: the file says so on purpose, and is consistent.

    Why. Programs that compute the head size instead of reading `attention.key_length` call such files broken. When
    keys and tensors agree, as here, the fault lies with the program.
    Evidence. llama.cpp issue 12376 (OLMo-2 32B): every published file was right, the loader was not.
    Example. heads of 256 by attention.key_length, not 160 (embedding_length / head_count); keys and tensors agree
    Fix. None needed.
    """
    s = surveyed(m, ctx)
    if s.machine is None or s.problem:
        yield blocked(s)
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
