"""How far from the beginning of a file the data may begin."""

from __future__ import annotations

from gguftool.format.limits import HEADER


def too_far(start: int, alignment: int) -> str:
    """Why a file whose data begins at ``start`` is neither edited nor written; "" where it can be.

    What stands in front of the data is held in memory, and readers, ours too, have a limit for it.
    """
    if start <= HEADER:
        return ""
    return (
        f"with an alignment of {alignment:,} the data begins at {start:,} bytes; "
        f"more than {HEADER >> 20} MiB in front of it are neither edited nor written"
    )
