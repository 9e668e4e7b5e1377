"""What one llama.cpp build does with a file, out of its source tree: the documents that `maps.py` stores.

``lists``: architectures, pre-tokenizers, tokenizers, tensor types, wordings; ``graphs``: what stands of the graphs in
`load_maps.json`; ``common``: what every architecture reads; ``class/NAME``: rows of one loading function.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from architectures import FLAGS, _listed
from graph import assertions, graph_texts, looks, owner, slots_of, unused
from load_map import SCALE
from rows import compact, used_names, uses_type
from source import Tables, tables
from vocabulary import loading_text, vocabulary

from builds.layouts import modern, new_parts, old_parts, renames, spoken
from builds.marks import arrays, limits, marks

Row = list[Any]
Documents = dict[str, Any]
OF_ALL_LAYERS = frozenset({"h.n_head", "h.n_head_kv", "h.n_ff"})
"""Numbers of all layers, which the evaluator looks at in the trees that have no such numbers by layer."""
TYPE = re.compile(r"^\s*GGML_TYPE_(?!COUNT)(\w+)\s*=\s*(\d+),", re.M)
TRAIT = re.compile(r"\[GGML_TYPE_(?!COUNT)(\w+)\]\s*=\s*\{(.*?)\n    \}", re.S)


def edition(tree: Path, newest: dict[str, Any]) -> tuple[Documents, list[str]]:
    """The documents of a tree, and what could not be read.

    Args:
        tree: top folder of the sources.
        newest: `load_maps.json`, for the names of its classes.

    Raises:
        OSError, ValueError: the tree is not laid out in a way that is known here.
    """
    src = tree / "src" if (tree / "src" / "llama.cpp").exists() else tree
    file = src / "llama-hparams.h"
    header = (file if file.exists() else src / "llama.cpp").read_text(encoding="utf-8")
    t = tables(src, renames(header))
    t.constants = {name: str(value) for name, value in limits(tree).items()}
    raw, common, gaps = (new_parts if modern(t) else old_parts)(t)
    parts = raw if modern(t) else {(_class(arch, newest), part): rows for (arch, part), rows in raw.items()}
    used = used_names({**parts, ("", "common"): common}) | OF_ALL_LAYERS
    keep_type = any(uses_type(rows) for rows in parts.values())
    out: Documents = {}
    for (name, part), rows in parts.items():
        small = spoken(compact(rows, part, used, uses_type(rows)), header)
        out.setdefault(f"class/{name}", {})[part] = small
    families = _families(t, parts, newest)
    out["common"] = spoken(compact(common, "hparams", used, keep_type), header)
    if modern(t):
        out["graphs"] = _graphs(t, families, out)
    out["lists"] = _lists(tree, t, families, gaps)
    return out, gaps


def _class(arch: str, newest: dict[str, Any]) -> str:
    """Name of an architecture's rows: of its class in the newest tree, where the class is its own alone."""
    there = newest["arch"].get(arch)
    users = [a for a, c in newest["arch"].items() if c == there]
    return there if isinstance(there, str) and users == [arch] else arch


def _families(t: Tables, parts: dict[tuple[str, str], Any], newest: dict[str, Any]) -> dict[str, Any]:
    """Architecture -> name of its rows, or of both where they differ."""
    if not modern(t):
        there = {name for name, part in parts if part == "hparams"} & {n for n, part in parts if part == "tensors"}
        names = {arch: _class(arch, newest) for arch in t.archs.values()}
        return {arch: name for arch, name in names.items() if name in there}

    def of(arch: str, part: str) -> str:
        family = t.families[arch]
        while (family, part) not in parts:
            family = t.parents[family]
        return family

    pairs = {arch: (of(arch, "hparams"), of(arch, "tensors")) for arch in t.families}
    return {arch: h if h == x else [h, x] for arch, (h, x) in pairs.items()}


def _graphs(t: Tables, families: dict[str, Any], out: Documents) -> Documents:
    """What the graphs say, as `load_map.py:load_maps` has it."""
    texts = graph_texts(t)
    graphs = {f: rows for f in texts if (rows := assertions(t, texts[f], f))}
    gating = {f for f, x in texts.items() if re.search(r"build_moe_ffn\([^;]*hparams\.expert_gating_func", x)}
    ignored = {}
    for arch, names in families.items():
        name = names if isinstance(names, str) else names[1]
        if rest := unused(t, texts, t.families[arch], slots_of(out[f"class/{name}"]["tensors"])):
            ignored[arch] = rest
    return {
        "graph": {a: graphs[f] for a, c in t.families.items() if (f := owner(t, c, graphs))},
        "looks": looks(t, texts),
        "gating": sorted(a for a, c in t.families.items() if c in gating or t.parents.get(c) in gating),
        "unused": ignored,
    }


def _lists(tree: Path, t: Tables, families: dict[str, Any], gaps: list[str]) -> Documents:
    model = t.read("llama-model.cpp")
    known, missing = vocabulary(t, "")
    gaps += [gap for gap in missing if gap.endswith("pre-tokenizers") and "pre-tokenizer type" in loading_text(t)]
    del known["source"]
    types = _types(tree)
    arch = t.read("llama-arch.cpp")
    flags = {flag: _listed(arch, name, answer) for flag, name, answer in FLAGS[:2]}
    return {
        "names": [name for name in t.archs.values() if name != "(unknown)"],
        "arch": families,
        "flags": {flag: sorted(t.archs[x] for x in labels if x in t.archs) for flag, labels in flags.items()},
        "scales": [[slot, t.tensors[x].replace("blk.%d.", "")] for slot, x in SCALE.findall(model)],
        "ops": {t.tensors[i]: op for i, op in t.ops.items()},
        "scaling": sorted(re.findall(r'\{\s*LLAMA_ROPE_SCALING_TYPE_\w+,\s*"(\w+)"', model)),
        "vocabulary": known,
        "tokenizers": _tokenizers(t),
        "types": types,
        "limits": limits(tree),
        "arrays": arrays(tree),
        "marks": marks(tree),
    }


def _tokenizers(t: Tables) -> list[str]:
    return sorted(set(re.findall(r'tokenizer_(?:model|name) == "(\w+)"', loading_text(t))))


def _ggml(tree: Path, name: str) -> str:
    """A file of ggml, which lay at the top of the tree until 2024."""
    file = tree / "ggml" / name
    return (file if file.exists() else tree / Path(name).name).read_text(encoding="utf-8")


def _types(tree: Path) -> dict[str, Any]:
    """Numbers of the tensor types that this build reads, and the number behind the last."""
    header = _ggml(tree, "include/ggml.h")
    count = re.search(r"GGML_TYPE_COUNT(?:\s*=\s*(\d+))?,", header)
    numbers = {name: int(n) for name, n in TYPE.findall(header)}
    code = _ggml(tree, "src/ggml.c")
    blocks = dict(TRAIT.findall(code))
    known = [n for name, n in numbers.items() if ".blck_size" in blocks.get(name, "") and not _removed(blocks[name])]
    behind = int(count[1]) if count and count[1] else max(numbers.values()) + 1
    return {"count": behind, "known": sorted(known)}


def _removed(trait: str) -> bool:
    return re.search(r"\.blck_size\s*=\s*0,", trait) is not None
