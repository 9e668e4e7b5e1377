"""Compute buffers as planned and as logged: by device, for each context, within the error that the plan printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gguftool.brief import short_repr
from gguftool.records import dataclass

if TYPE_CHECKING:
    from gguftool.run.log import Buffer

MIB = 1 << 20
SLACK = 1.0
"""MiB that a buffer may be over in any case: alignment, and two digits in the log."""
UNPRINTED = 0.1
"""Share a buffer may be over where a plan of an older version printed no error of its own."""


@dataclass(frozen=True, slots=True)
class ExpectedCompute:
    """The compute buffer of one device, in bytes; the host is ``CPU``, whatever its buffer is called."""

    device: str
    bytes: int

    __repr__ = short_repr


def last_told(buffers: Sequence[Buffer]) -> dict[str, float]:
    """MiB of compute buffers by device; one that is reserved anew is told again."""
    return {b.device: b.mib for b in buffers if b.kind == "compute"}


def by_device(planned: Sequence[ExpectedCompute], told: dict[str, float]) -> list[tuple[str, int, float | None]]:
    """Device, planned bytes and logged MiB; one row of all where the log calls devices by other names.

    Args:
        planned: by device.
        told: MiB by the names of the log.
    """
    names = {p.device for p in planned}
    host = next((p.device for p in planned if p.device == "CPU"), None)
    here = {name: mib for name, mib in told.items() if name in names and name != host}
    wanted = [p for p in planned if p.bytes and p.device != host]
    if not told or any(p.device not in here for p in wanted):
        return [("", sum(p.bytes for p in planned), sum(told.values()) if told else None)]
    rows: list[tuple[str, int, float | None]] = [(p.device, p.bytes, here[p.device]) for p in wanted]
    rest = [mib for name, mib in told.items() if name not in here]
    if host is not None and rest:
        rows.append((host, next(p.bytes for p in planned if p.device == host), sum(rest)))
    return rows


def within(planned: int, mib: float | None, over: float | None) -> bool | None:
    """Whether a buffer is no larger than planned and the plan's error allow; None: the log does not tell.

    Args:
        planned: bytes.
        mib: as logged.
        over: share it may be over; None: the plan printed none.
    """
    if mib is None:
        return None
    return mib <= planned / MIB * (1 + (UNPRINTED if over is None else over)) + SLACK
