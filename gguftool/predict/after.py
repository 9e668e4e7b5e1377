"""What follows a load that succeeds: making the context, then the first decode.

Both build the same graph; the context only plans it, the decode runs it. So shapes, missing tensors and failed
assertions show at the context, tensor types (which no loader checks) and RoPE widths at the decode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gguftool.predict import context, decode
from gguftool.predict.graph import DECODE, OK
from gguftool.predict.verdict import AfterLoad

if TYPE_CHECKING:
    from gguftool.predict.stages import Run


def after_load(state: Run) -> AfterLoad:
    """The first thing that goes wrong after the load, or that nothing does."""
    for check in (*context.CHECKS, *decode.CHECKS):
        for fault in check(state):
            return fault
    return AfterLoad(DECODE, OK)
