"""Two tokenizers held against each other, as data: made in `gguftool.api`, read by the rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from gguftool.brief import short_repr
from gguftool.model.corpus import EVERYDAY, Sample
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """How one tokenizer cuts a text: ids, and the tokens as they stand in the vocabulary."""

    ids: tuple[int, ...]
    pieces: tuple[str, ...]

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Differs:
    """A text that the two cut differently.

    Attributes:
        sample: the text and its class.
        source: as ``tokenizer.json`` cuts it.
        file: as llama.cpp cuts it with the file's vocabulary.
    """

    sample: Sample
    source: Cut
    file: Cut

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Compared:
    """The outcome.

    Attributes:
        why_not: why nothing was compared, "" when it was.
        texts: how many there were.
        differs: those that are cut differently, everyday classes first.
        ends: what llama.cpp puts around a text, and what ``tokenizer.json`` does, where that differs.
        pre: pre-tokenizers that agree on every text, the file's own not among them.
        prefix: the value of ``add_space_prefix`` with which all texts agree; None when none does.
        form: the normal form of Unicode with which all texts agree, "" when none does: the source brings texts into
            it, llama.cpp takes them as they are.
    """

    why_not: str = ""
    texts: int = 0
    differs: tuple[Differs, ...] = ()
    ends: tuple[Cut, Cut] | None = None
    pre: tuple[str, ...] = ()
    prefix: bool | None = None
    form: str = ""

    __repr__ = short_repr

    @property
    def by_class(self) -> Mapping[str, int]:
        """How many texts of each class differ, everyday classes first; Unicode's blocks counted as one class."""
        return Counter(group(d.sample.kind) for d in self.differs)

    @property
    def everyday(self) -> bool:
        """Whether a text differs that every use of the model meets."""
        return any(d.sample.kind in EVERYDAY for d in self.differs)


def group(kind: str) -> str:
    """The class of a text, for counting."""
    return "unicode blocks" if kind.startswith("unicode: ") else kind


def differences(samples: Sequence[Sample], source: Sequence[Cut], file: Sequence[Cut]) -> tuple[Differs, ...]:
    """The texts of which the ids differ, everyday classes first, short texts before long ones."""
    found = [Differs(s, a, b) for s, a, b in zip(samples, source, file, strict=True) if a.ids != b.ids]
    order = {kind: i for i, kind in enumerate(EVERYDAY)}
    return tuple(sorted(found, key=lambda d: (order.get(d.sample.kind, len(order)), len(d.sample.text))))
