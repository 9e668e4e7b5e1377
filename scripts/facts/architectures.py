"""`architectures.json`: what llama.cpp decides about an architecture outside its loading function.

Rotation (`llama_model_rope_type`), the kind of memory (`create_memory`), and the lists of `llama-arch.cpp`. What the
loading functions read and decide is in `load_maps.json`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from graph import graph_texts
from source import Tables, body

Row = list[Any]
NONE = "unsupported"
WITHOUT_CLASS = 'name known, no model class: "unsupported model architecture"'
STUBS = {"clip": 'quantize-only stub; "CLIP cannot be used as main model"'}
"""Architectures whose class does not load (`llama-model.cpp:llama_model_load`)."""
FLAGS = (
    ("hybrid", "llm_arch_is_hybrid", "true"),
    ("recurrent", "llm_arch_is_recurrent", "true"),
    ("diffusion", "llm_arch_is_diffusion", "true"),
    ("rs_rollback", "llm_arch_supports_rs_rollback", "true"),
    ("no-sm-tensor", "llm_arch_supports_sm_tensor", "false"),
)
DRAWN = (
    ("mtp", r"llama_model_{}::build_arch_graph", r"params\.gtype == LLM_GRAPH_TYPE_DECODER_MTP"),
    ("mtp-one", r"llama_model_{}::build_arch_graph", r"GGML_ASSERT\(hparams\.n_layer_nextn == 1 "),
    ("layer-inputs", r"llama_model_{}::graph(?:<\w+>)?::graph\(", r"res->t_layer_inp\["),
    ("head-input", r"llama_model_{}::graph(?:<\w+>)?::graph\(", r"res->t_layer_inp\[n_layer\]"),
)
"""Flag, where it is decided, and what stands there: it can draft with its own prediction layers, and ends when there is
more than one; its graph gives a draft what goes into its layers, and into its output layer."""
SPECIAL = {
    "llama_kv_cache_msa": "msa",
    "llama_kv_cache_dsa": "dsa",
    "llama_kv_cache_dsa_iswa": "dsa-iswa",
    "llama_kv_cache_dsv4": "dsv4",
    "llama_memory_hybrid_idx": "hybrid-indexer",
    "nullptr": "none",
}
"""Memory classes of the cases that `create_memory` makes itself, in the words of `memory/kv.py`; the last one made
for a main context counts."""


def _function(text: str, head: str) -> str:
    start = re.search(head + r"[^{;]*\{", text)
    return body(text, start.end() - 1) if start else ""


def _groups(text: str) -> Iterator[tuple[list[str], str]]:
    """Labels and what stands behind them, of each case of a switch."""
    parts = re.split(r"((?:\bcase LLM_ARCH_\w+:\s*|\bdefault:\s*)+)", text)
    for labels, rest in zip(parts[1::2], parts[2::2], strict=True):
        yield re.findall(r"LLM_ARCH_\w+", labels) + (["default"] if "default" in labels else []), rest


def _listed(text: str, name: str, answer: str) -> set[str]:
    """Architectures for which a yes/no function of `llama-arch.cpp` gives that answer."""
    found: set[str] = set()
    for labels, rest in _groups(_function(text, rf"bool {name}\(")):
        if re.search(rf"return {answer};", rest.partition("default:")[0]) and "default" not in labels:
            found |= set(labels)
    return found


def _ropes(text: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for labels, rest in _groups(_function(text, r"llama_rope_type llama_model_rope_type\(")):
        kinds = [k.lower() for k in re.findall(r"LLAMA_ROPE_TYPE_(\w+)", rest.partition("\n    }\n")[0])]
        out |= dict.fromkeys(labels, "-or-".join(dict.fromkeys(kinds)))
    return out


def window(rows: list[Row], include: Callable[[str], list[Row]], inside: bool = False) -> str:
    """Whether the rows set a window: ``sometimes``, ``everywhere`` or ``""``."""
    best = ""
    for row in rows:
        if row[:2] == ["set", "h.swa_type"] and row[2] != "'none'":
            found = "sometimes" if inside else "everywhere"
        elif row[0] == "if":
            found = max((window(part, include, True) for part in row[2:]), key=len)
        elif row[0] == "include":
            found = window(include(row[1]), include, inside)
        else:
            continue
        best = max(best, found, key=len)
    return best


def _reads(rows: list[Row], include: Callable[[str], list[Row]], key: str) -> bool:
    return any(
        _reads(include(row[1]), include, key) if row[0] == "include" else f"'{key}'" in repr(row) for row in rows
    )


def _memories(text: str) -> tuple[dict[str, str], list[str]]:
    """Memory classes of the cases of `create_memory`, and what could not be read."""
    out: dict[str, str] = {}
    gaps: list[str] = []
    for labels, rest in _groups(_function(text, r"llama_memory_i \* llama_model::create_memory\(")):
        made = re.findall(r"res = (?:new )?(\w+)", rest)
        if "default" in labels or "[[fallthrough]]" in rest:
            continue
        words = {SPECIAL.get(m, "") for m in made} - {""}
        known = {*SPECIAL, "llama_kv_cache", "llama_kv_cache_iswa"}
        if words == {"dsa"} and "hparams.indexer_top_k == 0" in rest:
            words = {"mla-indexer"}  # a checkpoint without an indexer keeps a plain cache
        if len(words) != 1 or not set(made) <= known:
            gaps += [f"create_memory: {', '.join(labels)} makes {', '.join(made) or 'nothing'}"]
        else:
            out |= dict.fromkeys(labels, words.pop())
    return out, gaps


ATTENDS = {
    "true": "all",
    "!hparams.is_recr(il) && hparams.n_ff(il) == 0": "no-ff",
    "il < hparams.n_layer() && !hparams.is_recr(il)": "trunk",
}
"""Which layers of a hybrid attend, by the filter that `create_memory` gives its attention cache."""
_FILTER = re.compile(r"filter_attn = \[&\]\(uint32_t(?: il)?\) \{\s*return (.*?);\s*\};")
_CHOICE = re.compile(r"if \(((?:arch == LLM_ARCH_\w+(?: \|\| )?)+)\) \{\s*filter_attn")


def _attends(text: str) -> tuple[dict[str, str], list[str]]:
    """Code of the filter of every hybrid that has one of its own, and what could not be read."""
    out: dict[str, str] = {}
    gaps: list[str] = []
    inside = _function(text, r"llama_memory_i \* llama_model::create_memory\(")
    for labels, rest in _groups(inside):
        places = [(m.start(), re.findall(r"LLM_ARCH_\w+", m[1])) for m in _CHOICE.finditer(rest)]
        if "default" not in labels and "filter_attn" in rest:
            places = [(0, labels)]
        for at, archs in places:
            told = _FILTER.search(rest, at)
            code = ATTENDS.get(re.sub(r"\s+", " ", told[1])) if told else None
            if code is None:
                gaps.append(f"create_memory: filter of {', '.join(archs)}: {told[1] if told else 'none'}")
            else:
                out |= dict.fromkeys(archs, code)
    return out, gaps


_NODES = re.compile(r"n_tokens \* (\d+), (\d+)u ?\* ?model\.n_tensors")


def _nodes(text: str) -> dict[str, list[int]]:
    """Nodes of a graph for each token of a batch and for each tensor, of architectures that have more than the others.

    Those that need more under some settings only are left out.
    """
    out: dict[str, list[int]] = {}
    for part in re.split(r"\belse\b", _function(text, r"llama_context::graph_max_nodes\(")):
        if found := _NODES.search(part):
            for label in re.findall(r"model\.arch == (LLM_ARCH_\w+)(?! &&)\b", part):
                out[label] = [int(found[1]), int(found[2])]
    return out


def architectures(
    t: Tables, maps: dict[str, Any], measured: dict[str, Any], build: str
) -> tuple[dict[str, Any], list[str]]:
    """The data file, and what could not be read."""
    model, arch = t.read("llama-model.cpp"), t.read("llama-arch.cpp")
    ropes, texts = _ropes(model), graph_texts(t)
    needs = re.search(r"needs_mem_idx = \((.*?)\);", model)
    indexed = set(re.findall(r"LLM_ARCH_\w+", needs[1])) if needs else set()
    memories, gaps = _memories(model)
    attends, more = _attends(model)
    gaps += more
    reuse = re.search(r"if \(((?:arch == LLM_ARCH_\w+(?: \|\| )?)+)\) \{\s*reuse =", model)
    reusing = set(re.findall(r"LLM_ARCH_\w+", reuse[1])) if reuse else set()
    if "reuse = [&]" in model and not reusing:
        gaps.append("create_memory: who reuses caches")
    nodes = _nodes(t.read("llama-context.cpp"))
    if not nodes:
        gaps.append("graph_max_nodes: nobody has a larger graph")
    flags = {flag: _listed(arch, name, answer) for flag, name, answer in FLAGS}
    gaps += [f"llama-arch.cpp: no {name}" for flag, name, _ in FLAGS if not flags[flag]]

    def rows(family: str) -> list[Row]:
        return list(maps["classes"][family]["hparams"])

    out: dict[str, dict[str, Any]] = {}
    for label, name in t.archs.items():
        if name == "(unknown)":
            continue
        entry: dict[str, Any] = {"rope": ropes.get(label, "")}
        if not entry["rope"]:
            gaps.append(f"llama_model_rope_type: {name}")
        family = maps["arch"].get(name)
        family = family[0] if isinstance(family, list) else family
        if family is None or name in STUBS:
            entry |= {"memory": NONE, "unsupported": STUBS.get(name, WITHOUT_CLASS)}
        else:
            said = window(rows(family), rows)
            entry["memory"] = memories.get(label) or _default(label, flags, said, rows, family, label in indexed)
            still = name in measured["unroped"] or not _rotates(t, texts, t.families[name])
            if entry["rope"] != "none" and still:
                entry["unroped"] = True
        if label in reusing:
            entry["reuses_kv"] = True
        if label in attends:
            entry["attends"] = attends[label]
        if label in nodes:
            entry["nodes"] = nodes[label]
        own = [flag for flag, archs in flags.items() if label in archs]
        if "unsupported" not in entry:
            own += [flag for flag, place, code in DRAWN if re.search(code, _drawn(t, texts, t.families[name], place))]
        if own:
            entry["flags"] = own
        out[name] = entry
    return {"build": build, "architectures": out}, gaps


def _default(
    label: str, flags: dict[str, set[str]], said: str, rows: Callable[[str], list[Row]], family: str, indexed: bool
) -> str:
    """What the default case of `create_memory` makes."""
    if label in flags["recurrent"]:
        return "recurrent"
    if label in flags["hybrid"]:
        return "hybrid-indexer" if indexed else "hybrid-iswa" if said else "hybrid"
    if said:
        return "iswa" if said == "everywhere" else "iswa-if-window"
    return "mla" if _reads(rows(family), rows, "attention.key_length_mla") else "kv"


def _drawn(t: Tables, texts: dict[str, str], family: str, place: str) -> str:
    """The source that decides for a family: its own, or that of the family it takes it from."""
    while family:
        own = texts.get(family, "")
        if re.search(place.format(family), own):
            return own
        family = t.shared_graphs.get(family) or (p if (p := t.parents.get(family, "base")) != "base" else "")
    return ""


def _rotates(t: Tables, texts: dict[str, str], family: str) -> bool:
    """Whether the graph of a family rotates anything."""
    seen: set[str] = set()
    text = ""
    while family and family not in seen:
        seen.add(family)
        text += texts.get(family, "")
        family = t.shared_graphs.get(family) or (p if (p := t.parents.get(family, "base")) != "base" else "")
    return "rope" in text
