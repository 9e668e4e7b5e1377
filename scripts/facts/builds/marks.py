"""Checks and wordings that a build has or has not, told by a text in its sources."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

GGUF, LOADER, MODEL = "ggml/src/gguf.cpp", "src/llama-model-loader.cpp", "src/llama-model.cpp"
VOCAB, MODEL_LOAD = "src/llama-vocab.cpp", ("src/llama.cpp", "src/llama-model.cpp")
MINJA = ("common/minja.hpp", "common/minja/minja.hpp", "vendor/minja/minja.hpp")
BEFORE = {
    GGUF: ("ggml/src/ggml.c", "ggml.c"),
    **dict.fromkeys(
        (LOADER, MODEL, VOCAB, "src/llama-hparams.h", "src/llama-impl.cpp"), ("src/llama.cpp", "llama.cpp")
    ),
}
"""Where it stood before the file was there."""
MARKS = {
    # gguf.cpp
    "reader": (GGUF, r"gguf_init_from_reader\("),
    "empty-key": (GGUF, r"key %\" PRIi64 \" is empty"),
    "key-twice": (GGUF, r"duplicate key"),
    "kv-pair": (GGUF, r"for KV pair"),
    "alignment-type": (GGUF, r"key '%s' must be of type %s but is %s"),
    "printable-magic": (GGUF, r"isprint\(magic"),
    "version-0": (GGUF, r"bad GGUF version"),
    "other-endian": (GGUF, r"is extremely large, is there a mismatch"),
    "incorrect-shape": (GGUF, r"incorrect shape for a tensor"),
    "type-range": (GGUF, r"should be in \[0, %d\)"),
    "size-overflow": (GGUF, r"cannot accumulate size"),
    "string-limit": (GGUF, r"exceeds maximum"),
    "errno": (GGUF, r"failed to open GGUF file '%s' \(%s\)"),
    "file-ptr": (GGUF, r"gguf_init_from_file_ptr\(FILE"),
    "zero-elements": (GGUF, r"zero-element tensor is trivially"),
    "size-in-bytes": (GGUF, r"has a size in bytes >"),
    "padding-overflow": (GGUF, r"overflows after padding"),
    "gguf-log": (GGUF, r"GGML_LOG_ERROR"),
    # llama-model-loader.cpp
    "no-line-feed": (LOADER, r'failed to load model from %s\\n"', False),
    "no-split-line-feed": (LOADER, r'failed to load GGUF split from %s\\n"', False),
    "dims-first": (LOADER, r"check_tensor_dims\(tn\.str\(\)(?s:.*)= buft_for_tensor\("),
    "all-sizes": (LOADER, r"i >= ne\.size\(\) && cur->ne\[i\] != 1"),
    "too-many": (LOADER, r"too many tensors created"),
    "bare-architecture": (MODEL_LOAD, r"error loading model architecture: ", False),
    "wide-sizes": ("src/llama-impl.cpp", r'"%6" PRId64'),
    # the engine of chat templates
    "own-templates": (MINJA, r".", False),
    # llama-vocab.cpp
    "lengths": (VOCAB, r"Index out of array bounds for"),
    "types": (VOCAB, r"invalid gguf type for"),
    "kimi-merges": (VOCAB, r"kimi-k2"),
    "charsmap-type": (VOCAB, r"pc_type"),
    "charsmap-size": (VOCAB, r"precompiled_charsmap too small"),
    "default-out-of-range": (VOCAB, r"out of vocab range, disabling"),
    "eog-range": (VOCAB, r"EOG token id %d is out of range"),
    "eog-printed": (VOCAB, r"printing all EOG tokens"),
    "ids-at": (VOCAB, r"id_to_token\.at\(special_bos_id\)"),
    "add-sep": (VOCAB, r"LLM_KV_TOKENIZER_ADD_SEP"),
    "lowercase": (VOCAB, r"LLM_KV_TOKENIZER_NORMALIZER_LOWERCASE"),
    "strip_accents": (VOCAB, r"LLM_KV_TOKENIZER_NORMALIZER_STRIP_ACCENTS"),
    "suppress": (VOCAB, r"LLM_KV_TOKENIZER_SUPPRESS_TOKENS"),
}
"""Name of a mark, where it is told, by which text, and whether that is to be there: the newest build bears all."""


def marks(tree: Path) -> list[str]:
    """Names of the marks that the sources of a build bear."""
    texts: dict[str, str] = {}

    def there(place: str | tuple[str, ...], pattern: str) -> bool:
        if isinstance(place, tuple):
            return any(there(one, pattern) for one in place)
        if place not in texts:
            file = _file(tree, place)
            texts[place] = file.read_text(encoding="utf-8", errors="replace") if file else ""
        return re.search(pattern, texts[place]) is not None

    found = [name for name, (place, pattern, *no) in MARKS.items() if there(place, pattern) is not bool(no)]
    # Until 2024-10 one function looked for a tensor, and for its sizes.
    alone = not there((MODEL, LOADER, "src/llama.cpp"), r"missing tensor '%s'")
    return [*found, "dims-first"] if alone and "dims-first" not in found else found


def _file(tree: Path, place: str) -> Path | None:
    """The file of that place, or the one that had its content before."""
    return next((f for f in (tree / place, *(tree / x for x in BEFORE.get(place, ()))) if f.exists()), None)


def limits(tree: Path) -> dict[str, int]:
    """Numbers beyond which a build refuses."""
    out: dict[str, int] = {}
    for name, file in (("LLAMA_MAX_LAYERS", "src/llama-hparams.h"), ("LLAMA_MAX_EXPERTS", "src/llama-hparams.h")):
        path = _file(tree, file)
        hit = re.search(rf"#define {name}\s+(\d+)", path.read_text(encoding="utf-8")) if path else None
        if hit:
            out[name] = int(hit[1])
    return out


KINDS = {"UINT32": "u32", "INT32": "i32", "UINT64": "u64", "FLOAT32": "f32", "STRING": "str", "BOOL": "bool"}
_CASE = re.compile(r"case GGUF_TYPE_(\w+):|default:")


def arrays(tree: Path) -> dict[str, Any]:
    """Types of elements that the two readers of arrays take, with what each asserts of the reader, "" for nothing."""
    file = _file(tree, LOADER)
    text = file.read_text(encoding="utf-8") if file else ""
    head = r"bool (?:llama_model_loader::)?get_arr\(const std::string & key,"
    found = [text[m.end() :] for m in re.finditer(head, text)]
    if not found:
        return {}
    found = [found[0], found[-1]]
    words = re.search(r'format\("(%s is not a [^"]*array)"', text)
    free, fixed = (_taken(body[: body.index("result.")]) for body in found)
    return {"words": words[1].replace("%s", "{}") if words else "", "free": free, "fixed": fixed}


def _taken(text: str) -> dict[str, str]:
    out: dict[str, str] = {}
    waiting: list[str] = []
    marks = list(_CASE.finditer(text))
    if not marks:
        return {}
    for m, end in zip(marks, [*(m.start() for m in marks[1:]), len(text)], strict=True):
        if m[1] is None:
            break
        waiting.append(KINDS[m[1]])
        said = text[m.end() : end]
        if said.strip():
            asserted = re.search(r"GGML_ASSERT\((.*)\);\s*break", said, re.S)
            words = f"GGML_ASSERT({' '.join(asserted[1].split())}) failed" if asserted else ""
            out |= dict.fromkeys(waiting, words)
            waiting = []
    return out
