"""Headers of large models, without their data: made with real llama.cpp's own tensor lists.

`tests/data/memory/giants/*.hdr.gz`, and `index.jsonl` with the size of the whole file.
"""

from __future__ import annotations

import gzip
import json
import os
from functools import cache
from pathlib import Path

from gguftool.model import Model, from_source
from gguftool.source import Memory
from tests.memory.records import DATA

NAMES = (
    "deepseek-v3",
    "gemma-3-27b",
    "gpt-oss-20b",
    "llama-3.1-70b",
    "llama-3.1-8b",
    "mamba-2.8b",
    "qwen3-30b-a3b",
    "qwen3-next-80b",
)
SHAPES = tuple(
    "glm-4.5-air glm4-32b gpt-oss-120b llama2-7b qwen25-05b qwen25-32b qwen25-3b qwen3-0.6b qwen3-coder-480b "
    "qwen35-27b-mtp qwen35-9b".split()
)
"""More of them, whose layouts were looked at while the graphs of `gguftool.memory` were written."""
HELD_OUT = tuple(
    "gemma2-9b mistral-nemo-12b mixtral-8x7b phi3-mini olmo2-13b granite-3-8b command-r7b starcoder2-7b".split()
)
"""Shapes of published models that nothing was written or fitted to."""


@cache
def giant(name: str) -> Model:
    """A model of which only the header is there."""
    return from_source(Memory(gzip.decompress((DATA / "giants" / f"{name}.hdr.gz").read_bytes())))


def whole(name: str, folder: Path) -> Path:
    """The same as a file of the right size whose data is a hole."""
    sizes = {}
    for line in (DATA / "giants" / "index.jsonl").read_text().splitlines():
        entry = json.loads(line)
        sizes[entry["name"]] = entry["size"]
    path = folder / f"{name}.gguf"
    path.write_bytes(gzip.decompress((DATA / "giants" / f"{name}.hdr.gz").read_bytes()))
    os.truncate(path, sizes[name])
    return path
