"""Keys that a model must carry to be loaded: asked for without a condition and without "may be missing".

A key that is asked for only when another has some value is not among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from source import body, without_comments

from builds.names import LLAMA, TEXT, _arch, table
from builds.trees import Tree, Unread

FILES = r"(?:src/)?llama(?:-arch|-model)?\.cpp$|src/models/[^/]+\.(?:cpp|h)$"
LOADS = re.compile(
    r"^(?:static )?(?:bool|void) (?:llama_model(?:_base)?::load_hparams|llm_load_hparams)\s*\([^;{]*\)\s*\{", re.M
)
MADE = re.compile(r"((?:case LLM_ARCH_\w+:\s*)+)return new (\w+)")
OWN = re.compile(r"^void (\w+)::load_arch_hparams\([^;{]*\)\s*\{", re.M)
PARENT = re.compile(r"\b(?:struct|class) (\w+)\s*(?:final\s*)?:\s*(?:public\s+)?(\w+)")
CASES = re.compile(r"((?:case LLM_ARCH_\w+:\s*)+)\{")
ASKED = re.compile(r"ml\.get_(?:key|key_or_arr|arr|arr_n)\s*\(\s*(LLM_KV_\w+)\s*,([^;]*)\)\s*;")
MACRO = re.compile(
    r"GGUF_GET_KEY\(\s*ctx\s*,[^;]*?,\s*GGUF_TYPE_\w+\s*,\s*true\s*,\s*kv\(\s*(LLM_KV_\w+)\s*\)\s*\)\s*;"
)


def required_keys(tree: Tree) -> set[str]:
    """``%s.context_length`` for every architecture, ``gemma3.attention.layer_norm_rms_epsilon`` for one."""
    arch = _arch(tree)
    archs = dict(re.findall(rf"\{{\s*(LLM_ARCH_\w+),\s*{TEXT}", table(arch, "LLM_ARCH_NAMES")))
    keys = dict(re.findall(rf"\{{\s*(LLM_KV_\w+),\s*{TEXT}", table(arch, "LLM_KV_NAMES")))
    for path in ("src/llama-model.cpp", *LLAMA):
        text = without_comments(tree.read(path) or "")
        if (hit := LOADS.search(text)) is not None:
            break
    else:
        raise Unread("no function that loads hyperparameters")
    inside = body(text, hit.end() - 1)
    general = {keys[k] for k in _unconditional(inside) if k in keys}
    own: dict[str, set[str]] = {}
    for name, asked in (*_cases(inside), *_classes(tree, text)):
        if name in archs:
            own.setdefault(archs[name], set()).update(keys[k] for k in asked if k in keys)
    if not general or not any(own.values()):
        raise Unread("no key is asked for")
    return general | {key.replace("%s", name) for name, asked in own.items() for key in asked - general}


def _unconditional(code: str) -> Iterator[str]:
    """Keys asked for at the outermost level of a body, that must be there."""
    flat, depth, start = [], 0, 0
    for m in re.finditer(r"[{}]", code):
        if depth == 0:
            flat.append(code[start : m.start()])
        depth += 1 if m[0] == "{" else -1
        start = m.end()
    flat.append(code[start:] if depth == 0 else "")
    for piece in flat:
        for m in ASKED.finditer(piece):
            before = piece[: m.start()].rpartition(";")[2]
            if not re.search(r"\bfalse\s*$", m[2]) and not re.search(r"\b(?:if|else|return)\b", before):
                yield m[1]
        for m in MACRO.finditer(piece):
            yield m[1]


def _cases(inside: str) -> Iterator[tuple[str, list[str]]]:
    for m in CASES.finditer(inside):
        asked = list(_unconditional(body(inside, m.end() - 1)))
        for name in re.findall(r"LLM_ARCH_\w+", m[1]):
            yield name, asked


def _classes(tree: Tree, text: str) -> Iterator[tuple[str, list[str]]]:
    made = {cls: re.findall(r"LLM_ARCH_\w+", cases) for cases, cls in MADE.findall(text)}
    if not made:
        return
    asked: dict[str, list[str]] = {}
    parents: dict[str, str] = {}
    for path in tree.files(r"src/models/[^/]+\.(?:cpp|h)$"):
        code = without_comments(tree.read(path) or "")
        parents |= dict(PARENT.findall(code))
        for m in OWN.finditer(code):
            asked[m[1]] = list(_unconditional(body(code, m.end() - 1)))
    for cls, names in made.items():
        owner = cls
        while owner not in asked and owner in parents:
            owner = parents[owner]
        for name in names:
            yield name, asked.get(owner, [])
