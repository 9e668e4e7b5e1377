"""How large a mixture may be: ``4.5bpw``, ``90MiB``, or as large as llama.cpp's own of some name."""

from __future__ import annotations

import re
from collections.abc import Callable

from gguftool import quantity
from gguftool.build.ftypes import is_target, target
from gguftool.build.plan import QuantizePlan
from gguftool.errors import UsageError
from gguftool.records import dataclass
from gguftool.regex import regex

_BITS = regex(r"(?P<number>\d{1,3}(?:\.\d{1,6})?)\s*(?:bpw|bits?(?:/w(?:eight)?)?)", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Limit:
    """The most that a file may take.

    Attributes:
        text: as it was asked for.
        bits_per_weight: of all tensors together; None where the file's size counts.
        file_size: of the whole file, in bytes; 0 where the bits count.
        like: llama.cpp's target whose size it is, "" when none was named.
    """

    text: str
    bits_per_weight: float | None = None
    file_size: int = 0
    like: str = ""

    def bytes_for(self, plan: QuantizePlan) -> int:
        """Bytes of data or of the file that it comes to for the tensors of ``plan``."""
        if self.bits_per_weight is None:
            return self.file_size
        return int(self.bits_per_weight * _weights(plan) / 8)

    def over(self, plan: QuantizePlan) -> int:
        """Bytes by which ``plan`` is larger."""
        return (plan.file_size if self.bits_per_weight is None else plan.data_size) - self.bytes_for(plan)

    def bits_of(self, size: int, plan: QuantizePlan) -> float:
        """``size`` in bits a weight of the tensors of ``plan``."""
        return 8 * size / max(1, _weights(plan))


def _weights(plan: QuantizePlan) -> int:
    return sum(s.tensor.info.elements for s in plan.steps)


def limit(text: str, size_of: Callable[[str], int]) -> Limit:
    """What ``text`` asks for.

    Args:
        text: bits a weight, a size, or a target of llama.cpp.
        size_of: bytes of the file that a target of llama.cpp gives.

    Raises:
        UsageError: it is none of them.
    """
    said = text.strip()
    match = _BITS.fullmatch(said)
    if match:
        return Limit(said, bits_per_weight=float(match["number"]))
    if is_target(said):
        name = target(said).name
        return Limit(name, file_size=size_of(name), like=name)
    try:
        return Limit(said, file_size=quantity.size(said))
    except UsageError:
        raise UsageError(
            f"--target {said[:40]!r} is neither bits a weight, a size, nor a quantisation",
            "write for example 4.5bpw, 90MiB, or Q4_K_M (as large as llama.cpp's own)",
        ) from None
