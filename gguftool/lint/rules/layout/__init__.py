"""Layout: what llama.cpp's reader checks before it looks at a value (`gguf.cpp:gguf_init_from_reader`, b11434)."""

from __future__ import annotations

from gguftool.lint.rules.layout import data, header, tensors

__all__ = ["data", "header", "tensors"]
