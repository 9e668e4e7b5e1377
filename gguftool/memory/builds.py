"""What compute buffers held in other builds of llama.cpp: which formula is whose, and how far off it was there.

Measured with the libraries of b7551, b9294, b9713, b9873 and b10229 (`xllamacpp`) on the CPU, up to 140 contexts each,
with b10434 on one device, and with b4798, b5353, b5671 and b6123 in 12 contexts of each of two small models, loaded for
real without FlashAttention (within 1.2 %). Between the last build seen with one behaviour and the first seen with the
next, the larger figure is taken.
"""

from __future__ import annotations

from gguftool.brief import short_repr
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class Formula:
    """What differs from the newest formula.

    Attributes:
        before: builds below this one.
        all_logits: logits are reserved for every token of a graph, not for one a slot.
        wide_masks: masks are 32-bit floats with FlashAttention, too.
        host_rows: rows of embedding width on the host when all layers are elsewhere.
        low, high: per cent; nine of ten measured contexts lay between them. None: not measured.
        about: what is so, for people.
    """

    before: int | None
    all_logits: bool = False
    wide_masks: bool = False
    host_rows: int = 4
    low: int | None = None
    high: int | None = None
    about: str = ""

    __repr__ = short_repr

    @property
    def mixed(self) -> bool:
        """A batch may hold tokens and embeddings: two more rows on the host."""
        return self.host_rows > 2


OLDEST = 4798
"""Nothing older was measured."""
FORMULAS = (
    Formula(
        9713, True, True, 2, -4, 9, "reserve logits for all tokens of a graph and wide masks, more than later ones"
    ),
    Formula(11434, False, False, 2, 0, 1, "keep fewer rows on the host than later ones"),
    Formula(None),
)


def formula(build: int | None) -> Formula:
    """The formula for that build; the newest where the build is unknown."""
    if not build:
        return FORMULAS[-1]
    return next(f for f in FORMULAS if f.before is None or build < f.before)


def remark(build: int | None) -> str:
    """What is to be known about the estimate for that build; "": nothing."""
    f = formula(build)
    if f.before is None:
        return ""
    older = f"; nothing before b{OLDEST} was measured, and the error may be larger" if build and build < OLDEST else ""
    return f"b{build}: builds before b{f.before} {f.about}; this estimate is theirs{older}"
