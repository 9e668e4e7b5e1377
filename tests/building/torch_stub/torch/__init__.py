"""numpy posing as the little of torch that llama.cpp's converter needs for plain dense models (with ``--no-lazy``).

It keeps 900 MB out of the default tests. `./dev test-convert` converts the same folders with real torch, and the test
there compares the two results byte for byte.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

__version__ = "2.11.0"
Size = tuple


class dtype:
    """A torch dtype and the numpy type its bytes are kept in; bfloat16 is kept as its 16 bits."""

    def __init__(self, name: str, kept: Any) -> None:
        self.name, self.kept = name, kept

    def __repr__(self) -> str:
        return f"torch.{self.name}"


float32 = dtype("float32", np.float32)
float16 = half = dtype("float16", np.float16)
float64 = double = dtype("float64", np.float64)
bfloat16 = dtype("bfloat16", np.uint16)
uint8 = dtype("uint8", np.uint8)
uint16 = dtype("uint16", np.uint16)
uint32 = dtype("uint32", np.uint32)
uint64 = dtype("uint64", np.uint64)
int8 = dtype("int8", np.int8)
int16 = dtype("int16", np.int16)
int32 = dtype("int32", np.int32)
int64 = long = dtype("int64", np.int64)
bool = dtype("bool", np.bool_)
float8_e4m3fn = dtype("float8_e4m3fn", np.uint8)
float8_e5m2 = dtype("float8_e5m2", np.uint8)
globals()["float"] = float32
_OF_NUMPY = {np.dtype(d.kept): d for d in (uint8, uint16, uint32, uint64, int8, int16, int32, int64)}
_OF_NUMPY |= {np.dtype(d.kept): d for d in (float16, float32, float64, bool)}


class Tensor:
    """An array with the torch dtype it stands for."""

    def __init__(self, array: np.ndarray, kind: dtype) -> None:
        self.array, self.dtype = array, kind

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def dim(self) -> int:
        return self.array.ndim

    def _values(self) -> np.ndarray:
        if self.dtype is bfloat16:
            return (self.array.astype(np.uint32) << 16).view(np.float32)
        return self.array

    def view(self, *shape: Any) -> Tensor:
        if isinstance(shape[0], dtype):
            return Tensor(np.ascontiguousarray(self.array).view(shape[0].kept), shape[0])
        return self.reshape(*shape)

    def reshape(self, *shape: Any) -> Tensor:
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return Tensor(self.array.reshape(tuple(wanted)), self.dtype)

    def transpose(self, first: int, second: int) -> Tensor:
        return Tensor(self.array.swapaxes(first, second), self.dtype)

    swapaxes = transpose

    def squeeze(self) -> Tensor:
        return Tensor(np.squeeze(self.array), self.dtype)

    def to(self, kind: Any = None, **kwargs: Any) -> Tensor:
        wanted = kind or kwargs.get("dtype") or self.dtype
        if not isinstance(wanted, dtype) or wanted is self.dtype:
            return self
        values = self._values()
        if wanted is bfloat16:
            bits = values.astype(np.float32).view(np.uint32)
            return Tensor(((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16), wanted)
        return Tensor(values.astype(wanted.kept), wanted)

    def float(self) -> Tensor:
        return self.to(float32)

    def numpy(self) -> np.ndarray:
        return self.array

    def __getitem__(self, index: Any) -> Tensor:
        return Tensor(np.asarray(self.array[index]), self.dtype)

    def __add__(self, other: builtins.float) -> Tensor:
        values = self._values()
        return from_numpy(values + values.dtype.type(other)).to(self.dtype)


def from_numpy(array: np.ndarray) -> Tensor:
    """An array as a tensor."""
    return Tensor(array, _OF_NUMPY[array.dtype])


class inference_mode:
    """Nothing to switch off."""

    def __init__(self, *args: Any) -> None:
        pass

    def __enter__(self) -> inference_mode:
        return self

    def __exit__(self, *args: Any) -> None:
        pass

    def __call__(self, function: Any) -> Any:
        return function


no_grad = inference_mode
