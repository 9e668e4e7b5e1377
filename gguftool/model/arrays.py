"""Bytes of a tensor as numpy arrays. numpy and gguf are imported when they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gguftool.errors import FormatError
from gguftool.format.header import TensorInfo

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

NATIVE = {"F32": "f4", "F16": "f2", "F64": "f8", "I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8"}
"""Tensor types that numpy has, with its code for them."""


def stored(info: TensorInfo, data: bytes, order: str = "<") -> Array:
    """The data as it is stored: numbers where numpy has the type, else the bytes of the blocks, row by row.

    Args:
        info: the tensor.
        data: all its bytes.
        order: ``<`` or ``>``, the byte order of the file.

    Returns:
        an array that cannot be written to, in numpy's order of dimensions (that of GGML reversed); of a block type
        uint8, the last dimension being the bytes of a row.
    """
    import numpy as np

    rows = info.shape[:0:-1]
    code = NATIVE.get(info.type_name)
    if code is not None:
        return np.frombuffer(data, order + code).reshape(*rows, info.shape[0] if info.shape else 1)
    width = len(data)
    for n in rows:
        width //= n or 1
    return np.frombuffer(data, np.uint8).reshape(*rows, width)


def floats(info: TensorInfo, data: bytes | memoryview) -> Array:
    """Any whole number of blocks of a tensor as float32, flat; `gguf` does the arithmetic.

    Raises:
        FormatError: there is no way back from this type.
    """
    import gguf
    import numpy as np

    code = NATIVE.get(info.type_name)
    try:
        # What a file holds may be too large, or no number: that is in the result, and nothing to warn of.
        with np.errstate(all="ignore"):
            if code is not None:
                return np.frombuffer(data, "<" + code).astype(np.float32)
            kind = gguf.GGMLQuantizationType(info.type_id)
            return np.asarray(gguf.dequantize(np.frombuffer(data, np.uint8), kind)).reshape(-1)
    except (NotImplementedError, ValueError) as e:
        why = str(e) or "unknown"
        raise FormatError(
            f"{info.name}: {info.type_name} cannot be turned into numbers: {why}", key=info.name
        ) from None
