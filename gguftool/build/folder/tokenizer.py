"""The tokenizer's files."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.build.folder.problem import Problem
from gguftool.build.folder.seen import Seen, pointer
from gguftool.build.safetensors import is_lfs_pointer

FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "tekken.json", "spiece.model")
MORE = ("tokenizer_config.json", "sentencepiece.bpe.model", "tokenizer.jsonl", "merges.txt", "qwen.tiktoken")


def files(seen: Seen) -> Iterator[Problem]:
    """Whether there are any, and what they are."""
    if seen.only_adapter:
        return
    if not any(seen.has(n) for n in (*FILES, *MORE[1:])):
        yield Problem(
            "no-tokenizer",
            f"{seen.path}: has no tokenizer (none of {', '.join(FILES[:4])})",
            "copy the tokenizer files of the base model into the folder",
        )
    for n in (*FILES, "tokenizer_config.json"):
        if seen.has(n) and is_lfs_pointer(seen.at(n)):
            yield pointer(seen.path, n)
