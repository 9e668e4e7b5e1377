"""What a graph demands of the hyperparameters, and which tensors it never looks at."""

from __future__ import annotations

import re
from typing import Any

from cpp_operators import Unsupported
from expressions import Expressions
from rows import tidy
from source import Tables, body, functions
from words import METHODS

Row = list[Any]
MEMBERS = frozenset(
    "n_embd n_layer n_rot n_head n_head_kv n_embd_head_k n_embd_k_gqa n_embd_head_v n_embd_v_gqa n_expert "
    "n_expert_used n_layer_nextn".split()
)
WORDS = METHODS | {"h", "and", "or", "not", "if", "else", "True", "False", "u32", "i32"}
CONSTRUCTOR = (
    r"llama_model_%s::graph(?:<\w+>)?::graph\(\s*const llama_model & \w+,\s*const llm_graph_params & \w+\)"
    r"\s*:\s*[^{]*\{"
)
LAYERS = re.compile(r"for \(int il = 0; il < n_layer; \+\+il\) \{")
DECLARATION = re.compile(r"(?:const )?(?:int64_t|int|uint32_t|bool|auto|int32_t)\s+(\w+)\s*=\s*(.*);$", re.S)
ALWAYS = frozenset(
    "output tok_embd output_norm rope_freqs rope_long rope_short cls cls_b cls_out cls_out_b cls_norm "
    "dense_2_out_layers dense_2_out_layers_b dense_3_out_layers output_s".split()
)
QKV = frozenset("wq wk wv wqkv wq_b wk_b wv_b wqkv_b wq_s wk_s wv_s wqkv_s".split())


def owner(t: Tables, family: str, have: dict[str, Any]) -> str | None:
    """The family whose graph this one uses."""
    while family and family not in have:
        family = t.shared_graphs.get(family) or (p if (p := t.parents.get(family, "base")) != "base" else "")
    return family or None


def assertions(t: Tables, text: str, family: str) -> list[Row]:
    """Assertions about hyperparameters at the head of a graph and of its loop over the layers."""
    m = re.search(CONSTRUCTOR % family, text)
    if m is None:
        return []
    parser = Expressions("x", t)
    known, head, loop = set(MEMBERS), [], []
    depth, inside = 0, None
    for piece in re.split(r"(?<=[;{}])\s*", body(text, m.end() - 1)):
        statement = piece.strip()
        if statement.endswith("{"):
            depth += 1
            if LAYERS.match(statement) and depth == 1 and inside is None:
                inside = depth
                known.add("il")
        elif statement.endswith("}"):
            inside = 0 if depth == inside else inside
            depth -= 1
        elif statement and (depth == 0 or depth == inside):
            row = _row(parser, statement, known)
            if row is not None:
                (head if depth == 0 else loop).append(row)
    return _needed(head, loop)


def _row(parser: Expressions, statement: str, known: set[str]) -> Row | None:
    declared = DECLARATION.match(statement)
    text = re.sub(r"\s+", " ", declared[2] if declared else statement[12:-2])
    if not (declared or statement.startswith("GGML_ASSERT(")):
        return None
    try:
        value = tidy(parser.translated(text))
    except (Unsupported, SyntaxError):
        value = ""
    names = set(re.findall(r"(?<![\w.'])([a-zA-Z_]\w*)", re.sub(r"'[^']*'", "", value)))
    simple = bool(value) and names <= known | WORDS and "f_" not in value
    if declared:
        (known.add if simple else known.discard)(declared[1])
        return ["let", declared[1], value] if simple else None
    return ["assert", value, f"GGML_ASSERT({text}) failed"] if simple else None


