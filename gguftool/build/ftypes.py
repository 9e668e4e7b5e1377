"""What a model can be quantised to, as a table.

Names and ids are those of llama-quantize (`quantize.cpp:QUANT_OPTIONS`, `llama.h:llama_ftype`, b11434); the tensor
type is the one most tensors get (`llama-quant.cpp:llama_ftype_get_default_type`).
"""

from __future__ import annotations

from dataclasses import dataclass

from gguftool.errors import UsageError
from gguftool.near import near_names

OUTTYPES = ("auto", "f16", "bf16", "f32", "q8_0", "tq1_0", "tq2_0")
"""What llama.cpp's converter writes (``--outtype``); auto keeps the 16-bit type of the source."""


@dataclass(frozen=True, slots=True)
class Target:
    """One quantisation: ``ftype`` goes into `general.file_type`, ``default`` is the type most tensors get."""

    name: str
    ftype: int
    default: str

    @property
    def quantized(self) -> bool:
        """False for F32, F16 and BF16, which are conversions."""
        return self.default not in ("F32", "F16", "BF16")


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


def is_target(name: str) -> bool:
    """Whether ``name`` is a target or an alias of one, in any case."""
    return ALIASES.get(name.upper(), name.upper()) in TARGETS


def target(name: str) -> Target:
    """The target called ``name``, in any case; aliases as llama-quantize has them.

    Raises:
        UsageError: there is none of that name; the message names near ones.
    """
    upper = name.upper()
    found = TARGETS.get(ALIASES.get(upper, upper))
    if found is not None:
        return found
    near = near_names(upper, [*TARGETS, *ALIASES], 3, 0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else None
    raise UsageError(f"there is no quantisation {name!r}", hint or f"one of {', '.join(TARGETS)}")
