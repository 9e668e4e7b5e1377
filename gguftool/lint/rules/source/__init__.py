"""Source: the file against the Hugging Face folder it was made from (`--against`).

What the folder says is compared as `convert_hf_to_gguf.py` (b11434) would write it; what that program changes on
purpose is no finding.
"""

from __future__ import annotations

from gguftool.lint.rules.source import constants, embedding, generation, licence, numbers, rope, tokens

__all__ = ["constants", "embedding", "generation", "licence", "numbers", "rope", "tokens"]
