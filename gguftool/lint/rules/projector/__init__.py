"""Projectors: what `clip.cpp` asks of one that is given as ``--mmproj``, and what it says of the answers."""

from gguftool.lint.rules.projector import encoders, keys, tensors

__all__ = ["encoders", "keys", "tensors"]
