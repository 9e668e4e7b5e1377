"""Whether two files share their data on the disk: copies made by reflink take no room of their own."""

from __future__ import annotations

import array
import struct
import sys

_FIEMAP = 0xC020660B
"""`FS_IOC_FIEMAP` (linux/fs.h)."""
_HEAD = struct.Struct("=QQLLLL")
_EXTENT = struct.Struct("=QQQQQLLLL")
_SHARED, _UNSURE = 0x2000, 0x0002 | 0x0004 | 0x0008
"""`FIEMAP_EXTENT_SHARED`; what has no place on the disk yet, or none that can be told (linux/fiemap.h)."""
_MOST = 512
"""Extents that are compared; of a file of more the first ones speak."""


def shares(one: str, other: str) -> bool:
    """Whether the first extents of two files are the same places of the disk; False where that cannot be told."""
    mine, others = extents(one), extents(other)
    return bool(mine) and mine == others


def extents(path: str) -> list[tuple[int, int, int]]:
    """Offset, place on the disk and length of the extents that a file shares; [] when it shares none."""
    if sys.platform != "linux":
        return []
    import fcntl

    room = array.array("B", _HEAD.pack(0, (1 << 64) - 1, 0, 0, _MOST, 0) + bytes(_EXTENT.size * _MOST))
    try:
        with open(path, "rb") as f:
            fcntl.ioctl(f.fileno(), _FIEMAP, room)
    except OSError:
        return []
    return told(room.tobytes())


def told(answer: bytes) -> list[tuple[int, int, int]]:
    """The extents in the kernel's answer; [] when one of them is not shared, or has no place that can be told."""
    count = _HEAD.unpack_from(answer)[3]
    found = []
    for no in range(min(count, _MOST)):
        logical, physical, length, _, _, flags, *_ = _EXTENT.unpack_from(answer, _HEAD.size + no * _EXTENT.size)
        if not flags & _SHARED or flags & _UNSURE:
            return []
        found.append((logical, physical, length))
    return found
