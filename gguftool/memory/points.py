"""What a KV cache costs at a few contexts, for a first look."""

from __future__ import annotations

from gguftool.memory.kv import kv_cache
from gguftool.memory.settings import Settings
from gguftool.model import Model


def kv_points(m: Model) -> list[tuple[int, int]]:
    """(context, bytes) of an f16 KV cache with states for one slot, at 8,192 tokens and at the file's own context.

    Empty when the architecture is unknown or keeps no cache.
    """
    trained = m.arch.context_length or 0
    if m.arch.facts is None or m.arch.facts.unsupported or not m.arch.block_count or trained >= 1 << 31:
        return []
    points = sorted({min(8192, trained), trained} if trained else {8192})
    found = [(n, kv_cache(m.arch, Settings(ctx=n)).bytes) for n in points]
    return found if any(b for _, b in found) else []
