"""What stands where in any GGUF file: its first bytes, and how far apart the records behind them are."""

from __future__ import annotations

MAGIC = b"GGUF"
POISONED_MAGIC = b"GGTX"
"""First bytes of a file that gguftool is in the middle of editing; no reader loads it."""
DEFAULT_ALIGNMENT = 32


def align(offset: int, alignment: int) -> int:
    """``offset`` rounded up to a multiple of ``alignment`` (both in bytes)."""
    return -(-offset // alignment) * alignment
