"""`vocabulary.json`: pre-tokenizers and texts of special tokens that the vocabulary loader knows by name."""

from __future__ import annotations

import json
import re
from typing import Any

from source import Tables

ROLES = ("eot", "eom", "fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep")
TEXT = r'"((?:\\.|[^"\\])*)"'


def loading_text(t: Tables) -> str:
    """The source file that loads the vocabulary: until 2025 that of all, for a short time that of models."""
    texts = [t.read(name) for name in ("llama-vocab.cpp", "llama-model.cpp", "llama.cpp") if (t.src / name).exists()]
    return next((text for text in texts if "LLM_KV_TOKENIZER_MODEL" in text), texts[0])


def vocabulary(t: Tables, build: str) -> tuple[dict[str, Any], list[str]]:
    """The data file, and what could not be read."""
    text = loading_text(t)
    missing: list[str] = []

    def between(name: str, start: str, end: str, pattern: str) -> list[str]:
        piece = re.search(f"{start}(.*?){end}", text, re.S)
        found = [json.loads(f'"{x}"') for x in re.findall(pattern, piece[1])] if piece else []
        if not found:
            missing.append(f"llama-vocab.cpp: no {name}")
        return list(dict.fromkeys(found))

    out: dict[str, Any] = {"source": f"llama-vocab.cpp:llama_vocab::impl::load ({build})"}
    out["pre"] = sorted(set(re.findall(rf"tokenizer_pre == {TEXT}", text)))
    if not out["pre"]:
        missing.append("llama-vocab.cpp: no pre-tokenizers")
    for role in ROLES:
        start = rf"if \(special_{role}_id == LLAMA_TOKEN_NULL\) \{{\s*if \(false"
        out[role] = between(role, start, rf"special_{role}_id = t\.second", rf"t\.first == {TEXT}")
    out["eog"] = between(
        "eog",
        r"(?:auto & attr = id_to_token\[t\.second\]\.attr;|for \(const auto & t : token_to_id\) \{)\s*if \(false",
        r"special_eog_ids\.insert",
        rf"t\.first == {TEXT}",
    )
    out["user_defined"] = between(
        "user_defined",
        r"auto & attr = id_to_token\[t\.second\]\.attr;\s*if \((?=t\.first)",
        "LLAMA_LOG_WARN",
        rf"t\.first == {TEXT}",
    )
    return out, missing
