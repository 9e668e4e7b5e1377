"""Value types, tensor types and file types of GGUF as tables.

Ids, names and block layouts follow ggml (`ggml.h:ggml_type`, `ggml-common.h`, llama.cpp b11434); a test
compares them with the real library. No logic beyond look-up.
"""

from __future__ import annotations

from gguftool.brief import short_repr
from gguftool.format.frame import DEFAULT_ALIGNMENT as DEFAULT_ALIGNMENT
from gguftool.format.frame import MAGIC as MAGIC
from gguftool.records import dataclass

MAX_NAME = 64
"""A tensor name of llama.cpp must be shorter than this, in bytes (`ggml.h:GGML_MAX_NAME`)."""
MAX_DIMS = 4
TYPE_COUNT = 43
"""Tensor type ids known to llama.cpp b11434 are below this (`ggml.h:GGML_TYPE_COUNT`)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How numbers are written: GGUF version (v1 has 32-bit counts and lengths) and byte order."""

    version: int = 3
    big_endian: bool = False

    __repr__ = short_repr

    @property
    def order(self) -> str:
        """Byte order as struct spells it: ``<`` or ``>``."""
        return ">" if self.big_endian else "<"

    @property
    def length_size(self) -> int:
        """Bytes of a count or string length: 8, in v1 4."""
        return 4 if self.version == 1 else 8

    @property
    def length_code(self) -> str:
        """Struct code of a count or string length."""
        return "I" if self.version == 1 else "Q"


@dataclass(frozen=True, slots=True)
class ValueType:
    """A metadata value type: ``size`` in bytes (0: variable), ``code`` for struct and array."""

    id: int
    name: str
    size: int
    code: str


VALUE_TYPES: dict[int, ValueType] = {
    t.id: t
    for t in (
        ValueType(0, "u8", 1, "B"),
        ValueType(1, "i8", 1, "b"),
        ValueType(2, "u16", 2, "H"),
        ValueType(3, "i16", 2, "h"),
        ValueType(4, "u32", 4, "I"),
        ValueType(5, "i32", 4, "i"),
        ValueType(6, "f32", 4, "f"),
        ValueType(7, "bool", 1, "B"),
        ValueType(8, "str", 0, ""),
        ValueType(9, "arr", 0, ""),
        ValueType(10, "u64", 8, "Q"),
        ValueType(11, "i64", 8, "q"),
        ValueType(12, "f64", 8, "d"),
    )
}
VALUE_TYPE_BY_NAME: dict[str, ValueType] = {t.name: t for t in VALUE_TYPES.values()}
STR = 8
ARR = 9
BOOL = 7
U32 = 4


def value_type_name(type_id: int) -> str:
    """Name of a value type id, ``type99`` for one newer than we are."""
    t = VALUE_TYPES.get(type_id)
    return t.name if t else f"type{type_id}"


@dataclass(frozen=True, slots=True)
class TensorType:
    """A ggml tensor type: ``block_size`` elements are stored in ``block_bytes`` bytes."""

    id: int
    name: str
    block_size: int
    block_bytes: int

    __repr__ = short_repr

    @property
    def bits_per_weight(self) -> float:
        """Bits per element."""
        return self.block_bytes * 8 / self.block_size


TENSOR_TYPES: dict[int, TensorType] = {
    t.id: t
    for t in (
        TensorType(0, "F32", 1, 4),
        TensorType(1, "F16", 1, 2),
        TensorType(2, "Q4_0", 32, 18),
        TensorType(3, "Q4_1", 32, 20),
        TensorType(6, "Q5_0", 32, 22),
        TensorType(7, "Q5_1", 32, 24),
        TensorType(8, "Q8_0", 32, 34),
        TensorType(9, "Q8_1", 32, 36),
        TensorType(10, "Q2_K", 256, 84),
        TensorType(11, "Q3_K", 256, 110),
        TensorType(12, "Q4_K", 256, 144),
        TensorType(13, "Q5_K", 256, 176),
        TensorType(14, "Q6_K", 256, 210),
        TensorType(15, "Q8_K", 256, 292),
        TensorType(16, "IQ2_XXS", 256, 66),
        TensorType(17, "IQ2_XS", 256, 74),
        TensorType(18, "IQ3_XXS", 256, 98),
        TensorType(19, "IQ1_S", 256, 50),
        TensorType(20, "IQ4_NL", 32, 18),
        TensorType(21, "IQ3_S", 256, 110),
        TensorType(22, "IQ2_S", 256, 82),
        TensorType(23, "IQ4_XS", 256, 136),
        TensorType(24, "I8", 1, 1),
        TensorType(25, "I16", 1, 2),
        TensorType(26, "I32", 1, 4),
        TensorType(27, "I64", 1, 8),
        TensorType(28, "F64", 1, 8),
        TensorType(29, "IQ1_M", 256, 56),
        TensorType(30, "BF16", 1, 2),
        TensorType(34, "TQ1_0", 256, 54),
        TensorType(35, "TQ2_0", 256, 66),
        TensorType(39, "MXFP4", 32, 17),
        TensorType(40, "NVFP4", 64, 36),
        TensorType(41, "Q1_0", 128, 18),
        TensorType(42, "Q2_0", 64, 18),
    )
}
TENSOR_TYPE_BY_NAME: dict[str, TensorType] = {t.name: t for t in TENSOR_TYPES.values()}
REMOVED_TENSOR_TYPES: dict[int, str] = {
    4: "Q4_2",
    5: "Q4_3",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
}
"""Ids that llama.cpp once wrote and now refuses (block size 0)."""


def tensor_type_name(type_id: int) -> str:
    """Name of a tensor type id; ``type99`` for one newer than we are."""
    t = TENSOR_TYPES.get(type_id)
    return t.name if t else REMOVED_TENSOR_TYPES.get(type_id, f"type{type_id}")


FILE_TYPES: dict[int, str] = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4_MOE",
    39: "NVFP4",
    40: "Q1_0",
    41: "Q2_0",
}
"""`general.file_type` ids (`llama.h:llama_ftype`, b11434); 1024 may be added for a guessed type."""


def file_type_name(ftype: int) -> str:
    """Name of a `general.file_type` value; ``ftype 99`` when unknown."""
    return FILE_TYPES.get(ftype & ~1024, f"ftype {ftype}")