def _needed(head: list[Row], loop: list[Row]) -> list[Row]:
    """Only the assertions and the names they use."""

    def prune(rows: list[Row], names: set[str]) -> list[Row]:
        out = []
        for row in reversed(rows):
            if row[0] == "assert" or row[1] in names:
                out.append(row)
                names |= set(re.findall(r"\b[a-z_]\w*\b", row[1] if row[0] == "assert" else row[2]))
        return out[::-1]

    if not any(row[0] == "assert" for row in head + loop):
        return []
    names: set[str] = set()
    loop = prune(loop, names) if any(row[0] == "assert" for row in loop) else []
    head = prune(head, names)
    return [*head, ["for", "il", "0", "n_layer", loop]] if loop else head


def graph_texts(t: Tables) -> dict[str, str]:
    """Source of every family without its loading functions."""
    out: dict[str, str] = {}
    for path in t.files():
        text = t.read(f"models/{path.name}")
        for name, inside in functions(text).items():
            if "load_arch" in name:
                text = text.replace(inside, "")
        for family in set(re.findall(r"llama_model_(\w+)::", text)):
            out[family] = out.get(family, "") + text
    return out


OWN = {
    "n_head": r"n_head\(i[l]?\)",
    "n_head_kv": r"n_head_kv\(i[l]?\)",
    "n_rot": r"hparams\.n_rot\(il\)|hparams\.n_rot_swa",
    "head_size": r"n_embd_head_[kv]\(i[l]?\)",
    "norm": r"\bLLM_NORM\b|\bf_norm_eps\b",
    "norm_rms": r"\bLLM_NORM_RMS\b|\bf_norm_rms_eps\b",
    "steering": r"\bbuild_cvec\(",
}
"""What a graph may look at layer by layer (all others take the first layer's), which of the two norms it has, and
whether it adds control vectors."""


def looks(t: Tables, texts: dict[str, str]) -> dict[str, list[str]]:
    """Architectures by what their graphs look at: the names of `OWN`."""
    graphs = {f: x for f, x in texts.items() if re.search(CONSTRUCTOR % f, x)}
    bases = {p.name.removesuffix("-base.cpp"): t.read(f"models/{p.name}") for p in t.files() if "-base." in p.name}
    out: dict[str, list[str]] = {name: [] for name in OWN}
    for arch, family in t.families.items():
        own = owner(t, family, graphs)
        text = graphs.get(own or "", "")
        text += "".join(more for name, more in bases.items() if f"build_{name.replace('-', '_')}" in text)
        for name, pattern in OWN.items():
            if re.search(pattern, text):
                out[name].append(arch)
    return out


def unused(t: Tables, texts: dict[str, str], family: str, slots: set[str]) -> list[str]:
    """Places of tensors that the graph of a family never mentions."""
    shared = "".join(t.read(f"models/{p.name}") for p in t.files() if p.name.endswith("-base.cpp"))
    text, seen, at = "", set(), family
    while at and at not in seen:
        seen.add(at)
        text += texts.get(at, "")
        at = t.shared_graphs.get(at) or (p if (p := t.parents.get(at, "base")) != "base" else "")
    if re.search("mamba|delta|rwkv", text):
        text += shared
    known = ALWAYS | (QKV if "build_qkv(" in text else frozenset())
    return sorted(s for s in slots - known if not re.search(rf"(?:\.|->|\b){re.escape(s.split('.')[-1])}\b", text))


def slots_of(rows: list[Row]) -> set[str]:
    """Places of tensors that rows fill."""
    out: set[str] = set()
    for row in rows:
        if row[0] == "tensor" and row[5]:
            out.add(row[5])
        elif row[0] == "do" and row[1].startswith("qkv("):
            out |= {"wq", "wk", "wv", "wqkv", "wq_b", "wk_b", "wv_b", "wqkv_b"}
        elif row[0] == "do" and row[1].startswith("gate_up"):
            out |= {"ffn_gate_up_exps", "ffn_gate_exps", "ffn_up_exps"}
        for part in row[1:]:
            if isinstance(part, list) and part and isinstance(part[0], list):
                out |= slots_of(part)
    return out
