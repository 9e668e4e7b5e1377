"""What the rules of this family share: one survey a run, tensors grouped over the layers, floods counted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gguftool.lint.rule import Draft, Drafts, NotEvaluated, found, not_evaluated
from gguftool.predict import Survey

MOST = 8
"""Findings of one rule; the last one counts the rest."""


def blocked(s: Survey) -> NotEvaluated:
    """Why the tensors could not be compared."""
    return not_evaluated(s.problem or "the tensors were not compared")


def grouped(names: Iterable[str]) -> dict[str, list[str]]:
    """Names that differ only in the layer, together."""
    out: dict[str, list[str]] = {}
    for name in names:
        out.setdefault(re.sub(r"(?<=blk\.)\d+", "N", name), []).append(name)
    return out


def several(names: list[str]) -> str:
    """How many layers have it: "" for one, else ``, as in 17 other layers``."""
    rest = len(names) - 1
    return "" if not rest else f", as in {rest} other layer{'s' if rest > 1 else ''}"


def limited(drafts: Iterator[Draft]) -> Drafts:
    """At most `MOST` findings; one more that counts the rest."""
    rest = 0
    where = "header"
    for i, draft in enumerate(drafts):
        if i < MOST:
            yield draft
        else:
            rest, where = rest + 1, draft.where
    if rest:
        yield found(f"and {rest} more of this kind", where=where, more=rest)


def dims(shape: Iterable[int]) -> str:
    """``64 × 128``."""
    return " × ".join(f"{n:,}" for n in shape)
