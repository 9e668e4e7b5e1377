"""`load_maps.json`: what llama.cpp's loading functions read and ask for, as rows.

The two loading functions of every model family are read by a small parser of just the C++ they use, and become rows:
keys with their types, tensors with their shapes. `measured.json` holds what was found by asking the real library:
tensors a graph needs though the loader calls them optional, demands of graphs that no assertion states, and weights
that the graph multiplies with without asking the adapters.
"""

from __future__ import annotations

import re
from typing import Any

from graph import assertions, graph_texts, looks, owner, slots_of, unused
from patches import patched
from rows import READS, compact, used_names, uses_type
from source import Tables, body, functions
from statements import Statements

SCALE = re.compile(
    r"if \(!layer\.[\w.]+?_s && layer\.([\w.]+)\) \{\s*layer\.[\w.]+ = "
    r'create_tensor\(tn\((LLM_TENSOR_\w+),\s*"scale"'
)


def loading_rows(t: Tables) -> tuple[dict[tuple[str, str], list[Any]], list[str]]:
    """Rows of every family and part as translated, and what could not be read."""
    out: dict[tuple[str, str], list[Any]] = {}
    skipped: list[str] = []
    for path in t.files():
        text = patched(t.read(f"models/{path.name}"))
        table = re.search(r"GLM_5_2_DEFAULT_INDEXER_TYPES = (\{[^}]*\})", text)
        for name, inside in functions(text).items():
            m = re.fullmatch(r"llama_model_(\w+)::load_arch_(hparams|tensors)", name)
            if m is None:
                continue
            parser = Statements(inside, t)
            parser.constants["__func__"] = repr(f"load_arch_{m[2]}")
            if table:
                values = ", ".join(re.findall(r"\d+", table[1]))
                parser.constants["GLM_5_2_DEFAULT_INDEXER_TYPES"] = f"[{values}]"
            out[m[1], m[2]] = parser.rows()
            skipped += [f"{m[1]}/{m[2]}: {why}" for why in parser.skipped]
    return out, skipped


def common_rows(t: Tables) -> tuple[list[Any], list[str]]:
    """What `load_hparams` reads for every architecture, and what could not be read."""
    text = t.read("llama-model.cpp")
    start = re.search(r"void llama_model_base::load_hparams\(llama_model_loader & ml\) \{", text)
    if start is None:
        return [], ["llama-model.cpp: no load_hparams"]
    inside = body(text, start.end() - 1)
    parser = Statements(patched(common_text(inside[: inside.index("load_arch_hparams(ml)")])), t)
    return parser.rows(), [f"load_hparams: {why}" for why in parser.skipped]


def common_text(text: str) -> str:
    """What `load_hparams` does before it asks the architecture, from the first key on."""
    return text[text.index("ml.get_key(LLM_KV_GENERAL_NAME") :]


def reading(rows: list[Any]) -> list[Any]:
    """Only the rows that read a key or refuse one, and the conditions they stand under."""
    out: list[Any] = []
    for row in rows:
        if row[0] == "if":
            yes, no = reading(row[2]), reading(row[3]) if len(row) > 3 else []
            if yes or no or READS.search(row[1]):
                out.append(["if", row[1], yes, *([no] if no else [])])
        elif row[0] in ("key", "fail") or (row[0] == "do" and READS.search(row[1])):
            out.append(row)
    return out


def enumerations(t: Tables) -> dict[str, dict[str, Any]]:
    """Values that keys may have where a program of llama.cpp looks at them long after it has read them.

    Numbers by name, or texts by what they stand for; an unknown number aborts, an unknown activation is another one.
    """
    header = (t.src.parent / "include" / "llama.h").read_text(encoding="utf-8")
    hparams, model = t.read("llama-hparams.h"), t.read("llama-model.cpp")
    common = (t.src.parent / "common" / "common.cpp").read_text(encoding="utf-8")

    def numbers(text: str, prefix: str) -> dict[str, int]:
        found = re.findall(rf"\b{prefix}_(\w+)\s*=\s*(-?\d+)", text)
        return {name.lower(): int(value) for name, value in found}

    def texts(table: str, source: str = model) -> dict[str, str]:
        start = source.index("{", source.index(f"> {table} = "))
        inside = body(source, start)
        pairs = re.findall(r'\{\s*(?:"(\w+)",\s*(\w+)|(\w+),\s*"(\w+)")\s*\}', inside)
        return {a or d: (b or c).rpartition("_")[2].lower() for a, b, c, d in pairs}

    return {
        "pooling_type": numbers(header, "LLAMA_POOLING_TYPE"),
        "expert_gating_func": numbers(hparams, "LLAMA_EXPERT_GATING_FUNC_TYPE"),
        "rope.scaling.type": texts("LLAMA_ROPE_SCALING_TYPES"),
        "hidden_activation": texts("LLM_FFN_OP_TYPES_FROM_STRING"),
        "decision.type": texts("COMMON_DECISION_TYPE_NAMES", common),
    }


def load_maps(t: Tables, measured: dict[str, Any], build: str) -> tuple[dict[str, Any], list[str]]:
    """The whole data file, and what could not be read."""
    raw, skipped = loading_rows(t)
    common, gaps = common_rows(t)
    skipped += gaps
    used = used_names(raw)
    classes: dict[str, dict[str, Any]] = {}
    for (family, part), rows in raw.items():
        classes.setdefault(family, {})[part] = compact(rows, part, used, uses_type(rows))

    def family_of(arch: str, part: str) -> str:
        family = t.families[arch]
        while part not in classes.get(family, {}):
            family = t.parents[family]
        return family

    parts = {a: [family_of(a, "hparams"), family_of(a, "tensors")] for a in t.families}
    text = t.read("llama-model.cpp")
    scales = [[slot, t.tensors[tensor].replace("blk.%d.", "")] for slot, tensor in SCALE.findall(text)]
    texts = graph_texts(t)
    graphs = {f: rows for f in texts if (rows := assertions(t, texts[f], f))}
    graph = {a: graphs[f] for a, c in t.families.items() if (f := owner(t, c, graphs))}
    for arch, rows in measured["graph"].items():
        graph[arch] = graph.get(arch, []) + rows
    gating = {f for f, x in texts.items() if re.search(r"build_moe_ffn\([^;]*hparams\.expert_gating_func", x)}
    ignored = {}
    for arch, (_, family) in parts.items():
        slots = slots_of(classes[family]["tensors"])
        slots |= {f"{slot}_s" for slot, _ in scales if slot in slots}
        if rest := unused(t, texts, t.families[arch], slots):
            ignored[arch] = rest
    return {
        "build": build,
        "arch": {a: h if h == x else [h, x] for a, (h, x) in parts.items()},
        "common": reading(compact(common, "hparams", used, False)),
        "classes": classes,
        "ops": {t.tensors[i]: op for i, op in t.ops.items()},
        "scales": scales,
        "graph": graph,
        "decode": measured["decode"],
        "enums": enumerations(t),
        "looks": looks(t, texts),
        "gating": sorted(a for a, c in t.families.items() if c in gating or t.parents.get(c) in gating),
        "needs": measured["needs"],
        "unused": ignored,
        "plain": measured["plain"],
        "unadapted": measured["unadapted"],
    }, skipped
