"""`converters.json`: the names of models that llama.cpp's converter takes, of the release and of the packaged one.

The packaged converter (`gguftool/build/converter.py:PACKAGE`) is read from the environment that
``gguftool convert --setup`` makes; where there is none, what was read before is taken over.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyclasses import architectures, classes, lineage

from gguftool.facts.converters import Registry, read

HERE = Path(__file__).resolve().parents[2] / "gguftool" / "facts" / "data" / "converters.json"


def converters(root: Path, build: str) -> tuple[dict[str, Any], list[str]]:
    """The data file, and what could not be read."""
    from gguftool.build.converter import PACKAGE, package_folder

    found, folder = read(root), package_folder()
    if found is None:
        return {}, ["converters: no names of models in conversion/__init__.py"]
    release = _rows(found)
    gaps = [
        f"converters: {part} is empty"
        for part, names in release.items()
        if not names and part not in ("broken", "lacks")
    ]
    beside = read(folder) if folder else None
    packaged = _rows(beside) if beside else json.loads(HERE.read_text(encoding="utf-8"))["packaged"]
    if beside is None:
        print(f"taken over: what {PACKAGE} takes (gguftool convert --setup brings it)")
    ways = _vocabularies(root)
    gaps += [
        f"converters: how the vocabulary of {name} is read"
        for name in found.text - {n for w in ways.values() for n in w}
    ]
    return {
        "source": build,
        "package": PACKAGE,
        "release": release,
        "packaged": packaged,
        "vocabularies": ways,
    }, gaps


def _rows(found: Registry) -> dict[str, list[str]]:
    return {part: sorted(getattr(found, part)) for part in Registry.__slots__}


STEPS = {
    "_create_vocab_sentencepiece": "sentencepiece",
    "_set_vocab_sentencepiece": "sentencepiece",
    "get_vocab_base": "transformers",
    "_set_vocab_interns1": "transformers",
    "_set_vocab_hybriddna": "transformers",
    "_set_vocab_qwen": "code",
    "_set_vocab_llama_hf": "llama-hf",
    "LlamaHfVocab": "llama-hf",
    "_set_vocab_mistral": "mistral",
    "_set_vocab_rwkv_world": "rwkv_vocab_v20230424.txt",
    "_set_vocab_plamo": "tokenizer.jsonl",
    "_set_vocab_builtin": "builtin",
    "_set_vocab_none": "none",
    "from_pretrained": "transformers",
}
"""Calls that read a vocabulary -> how, or the file they need."""
FILES = ("spiece.model", "sentencepiece.bpe.model")


def _vocabularies(root: Path) -> dict[str, list[str]]:
    """Ways of reading a vocabulary, in words parted by blanks -> names of models that are read so."""
    found = classes(root, architectures(root))
    ways: dict[str, list[str]] = {}
    for one in found.values():
        order = lineage(one.name, found)
        if one.names and "MmprojModel" not in order:
            said = " ".join(sorted(set(_ways(found, order, "set_vocab", set()))))
            ways[said] = sorted({*ways.get(said, ()), *one.names})
    return dict(sorted(ways.items()))


def _ways(found: Mapping[str, Any], order: Sequence[str], method: str, seen: set[tuple[str, str]]) -> Iterator[str]:
    owner = next((c for c in order if method in found[c].methods), None)
    if owner is None or (owner, method) in seen:
        return
    seen.add((owner, method))
    for node in ast.walk(found[owner].methods[method]):
        if isinstance(node, ast.Constant) and node.value in FILES:
            yield str(node.value)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "self.target_model_dir is None":
            yield from ("target" for _ in node.body if isinstance(_, ast.Raise))
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name, of = node.func.attr, ast.unparse(node.func.value)
        if name in STEPS:
            yield STEPS[name]
        elif of == "self":
            yield from _ways(found, order, name, seen)
        elif of == "super()":
            yield from _ways(found, order[order.index(owner) + 1 :], name, seen)
        elif of in found:
            yield from _ways(found, lineage(of, found), name, seen)
