"""The loading functions of any tree as rows: a class a family (b9000 on), or cases of one large switch (before)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from load_map import common_text, loading_rows
from patches import patched
from source import MISSING, Tables, body
from statements import Statements

Row = list[Any]
Parts = dict[tuple[str, str], list[Row]]
FIELDS = (
    ("n_layer_all", r"hparams\.n_layer\b(?!\()", "hparams.n_layer_all"),
    ("n_embd_head_k_full", r"hparams\.n_embd_head_k\b(?!\()", "hparams.n_embd_head_k_full"),
    ("n_embd_head_v_full", r"hparams\.n_embd_head_v\b(?!\()", "hparams.n_embd_head_v_full"),
    ("n_embd_head_k_mla_impl", r"hparams\.n_embd_head_k_mla\b(?!\()", "hparams.n_embd_head_k_mla_impl"),
    ("n_embd_head_v_mla_impl", r"hparams\.n_embd_head_v_mla\b(?!\()", "hparams.n_embd_head_v_mla_impl"),
    ("n_rot_full", r"hparams\.n_rot\b(?!\()", "hparams.n_rot_full"),
    ("is_swa_impl", r"\bswa_layers\b", "is_swa_impl"),
    ("is_recr_impl", r"\brecurrent_layer_arr\b", "is_recr_impl"),
    ("is_recr(", r"\bis_recurrent\(", "is_recr("),
)
"""A member of `llama_hparams` in the newest tree, and what it was called before."""
EVERYWHERE = (
    (r"\bauto & hparams = model\.hparams;", ""),
    (r"\blayer\.b([qkvo])\b", r"layer.w\1_b"),
    (r"std::fill\(\s*hparams\.is_recr_impl[^;]*llm_arch_is_recurrent[^;]*;", ""),
    (r"\b(?:e_model::)?MODEL_(?=\d|UNKNOWN|SMALL|MEDIUM|LARGE|XL)", "LLM_TYPE_"),
    # 2024: tensors are asked for with the context they go to, and merged or counted by hand
    (r"(?:auto|(?:struct )?ggml_context)\s*\*\s*ctx_\w+\s*= [^;]*;", ""),
    (r"ggml_type type_\w+\s*= [^;]*;|layer\.\w+\s*= ggml_new_tensor_3d\([^;]*;|ggml_set_name\([^;]*;", ""),
    (r"ml\.create_tensor_as_view\(ctx_\w+, [\w.]+,\s*(tn\([^)]*\)), (\{[^}]*\}),[^;]*;", r"create_tensor(\1, \2);"),
    (r"layer\.\w+_exp\[x\]\s*= ", ""),
    (r"\bml\.size_data \+= [^;]*;", ""),
    (r"gguf_find_tensor\(ml\.(?:ctx_gguf|meta), (tn\([^;]*?\.c_str\(\))\) >= 0", r"ml.get_tensor_meta(\1) != nullptr"),
    (r"(\w+) << 2\b", r"\1 * 4"),
    (r"\bml\.create_tensor\(\s*ctx_\w+(?:\(\w+\))?,\s*", "create_tensor("),
    (r"(create_tensor\(tn\([^;]*?\),\s*\{[^}]*\})\);(\s*)ml\.n_created--;", r"\1, TENSOR_DUPLICATED);\2"),
    (r"\bn_vocab_type\b", "n_token_types"),
    (r"\bLLAMA_ROPE_SCALING_(?!TYPE)", "LLAMA_ROPE_SCALING_TYPE_"),
    (r"\busing e_model = llm_type;", ""),
    (r"\bget_n_embd_out\(", "n_embd_out("),
    (r"\bmodel\.(?=\w)", ""),
    (r"\bllama_model_loader::(?=TENSOR_)", ""),
    (r"\bvocab\.n_tokens\(\)", "vocabulary_size()"),
    (r"\bllama_rope_scaling_type_from_string\(", "rope_scaling_of("),
)
HPARAMS = r"void (?:llama_model::|llm_)load_hparams\("
TENSORS = r"(?:bool|void) (?:llama_model::|llm_)load_tensors(?:_impl)?\("
NO_EXPERTS = "model has expert layers but no expert layers are used"
_CASE = re.compile(r"case (LLM_ARCH_\w+):|default:")


def renames(header: str) -> tuple[tuple[str, str], ...]:
    """What `llama-hparams.h` of a tree calls otherwise."""
    return (*((old, new) for now, old, new in FIELDS if now not in header), *EVERYWHERE)


def spoken(rows: list[Row], header: str) -> list[Row]:
    """The same rows, with the words of assertions as the tree has them."""
    out: list[Row] = []
    for row in rows:
        inner = [spoken(x, header) if isinstance(x, list) and x and isinstance(x[0], list) else x for x in row]
        if row[0] == "assert":
            for now, old, _ in FIELDS:
                if now not in header and now.isidentifier():
                    inner[2] = re.sub(rf"\b{now}\b", re.sub(r"^hparams|\\[.b]|\(.*", "", old), inner[2])
        out.append(inner)
    return out


def cases(inside: str) -> Iterator[tuple[list[str], str]]:
    """Labels and statements of each case of a switch over architectures."""
    depth, labels, start, at = 0, [], 0, 0
    while at < len(inside):
        char = inside[at]
        if char == '"':
            at = _string_end(inside, at)
            continue
        depth += (char in "{(") - (char in "})")
        hit = _CASE.match(inside, at) if depth == 0 and char in "cd" else None
        if hit is None:
            at += 1
            continue
        if inside[start:at].strip() and labels:
            yield labels, inside[start:at]
            labels = []
        labels.append(hit[1] or "default")
        at = start = hit.end()
    if labels:
        yield labels, inside[start:]


def _string_end(text: str, at: int) -> int:
    found = re.compile(r'"(?:\\.|[^"\\])*"').match(text, at)
    return found.end() if found else at + 1


def _function(text: str, head: str) -> str:
    start = re.search(head + r"[^{;]*\{", text)
    if start is None:
        raise ValueError(f"no {head}")
    return body(text, start.end() - 1)


def _switch(inside: str) -> tuple[str, str]:
    """What stands before the switch over architectures, and in it."""
    start = re.search(r"switch \(arch\) \{", inside)
    if start is None:
        raise ValueError("no switch over architectures")
    return inside[: start.start()], body(inside, start.end() - 1)


def modern(t: Tables) -> bool:
    """Whether the tree has a class for each family."""
    return bool(t.families)


def _own(t: Tables, label: str) -> Tables:
    """The tables as one architecture sees them: names it does not have are missing."""
    if not t.own_names:
        return t
    mine = t.own_names.get(label, {})
    return replace(t, tensors={key: mine.get(key, MISSING) for key in t.tensors})


def old_parts(t: Tables) -> tuple[Parts, list[Row], list[str]]:
    """Rows of every architecture and part out of the two switches, what all read, and what could not be read."""
    text = t.read("llama-model.cpp")
    if not re.search(TENSORS, text):
        text += t.read("llama.cpp")
    t.asks_by_bool = "TENSOR_NOT_REQUIRED" not in text
    out: Parts = {}
    gaps: list[str] = []
    before, hparams = _switch(_function(text, HPARAMS))
    common, missed = _rows(common_text(before), t)
    gaps += [f"load_hparams: {why}" for why in missed]
    prelude, tensors = _switch(_function(text, TENSORS))
    first: list[Row] = []
    if NO_EXPERTS in prelude:
        first = [["if", "(n_expert > 0 and h.n_expert_used == 0)", [["fail", repr(NO_EXPERTS)]], []]]
    for part, inside in (("hparams", hparams), ("tensors", tensors)):
        for labels, statements in cases(inside):
            for label in labels:
                if label == "default" or label not in t.archs:
                    continue
                rows, missed = _rows(_without_break(statements), _own(t, label))
                out[t.archs[label], part] = (first if part == "tensors" else []) + rows
                gaps += [f"{t.archs[label]}/{part}: {why}" for why in missed]
    return out, common, gaps


def _without_break(statements: str) -> str:
    return re.sub(r"break;\s*$", "", statements.strip())


def _rows(text: str, t: Tables) -> tuple[list[Row], list[str]]:
    parser = Statements(patched(text), t)
    return parser.rows(), parser.skipped


def new_parts(t: Tables) -> tuple[Parts, list[Row], list[str]]:
    """As `old_parts`, of a tree with classes."""
    out, gaps = loading_rows(t)
    text = _function(t.read("llama-model.cpp"), r"void llama_model_base::load_hparams\(llama_model_loader & ml\)")
    common, missed = _rows(common_text(text[: text.index("load_arch_hparams(ml)")]), t)
    return out, common, gaps + [f"load_hparams: {why}" for why in missed]
