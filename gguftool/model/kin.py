"""Whether two files are quantisations of one model: by what a quantisation does not change."""

from __future__ import annotations

from gguftool.model.model import Model

SIZES = ("block_count", "embedding_length", "feed_forward_length", "expert_count")


def kin(m: Model) -> tuple[object, ...]:
    """Architecture, sizes and name: equal for quantisations of one model."""
    sizes = tuple(repr(m.arch.raw(key)) for key in SIZES)
    return (m.arch.arch, *sizes, m.get("general.name"))
