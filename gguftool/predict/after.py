"""What follows a load that succeeds: making the context, then the first decode.

Both build the same graph; the context only plans it, the decode runs it. So shapes, missing tensors and failed
assertions show at the context, tensor types (which no loader checks) and RoPE widths at the decode.
"""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.facts.machine.ends import Unknown
from gguftool.facts.marks import bears
from gguftool.predict import context, decode
from gguftool.predict.graph import ABORTS, CONTEXT, DECODE, OK, UNKNOWN
from gguftool.predict.state import Run
from gguftool.predict.verdict import AfterLoad
from gguftool.regex import regex

TEMPLATE = "template"
TOO_LONG = 64_000
"""A piece of a template between two tags, in characters, that was seen to end b4798 and b7551 (and not b8672)."""
_TAG = regex(r"\{[{%]")


def _template(state: Run) -> Iterator[AfterLoad]:
    """The engine of chat templates until b7755 matched text by regular expressions that recurse at every character."""
    template = state.model.get("tokenizer.chat_template")
    if not isinstance(template, str) or len(template) < TOO_LONG or bears("own-templates"):
        return
    longest = max(len(piece) for piece in _TAG.split(template))
    if longest >= TOO_LONG:
        words = f"SIGSEGV: its template engine recurses over {longest:,} characters between two tags (llama-server)"
        yield AfterLoad(TEMPLATE, ABORTS, words, "field:tokenizer.chat_template")


def after_load(state: Run) -> AfterLoad:
    """The first thing that goes wrong after the load, or that nothing does."""
    for stage, checks in ((CONTEXT, context.CHECKS), (TEMPLATE, (_template,)), (DECODE, decode.CHECKS)):
        for check in checks:
            try:
                for fault in check(state):
                    return fault
            except Unknown as gap:
                return AfterLoad(stage, UNKNOWN, gap.why, gap.where)
    return AfterLoad(DECODE, OK)
