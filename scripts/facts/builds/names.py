"""Names that a tree knows: architectures, keys, tensors, types, tokenizers, projectors, template engines.

Each reader knows the layouts that llama.cpp has had since GGUF came (b1046, August 2023): one `llama.cpp` at the top,
then in `src`, then a file for each concern. A thing that had not come yet is an empty set; a tree that has it in a way
the reader does not know is `Unread`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from source import without_comments

from builds.trees import Tree, Unread

TEXT = r'"((?:\\.|[^"\\])*)"'
Names = set[str]


def first(tree: Tree, *paths: str) -> str:
    """The first of these files, without comments.

    Raises:
        Unread: none is there.
    """
    for path in paths:
        if (text := tree.read(path)) is not None:
            return without_comments(text)
    raise Unread(f"none of {', '.join(paths)}")


def table(text: str, name: str) -> str:
    """What a table is set to."""
    hit = re.search(rf"\b{name}(?:\[\w*\])?\s*=\s*\{{", text)
    if hit is None:
        raise Unread(f"no {name}")
    return text[hit.end() : text.index("};", hit.end())]


def some(found: Iterable[str], what: str) -> Names:
    """The names, which must not be none."""
    names = {str(json.loads(f'"{name}"')) for name in found}
    if not names:
        raise Unread(f"no {what}")
    return names


UNKNOWN = {"(unknown)", "unknown"}
"""What a build calls an architecture that it does not know."""
LLAMA = ("src/llama.cpp", "llama.cpp")


def _arch(tree: Tree) -> str:
    return first(tree, "src/llama-arch.cpp", *LLAMA)


LOADS = re.compile(
    r"^(?:static )?(?:(?:llama_model \*|llama_model_base \*|std::unique_ptr<llama_model\w*>) llama_model_create|"
    r"bool llama_model(?:_base)?::load_tensors|(?:bool|void) llm_load_tensors)\s*\([^;{]*\)\s*\{",
    re.M,
)


def architectures(tree: Tree) -> Names:
    """Values of ``general.architecture`` that are not answered with "unknown model architecture"."""
    rows = re.findall(rf"\{{\s*LLM_ARCH_(?!UNKNOWN)\w+,\s*{TEXT}", table(_arch(tree), "LLM_ARCH_NAMES"))
    return some(rows, "architectures") - UNKNOWN


def loaded(tree: Tree) -> Names:
    """Architectures whose tensors are loaded: some had a name long before."""
    arch = _arch(tree)
    names = dict(re.findall(rf"\{{\s*(LLM_ARCH_\w+),\s*{TEXT}", table(arch, "LLM_ARCH_NAMES")))
    for path in ("src/llama-model.cpp", *LLAMA):
        text = without_comments(tree.read(path) or "")
        if (hit := LOADS.search(text)) is not None:
            break
    else:
        raise Unread("no function that loads tensors")
    inside = text[hit.end() : text.index("\n}\n", hit.end())]
    if not (cases := re.findall(r"case (LLM_ARCH_\w+):", inside)):
        mapped = re.search(r"llama_model_mapping\([^;]*\)\s*\{", text)
        inside = text[mapped.end() : text.index("\n}\n", mapped.end())] if mapped else ""
        cases = re.findall(r"case (LLM_ARCH_\w+):", inside)
    return some((names[c] for c in cases if c in names), "architectures with tensors") - UNKNOWN


def keys(tree: Tree) -> Names:
    """Names of metadata keys, ``%s`` for the architecture; those of projectors too."""
    arch = _arch(tree)
    found = some(re.findall(rf"\{{\s*LLM_KV_\w+,\s*{TEXT}", table(arch, "LLM_KV_NAMES")), "names of keys")
    if "tokenizer.chat_template" in found and re.search(r"LLM_KV::LLM_KV\([^)]*suffix", arch):
        found.add("tokenizer.chat_template.%s")
    for text in _clip(tree):
        found |= set(re.findall(rf"#define\s+KEY_\w+\s+{TEXT}", text))
    return found


def tensor_names(tree: Tree) -> Names:
    """Templates of tensors' names, ``%d`` for the layer."""
    found = some(re.findall(rf"\{{\s*LLM_TENSOR_\w+,\s*{TEXT}", table(_arch(tree), "LLM_TENSOR_NAMES")), "tensors")
    for text in _clip(tree):
        found |= set(re.findall(rf"#define\s+TN_\w+\s+{TEXT}", text))
    return found


def tensor_types(tree: Tree) -> Names:
    """Types of tensors that a file may hold, as ``enum ggml_type`` names them."""
    header = first(tree, "ggml/include/ggml.h", "ggml.h")
    hit = re.search(r"enum ggml_type\s*\{(.*?)\}", header, re.S)
    names = set(re.findall(r"\bGGML_TYPE_(\w+)", hit[1])) - {"COUNT"} if hit else set()
    code = first(tree, "ggml/src/ggml.c", "ggml.c")
    traits = set(re.findall(r"\[\s*GGML_TYPE_(\w+)\s*\]\s*=\s*\{\s*\.type_name", code))
    if not names or not traits & names:
        raise Unread("no enum ggml_type with its traits")
    # A row of the traits whose name says so stands for a type that was taken out.
    return {n for n in names if n in traits}


def _vocabulary(tree: Tree) -> str:
    for path in ("src/llama-vocab.cpp", "src/llama-model.cpp", *LLAMA):
        text = without_comments(tree.read(path) or "")
        if re.search(r"tokenizer_(?:model|name)\s*==", text):
            return text
    raise Unread("nowhere a tokenizer is told by its name")


def pre_tokenizers(tree: Tree) -> Names:
    """Values of ``tokenizer.ggml.pre``."""
    text = _vocabulary(tree)
    found = re.findall(rf"tokenizer_pre\s*==\s*{TEXT}", text)
    if not found and "tokenizer_pre" in text:
        raise Unread("pre-tokenizers are asked in another way")
    return {str(json.loads(f'"{name}"')) for name in found}


def tokenizer_models(tree: Tree) -> Names:
    """Values of ``tokenizer.ggml.model``."""
    return some(re.findall(rf"tokenizer_(?:model|name)\s*==\s*{TEXT}", _vocabulary(tree)), "tokenizers")


CLIP = r"(?:examples/llava|tools/mtmd)/(?:clip[^/]*)\.(?:cpp|h)$"


def _clip(tree: Tree) -> list[str]:
    return [without_comments(tree.read(path) or "") for path in tree.files(CLIP)]


def projectors(tree: Tree) -> Names:
    """Values of ``clip.projector_type``."""
    texts = _clip(tree)
    for text in texts:
        if re.search(r"\bPROJECTOR_TYPE_NAMES\s*=", text):
            rows = re.findall(rf"\{{\s*PROJECTOR_TYPE_\w+,\s*{TEXT}", table(text, "PROJECTOR_TYPE_NAMES"))
            return some(rows, "projectors") - {"unknown"}
    if any("PROJECTOR_TYPE_" in text for text in texts):
        raise Unread("projector types without their names")
    return set()


def template_engines(tree: Tree) -> Names:
    """What renders chat templates: a list of known ones in `llama_chat_apply_template`, minja, llama.cpp's own."""
    found = set()
    if any("llama_chat_apply_template" in (tree.read(p) or "") for p in ("include/llama.h", "llama.h")):
        found.add("known templates")
    if tree.files(r"(?:common|vendor)/minja(?:/minja)?\.hpp$"):
        found.add("minja")
    if tree.read("common/jinja/parser.cpp") is not None:
        found.add("jinja")
    return found
