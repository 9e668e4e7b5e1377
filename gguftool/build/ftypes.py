"""What a model can be quantised to, as a table.

Names and ids are those of llama-quantize (`quantize.cpp:QUANT_OPTIONS`, `llama.h:llama_ftype`, b11434); the tensor
type is the one most tensors get (`llama-quant.cpp:llama_ftype_get_default_type`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gguftool.errors import UsageError
from gguftool.format.types import TENSOR_TYPE_BY_NAME
from gguftool.near import near_names
from gguftool.records import dataclass
from gguftool.regex import regex

OUTTYPES = ("auto", "f16", "bf16", "f32", "q8_0", "tq1_0", "tq2_0")
"""What llama.cpp's converter writes (``--outtype``); auto keeps the 16-bit type of the source."""


@dataclass(frozen=True, slots=True)
class Target:
    """One quantisation: ``ftype`` goes into `general.file_type`, ``default`` is the type most tensors get."""

    name: str
    ftype: int
    default: str

    @property
    def copies(self) -> bool:
        """True for COPY, which leaves every tensor as it is."""
        return not self.default

    @property
    def quantized(self) -> bool:
        """False for F32, F16 and BF16, which are conversions, and for COPY."""
        return self.default not in ("F32", "F16", "BF16", "")


TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        Target("Q8_0", 7, "Q8_0"),
        Target("Q6_K", 18, "Q6_K"),
        Target("Q5_K_M", 17, "Q5_K"),
        Target("Q5_K_S", 16, "Q5_K"),
        Target("Q5_1", 9, "Q5_1"),
        Target("Q5_0", 8, "Q5_0"),
        Target("Q4_K_M", 15, "Q4_K"),
        Target("Q4_K_S", 14, "Q4_K"),
        Target("Q4_1", 3, "Q4_1"),
        Target("IQ4_NL", 25, "IQ4_NL"),
        Target("Q4_0", 2, "Q4_0"),
        Target("IQ4_XS", 30, "IQ4_XS"),
        Target("MXFP4_MOE", 38, "MXFP4"),
        Target("Q3_K_L", 13, "Q3_K"),
        Target("Q3_K_M", 12, "Q3_K"),
        Target("IQ3_M", 27, "IQ3_S"),
        Target("IQ3_S", 26, "IQ3_S"),
        Target("Q3_K_S", 11, "Q3_K"),
        Target("IQ3_XS", 22, "IQ3_S"),
        Target("IQ3_XXS", 23, "IQ3_XXS"),
        Target("Q2_K", 10, "Q2_K"),
        Target("Q2_K_S", 21, "Q2_K"),
        Target("IQ2_M", 29, "IQ2_S"),
        Target("IQ2_S", 28, "IQ2_XS"),
        Target("IQ2_XS", 20, "IQ2_XS"),
        Target("Q2_0", 41, "Q2_0"),
        Target("IQ2_XXS", 19, "IQ2_XXS"),
        Target("TQ2_0", 37, "TQ2_0"),
        Target("IQ1_M", 31, "IQ1_M"),
        Target("TQ1_0", 36, "TQ1_0"),
        Target("IQ1_S", 24, "IQ1_S"),
        Target("Q1_0", 40, "Q1_0"),
        Target("BF16", 32, "BF16"),
        Target("F16", 1, "F16"),
        Target("F32", 0, "F32"),
    )
}
"""By name, largest first; the conversions to float types stand at the end."""
ALIASES = {"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M"}


COPY = Target("COPY", 0, "")
"""No quantisation: one file of what may be a set, with other metadata."""
_BY_NUMBER = {str(t.ftype): t for t in TARGETS.values()}
_NUMBER = regex(r"\+?0*([0-9]{1,4})")


def _found(name: str) -> Target | None:
    number = _NUMBER.fullmatch(name)
    if number:
        return _BY_NUMBER.get(number[1])
    upper = name.upper()
    return COPY if upper == COPY.name else TARGETS.get(ALIASES.get(upper, upper))


def is_target(name: str) -> bool:
    """Whether ``name`` is a target, an alias or the number of one, or COPY, in any case."""
    return _found(name) is not None


def target(name: str) -> Target:
    """The target called ``name``, in any case; aliases and numbers as llama-quantize has them.

    Raises:
        UsageError: there is none of that name; the message names near ones.
    """
    found = _found(name)
    if found is not None:
        return found
    if name.lstrip("+-").isdecimal():
        raise UsageError(f"there is no quantisation with the number {name}", "gguftool quantize MODEL --list names all")
    upper = name.upper()
    near = near_names(upper, [*TARGETS, *ALIASES, COPY.name], 3, 0.4)
    mixture = "UD- and _XL are mixtures of others; " if upper.startswith("UD-") or upper.endswith("_XL") else ""
    hint = f"{mixture}did you mean {' or '.join(near)}?" if near else None
    raise UsageError(f"there is no quantisation {name!r}", hint or f"one of {', '.join(TARGETS)}")


_GUESSES = {"Q3_K": 12, "Q4_K": 15, "Q5_K": 17, "IQ2_S": 28, "NVFP4": 39}
GUESSED = 1024
"""Added to a file type that is told from the tensors (`llama.h:LLAMA_FTYPE_GUESSED`)."""


def guessed(types: Iterable[str]) -> int:
    """The file type that llama.cpp takes a file for that names none (`llama_model_loader`, b11434).

    Args:
        types: of all tensors.
    """
    counts = Counter(types)
    most = max(
        counts, key=lambda name: (counts[name], -TENSOR_TYPE_BY_NAME[name].id if name in TENSOR_TYPE_BY_NAME else 0)
    )
    known = TARGETS.get(most)
    return GUESSED | _GUESSES.get(most, known.ftype if known else 0)
