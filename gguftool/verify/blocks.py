"""Where each tensor type keeps its floating-point numbers, and which of their bit patterns are NaN or infinite.

The table says what `ggml-quants.c:ggml_validate_row_data` (b11434) looks at, which is what ``--check-tensors`` of
llama.cpp does. Types without floating-point numbers have an empty row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gguftool.records import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Number:
    """One number of a block: its offset and width in bytes; it is not finite when all bits of ``exponent`` are set."""

    at: int
    width: int
    exponent: int
    mantissa: int


def _f16(at: int) -> Number:
    return Number(at, 2, 0x7C00, 0x03FF)


F32 = Number(0, 4, 0x7F800000, 0x007FFFFF)
BF16 = Number(0, 2, 0x7F80, 0x007F)
F64 = Number(0, 8, 0x7FF0000000000000, 0x000FFFFFFFFFFFFF)
# E8M0 has no infinity: its one special value is NaN.
E8M0 = Number(0, 1, 0xFF, 0xFF)

D = (_f16(0),)
D_AND_M = (_f16(0), _f16(2))
NUMBERS: dict[str, tuple[Number, ...]] = {
    "F32": (F32,),
    "F16": D,
    "BF16": (BF16,),
    "F64": (F64,),
    "Q4_0": D,
    "Q4_1": D_AND_M,
    "Q5_0": D,
    "Q5_1": D_AND_M,
    "Q8_0": D,
    "Q2_K": (_f16(80), _f16(82)),
    "Q3_K": (_f16(108),),
    "Q4_K": D_AND_M,
    "Q5_K": D_AND_M,
    "Q6_K": (_f16(208),),
    "Q8_K": (F32,),
    "IQ2_XXS": D,
    "IQ2_XS": D,
    "IQ3_XXS": D,
    "IQ1_S": D,
    "IQ4_NL": D,
    "IQ3_S": D,
    "IQ2_S": D,
    "IQ4_XS": D,
    # The scale of IQ1_M lies in four pieces: see `special`.
    "IQ1_M": (_f16(48),),
    "TQ1_0": (_f16(52),),
    "TQ2_0": (_f16(64),),
    "MXFP4": (E8M0,),
    # Its E4M3 scales have no bit pattern that ggml does not take.
    "NVFP4": (),
    "Q1_0": D,
    "Q2_0": D,
    "I8": (),
    "I16": (),
    "I32": (),
    "I64": (),
}
FLOATS = frozenset({"F32", "F16", "BF16", "F64"})
NOT_FOR_FILES = frozenset({"Q8_1"})
"""Types of intermediate results: llama.cpp calls their data invalid whatever it is."""


def special(blocks: NDArray, type_name: str, number: Number, big_endian: bool) -> tuple[NDArray, NDArray]:  # type: ignore[type-arg]
    """Which blocks have a number that is NaN, and which one that is infinite.

    Args:
        blocks: bytes, one row a block, shape (blocks, bytes of a block).
        type_name: tensor type.
        number: which number of the block.
        big_endian: byte order of the file.

    Returns:
        Two boolean arrays of shape (blocks,).
    """
    import numpy as np

    if number is F64:
        # The library looks at a double as a float, so what does not fit into one counts as infinite.
        with np.errstate(over="ignore", invalid="ignore"):
            floats = blocks.view(">f8" if big_endian else "<f8")[:, 0].astype(np.float32)
        return np.isnan(floats), np.isinf(floats)
    values = _values(blocks, type_name, number, big_endian)
    kind = values.dtype.type
    hit = (values & kind(number.exponent)) == kind(number.exponent)
    if number is E8M0:
        return hit, np.zeros_like(hit)
    nan = hit & ((values & kind(number.mantissa)) != 0)
    return nan, hit & ~nan


def any_special(blocks: NDArray, type_name: str, number: Number, big_endian: bool) -> bool:  # type: ignore[type-arg]
    """Whether `special` would find any; the fast way for good data."""
    import numpy as np

    if number is F64:
        return any(bool(hit.any()) for hit in special(blocks, type_name, number, big_endian))
    values = _values(blocks, type_name, number, big_endian)
    if number is F32 and type_name == "F32":
        return not bool(np.isfinite(values.view(values.dtype.str.replace("u", "f"))).all())
    kind = values.dtype.type
    return bool(values.size) and bool((values & kind(number.exponent)).max() == kind(number.exponent))


def _values(blocks: NDArray, type_name: str, number: Number, big_endian: bool) -> NDArray:  # type: ignore[type-arg]
    """The number of every block as an unsigned integer in the byte order of this machine."""
    import numpy as np

    order = ">" if big_endian else "<"
    width = number.width
    if type_name == "IQ1_M":
        # Four bits at the top of each of four 16-bit words (`ggml-common.h:iq1m_scale_t`).
        words = np.ascontiguousarray(blocks[:, 48:56]).view(f"{order}u2").astype(np.uint16)
        top = words >> 12
        packed: NDArray = top[:, 0] | top[:, 1] << 4 | top[:, 2] << 8 | top[:, 3] << 12  # type: ignore[type-arg]
        return packed
    block_bytes = blocks.shape[1]
    dtype = np.dtype(f"{order}u{width}")
    if block_bytes % width == 0 and number.at % width == 0:
        values = blocks.view(dtype)[:, number.at // width]
    else:
        values = np.ascontiguousarray(blocks[:, number.at : number.at + width]).view(dtype)[:, 0]
    return values if dtype.isnative else values.astype(dtype.newbyteorder("="))
