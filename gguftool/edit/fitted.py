"""A new file described by the old one: what stands in front, and which bytes are taken over from where.

`gguftool.edit.layout` works it out; `gguftool.edit.commit` brings it onto the disk and knows nothing of headers.
"""

from __future__ import annotations

from gguftool.brief import short_repr
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class Segment:
    """``n`` bytes of the old file at ``old`` that stand at ``new`` in the new one."""

    old: int
    new: int
    n: int

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Fit:
    """The new file, described by the old one.

    Attributes:
        front: all bytes in front of the data of the new file, padding included.
        old_front: length of the same part of the old file.
        segments: what is taken over from the old file, in order of the new one; bytes between segments are zero.
        new_size: length of the new file in bytes.
        plain: the data keeps its inner layout, so a shift of everything behind the front is enough.
        filler: bytes of the filler record in the new header, 0 when there is none.
        extra: (start, bytes) written behind the front: what an undo brings back that no segment holds.
    """

    front: bytes
    old_front: int
    segments: tuple[Segment, ...]
    new_size: int
    plain: bool
    filler: int
    extra: tuple[tuple[int, bytes], ...] = ()

    __repr__ = short_repr

    @property
    def shift(self) -> int:
        """How far the data moves; negative when the header shrinks."""
        return len(self.front) - self.old_front
