"""Shard sets built from scratch, for the tests of this room."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from tests.build import GGUF, llama


def pieces(model: GGUF, cuts: list[int], **split: object) -> list[GGUF]:
    """``model`` cut before these tensor numbers, as llama-gguf-split lays shards out."""
    total = len(model._tensors)
    bounds = [0, *cuts, total]
    found = []
    for no, (a, b) in enumerate(pairwise(bounds)):
        shard = model.copy() if no == 0 else GGUF()
        shard._tensors = [dict(t) for t in model._tensors[a:b]]
        shard.kv("split.no", no, "u16").kv("split.tensors.count", total, "i32")
        shard.kv("split.count", len(bounds) - 1, "u16")
        for key, value in split.items():
            shard.replace(key, value)
        found.append(shard)
    return found


def write(shards: list[GGUF], folder: Path, prefix: str = "m") -> list[Path]:
    """Shard files under the usual names."""
    return [shard.write(folder / f"{prefix}-{no + 1:05d}-of-{len(shards):05d}.gguf") for no, shard in enumerate(shards)]


def typed(quant: str, layers: int = 6, file_type: int = 2) -> GGUF:
    """A llama whose matrices are of that type, a quantiser's usual mixture but for the size."""
    model = llama(layers=layers)
    model.replace("general.file_type", file_type)
    for t in model._tensors:
        if len(t["shape"]) == 2:
            t["type"] = quant
    return model


def three(folder: Path, quant: str = "q4_0", file_type: int = 2, prefix: str = "m") -> list[Path]:
    """Six layers in three shards: embedding and layers 0-1, 2-3, 4-5."""
    return write(pieces(typed(quant, file_type=file_type), [20, 38]), folder, prefix)


def tensors(*paths: Path) -> dict[str, bytes]:
    """Data of every tensor, by gguf-py's own reader."""
    from gguf import GGUFReader

    return {t.name: t.data.tobytes() for path in paths for t in GGUFReader(path).tensors}
