"""A ``tokenizer.json`` for a vocabulary in a GGUF file, as the tokenizer of that family has it on the Hub.

The patterns are those of the public files (GPT-2, Qwen 2, Llama 3, DeepSeek …); vocabulary, merges and scores are the
GGUF's own.
"""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

from gguftool.model import Model
from gguftool.model.vocab import vocabulary

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
GPT2 = {**BYTES, "use_regex": True}


def split(*patterns: str) -> dict[str, Any]:
    """Splits by patterns, then bytes."""
    parts = [{"type": "Split", "pattern": {"Regex": p}, "behavior": "Isolated", "invert": False} for p in patterns]
    return {"type": "Sequence", "pretokenizers": [*parts, BYTES]}


FAMILIES: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "gpt-2": (GPT2, None),
    "llama-bpe": (split(LLAMA3), None),
    "qwen2": (split(QWEN2), {"type": "NFC"}),
    "starcoder": (
        {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, GPT2]},
        None,
    ),
}
"""Pre-tokenizer and normalizer by the name of the vocabulary."""


def write(model: Model, folder: Path, pre: dict[str, Any], normalizer: dict[str, Any] | None) -> Path:
    """Write ``tokenizer.json`` for a BPE vocabulary, and a ``config.json`` beside it."""
    vocab = vocabulary(model)
    merges = [m.split(" ", 1) for m in model["tokenizer.ggml.merges"]]
    body = {
        "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
        "ignore_merges": vocab.pre == "llama-bpe",
        "vocab": {vocab.text(i): i for i in range(vocab.count or 0)}, "merges": merges,
    }  # fmt: skip
    return _write(model, folder, body, pre, normalizer, GPT2)


def write_spm(model: Model, folder: Path) -> Path:
    """The same for a SentencePiece vocabulary with scores, as transformers converts Llama 2."""
    vocab = vocabulary(model)
    ids = {vocab.text(i): i for i in range(vocab.count or 0)}
    merges = []
    for i in range(vocab.count or 0):
        text = vocab.text(i)
        if vocab.type_of(i) == 1:
            pairs = [(text[:k], text[k:]) for k in range(1, len(text)) if text[:k] in ids and text[k:] in ids]
            merges += [(i, sorted(pairs, key=lambda p: (ids[p[0]], ids[p[1]])))]
    scores = model["tokenizer.ggml.scores"]
    merges.sort(key=lambda m: -scores[m[0]])
    body = {
        "type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "vocab": ids,
        "merges": [list(p) for _, pairs in merges for p in pairs],
    }  # fmt: skip
    blanks = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    normalizer = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, blanks]}
    return _write(model, folder, body, None, normalizer, {"type": "ByteFallback"})


def write_wordpiece(model: Model, folder: Path) -> Path:
    """The same for BERT's vocabulary."""
    vocab = vocabulary(model)
    ids = {}
    for i in range(vocab.count or 0):
        text = vocab.text(i)
        plain = vocab.type_of(i) != 1
        ids[text if plain else text[1:] if text.startswith("▁") else f"##{text}"] = i
    body = {
        "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100, "vocab": ids,
    }  # fmt: skip
    normalizer = {
        "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
        "lowercase": True,
    }  # fmt: skip
    return _write(
        model,
        folder,
        body,
        {"type": "BertPreTokenizer"},
        normalizer,
        {"type": "WordPiece", "prefix": "##", "cleanup": True},
    )


def _write(
    model: Model, folder: Path, body: dict[str, Any], pre: Any, normalizer: Any, decoder: dict[str, Any]
) -> Path:
    vocab = vocabulary(model)
    added = [
        {
            "id": i, "content": vocab.text(i), "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": kind == 3,
        }
        for kind in (3, 4)
        for i in vocab.ids_of_type(kind)
    ]  # fmt: skip
    document = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": sorted(added, key=lambda t: t["id"]),
        "normalizer": normalizer, "pre_tokenizer": pre, "post_processor": None, "decoder": decoder, "model": body,
    }  # fmt: skip
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    (folder / "config.json").write_text('{"model_type": "x"}', encoding="utf-8")
    return folder


def write_unigram(model: Model, folder: Path) -> Path:
    """The same for a Unigram vocabulary, as that of XLM-RoBERTa."""
    vocab = vocabulary(model)
    scores = model["tokenizer.ggml.scores"]
    unknown = vocab.special("unk") or 0
    body = {
        "type": "Unigram", "unk_id": unknown, "byte_fallback": False,
        "vocab": [[vocab.text(i), float(scores[i])] for i in range(vocab.count or 0)],
    }  # fmt: skip
    charsmap = bytes(b % 256 for b in model["tokenizer.ggml.precompiled_charsmap"])
    normalizer = {
        "type": "Sequence",
        "normalizers": [
            {"type": "Precompiled", "precompiled_charsmap": b64encode(charsmap).decode()},
            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        ],
    }
    blanks = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    pre = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, blanks]}
    return _write(model, folder, body, pre, normalizer, blanks)
