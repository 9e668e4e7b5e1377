"""What follows a load that succeeds: making the context, then the first decode.

Both build the same graph; the context only plans it, the decode runs it. So shapes, missing tensors and failed
assertions show at the context, tensor types (which no loader checks) and RoPE widths at the decode.
"""

from __future__ import annotations

from gguftool.facts.machine.ends import Unknown
from gguftool.predict import context, decode
from gguftool.predict.graph import CONTEXT, DECODE, OK, UNKNOWN
from gguftool.predict.state import Run
from gguftool.predict.verdict import AfterLoad


def after_load(state: Run) -> AfterLoad:
    """The first thing that goes wrong after the load, or that nothing does."""
    for stage, checks in ((CONTEXT, context.CHECKS), (DECODE, decode.CHECKS)):
        for check in checks:
            try:
                for fault in check(state):
                    return fault
            except Unknown as gap:
                return AfterLoad(stage, UNKNOWN, gap.why, gap.where)
    return AfterLoad(DECODE, OK)
