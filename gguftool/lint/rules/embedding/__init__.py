"""Embedding models and rerankers: pooling, what stands around a text, the direction of attention, the head."""

from __future__ import annotations

from gguftool.lint.rules.embedding import head, pooling, tokens

__all__ = ["head", "pooling", "tokens"]
