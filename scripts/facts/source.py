"""llama.cpp's sources as text and tables: names of keys, tensors and architectures, types of hyperparameters."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

FUNCTION = re.compile(r"^(?:void|static\s+\w+|bool|int64_t|uint32_t) (\w+(?:::\w+)?)\(([^)]*)\)\s*(?:const )?\{", re.M)
MEMBER = r"^\s*(?:enum )?({})\s+(\w+)(?:\s*=\s*([^;]+))?;"
HPARAM_TYPES = (
    r"uint32_t|int32_t|float|bool|std::string|llama_token|llama_pooling_type|llama_swa_type|"
    r"std::array<[^>]+>|std::bitset<[^>]+>|std::vector<[^>]+>"
)
RAW = "="
"""Before the name of a tensor that stands as it is: no number, no ending."""
MISSING = "=__missing__"
"""A tensor that an older tree does not name for an architecture (`llama-arch.cpp:LLM_TN_IMPL::str`)."""


def without_comments(text: str) -> str:
    """Drop comments; strings stay."""
    pattern = r'"(?:\\.|[^"\\])*"|/\*.*?\*/|//[^\n]*'
    return re.sub(pattern, lambda m: m[0] if m[0].startswith('"') else "", text, flags=re.S)


def body(text: str, brace: int) -> str:
    """What stands between the brace at that place and its partner."""
    depth = 0
    for i in range(brace, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return text[brace + 1 : i]
    raise ValueError("unbalanced braces")


def functions(text: str) -> dict[str, str]:
    """Bodies of functions by name."""
    return {m[1]: body(text, m.end() - 1) for m in FUNCTION.finditer(text)}


@dataclass
class Tables:
    """Names and types of one llama.cpp source tree (its folder ``src``)."""

    src: Path
    keys: dict[str, str] = field(default_factory=dict)
    tensors: dict[str, str] = field(default_factory=dict)
    archs: dict[str, str] = field(default_factory=dict)
    ops: dict[str, str] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    families: dict[str, str] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    shared_graphs: dict[str, str] = field(default_factory=dict)
    own_names: dict[str, dict[str, str]] = field(default_factory=dict)
    """Names of tensors by architecture, in the trees where each has a table of its own."""
    asks_by_bool: bool = False
    """Whether a tensor is required is said by true and false (until 2024-08), not by flags."""
    constants: dict[str, str] = field(default_factory=dict)
    """What constants of an older tree are otherwise than in the newest."""
    renames: tuple[tuple[str, str], ...] = ()
    """What an older tree calls otherwise than the newest: patterns and what to read instead."""

    def read(self, name: str) -> str:
        """A source file without comments, in the words of the newest tree."""
        file = self.src / name
        if not file.exists() and name.startswith("llama-"):
            file = self.src / "llama.cpp"  # until 2025 all stood in one file
        text = without_comments(file.read_text(encoding="utf-8"))
        for pattern, instead in self.renames:
            text = re.sub(pattern, instead, text)
        return text

    def files(self) -> list[Path]:
        """The files of the model families."""
        return sorted((self.src / "models").glob("*.cpp"))


def tables(src: Path, renames: tuple[tuple[str, str], ...] = ()) -> Tables:
    """Read all tables."""
    t = Tables(src, renames=renames)
    arch = t.read("llama-arch.cpp")

    def table(name: str) -> str:
        start = arch.index(name)
        return arch[start : arch.index("};", start)]

    t.keys = dict(re.findall(r'\{\s*(LLM_KV_\w+)\s*,\s*"([^"]*)"', arch))
    names = table("LLM_TENSOR_NAMES = {")
    t.tensors = dict(re.findall(r'\{\s*(LLM_TENSOR_\w+),\s*"([^"]*)"', names))
    for m in re.finditer(r"\{\s*(LLM_ARCH_\w+),\s*\{((?:\s*\{[^{}]*\}\s*,?)*)\s*\}\s*,?\s*\}", names):
        t.own_names[m[1]] = dict(re.findall(r'\{\s*(LLM_TENSOR_\w+),\s*"([^"]*)"', m[2]))
    t.archs = dict(re.findall(r'\{\s*(LLM_ARCH_\w+),\s*"([^"]*)"', table("LLM_ARCH_NAMES = {")))
    info = r"\{\s*(LLM_TENSOR_\w+),\s*\{LLM_TENSOR_LAYER_\w+,\s*GGML_OP_(\w+)\s*\}"
    _sets(t, arch)
    there = next((x for x in ("LLM_TENSOR_INFOS = {", "llm_tensor_info_mapping = {") if x in arch), None)
    t.ops = dict(re.findall(info, table(there))) if there else {}
    header = t.read("llama-hparams.h")
    header = header[header.index("struct llama_hparams {") :]
    for m in re.finditer(MEMBER.format(HPARAM_TYPES), body(header, header.index("{")), re.M):
        t.types[m[2]] = m[1]
    models = t.read("models/models.h") if (src / "models" / "models.h").exists() else ""
    for m in re.finditer(MEMBER.format(r"uint32_t|int32_t|float|bool|std::string"), models, re.M):
        t.types.setdefault("m." + m[2], m[1])
    t.types["pooling_type"] = "llama_pooling_type"
    t.types["m.target_layer_ids"] = "std::vector<int32_t>"
    t.types |= {"m.name": "std::string", "m.classifier_labels": "std::vector<std::string>"}
    t.parents = dict(re.findall(r"struct llama_model_(\w+) : public llama_model_(\w+)", models))
    for m in re.finditer(r"struct llama_model_(\w+) : public.*?\n\};", models, re.S):
        used = re.search(r"using graph = llama_model_(\w+)::graph", m[0])
        if used:
            t.shared_graphs[m[1]] = used[1]
    if (src / "models" / "models.h").exists() and "llama_model_create(" in t.read("llama-model.cpp"):
        _families(t)
    return t


def _sets(t: Tables, text: str) -> None:
    """Names by architecture of the trees where one table is for all and each has a set of it.

    A tensor outside the set has its name as the table has it, without number and ending.
    """
    head = re.search(r"llm_get_tensor_names\(llm_arch arch\) \{", text)
    if head is None:
        return
    waiting: list[str] = []
    for m in re.finditer(r"case (LLM_ARCH_\w+):|return (\{[^}]*\});", body(text, head.end() - 1)):
        if m[1]:
            waiting.append(m[1])
            continue
        known = set(re.findall(r"LLM_TENSOR_\w+", m[2]))
        names = {key: name if key in known else RAW + name for key, name in t.tensors.items()}
        t.own_names |= dict.fromkeys(waiting, names)
        waiting = []


def _families(t: Tables) -> None:
    """Architecture name -> C++ class."""
    text = t.read("llama-model.cpp")
    start = text.index("switch (arch)")
    waiting: list[str] = []
    end = text.index("llama_model * llama_model_create(llama_model_loader & ml", start)
    for m in re.finditer(r"case (LLM_ARCH_\w+):|return new llama_model_(\w+)\(", text[start:end]):
        if m[1]:
            waiting.append(m[1])
        else:
            t.families |= dict.fromkeys((t.archs[a] for a in waiting), m[2])
            waiting = []
