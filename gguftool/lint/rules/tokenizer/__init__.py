"""Tokenizer: the vocabulary's arrays, special ids, pre-tokenizer, and what ends a generation.

Evidence is `llama-vocab.cpp:llama_vocab::impl::load` (b11434) unless a rule names something else.
"""

from __future__ import annotations

from gguftool.lint.rules.tokenizer import arrays, content, ending, ids, pre, texts

__all__ = ["arrays", "content", "ending", "ids", "pre", "texts"]
