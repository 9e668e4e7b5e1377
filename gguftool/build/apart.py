"""The weights of some rows beside others in their place: what both come to, in sums.

The arithmetic of `gguftool.build.distance`, which knows what is read and how much at once. Where ggml's kernels do it,
it runs in the child of `gguftool.build.distancechild`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from gguftool.brief import short_repr
from gguftool.build.kernels import Kernels
from gguftool.build.objections import NO_WAY_WITHOUT
from gguftool.errors import FormatError
from gguftool.format.header import TensorInfo
from gguftool.format.types import TENSOR_TYPE_BY_NAME
from gguftool.model.arrays import floats
from gguftool.records import dataclass, fields

if TYPE_CHECKING:
    import numpy as np

    Floats = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Distance:
    """Sums over the weights W of a tensor and others in their place, Ŵ; what people read is made of them.

    Attributes:
        count: weights.
        squares: sum of (W-Ŵ)².
        own, other: sums of W² and of Ŵ².
        product: sum of W·Ŵ.
        absolute: sum of |W-Ŵ|.
        largest: the largest |W-Ŵ|.
        weighed, weighed_own: the first two with each column's importance; 0 where none is given.
    """

    count: int = 0
    squares: float = 0.0
    own: float = 0.0
    other: float = 0.0
    product: float = 0.0
    absolute: float = 0.0
    largest: float = 0.0
    weighed: float = 0.0
    weighed_own: float = 0.0

    __repr__ = short_repr

    def __add__(self, more: Distance) -> Distance:
        sums = {f.name: getattr(self, f.name) + getattr(more, f.name) for f in fields(self)}
        return Distance(**{**sums, "largest": max(self.largest, more.largest)})

    @property
    def relative(self) -> float | None:
        """‖W-Ŵ‖²/‖W‖²: 0 is the same, 1 as far off as nothing at all; None where W is all zero and Ŵ is not."""
        return _share(self.squares, self.own)

    @property
    def weighted(self) -> float | None:
        """The same with each column's importance, which is what its part of the result is off; None without any."""
        return _share(self.weighed, self.weighed_own) if self.weighed_own else None

    @property
    def cosine(self) -> float | None:
        """Cosine of the angle between both; None where one of them is all zero."""
        return self.product / math.sqrt(self.own * self.other) if self.own > 0 and self.other > 0 else None

    @property
    def mean(self) -> float:
        """Mean of |W-Ŵ|."""
        return self.absolute / self.count if self.count else 0.0


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None if part > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows to look at.

    Attributes:
        one: the tensor of W.
        data: of its rows.
        two: the tensor of Ŵ; None: W itself, there and back through ``through``.
        other: of its rows.
        through: a tensor type that our own quantiser makes of W.
        rows, width: how many there are, and the weights of each.
        weights: f32 importances of the columns.
    """

    one: TensorInfo
    data: bytes | memoryview
    two: TensorInfo | None
    other: bytes | memoryview | None
    through: str | None
    rows: int
    width: int
    weights: bytes | None


def measure(kernels: Kernels, piece: Piece) -> Distance:
    """The sums of one piece.

    Raises:
        FormatError: it cannot be turned into numbers, or holds NaN or infinity.
    """
    p = piece
    x = numbers(kernels, p.one, p.data, p.rows, p.width)
    if p.two is not None and p.other is not None:
        y = numbers(kernels, p.two, p.other, p.rows, p.width)
    else:
        y = _remade(kernels, p.one.type_name, p.through or "", p.data, p.rows, p.width, p.weights)
    return sums(x, y, p.width, p.weights)


def numbers(kernels: Kernels, info: TensorInfo, data: bytes | memoryview, rows: int, width: int) -> Floats:
    """Whole rows of a tensor as float32, flat.

    Raises:
        FormatError: it cannot be turned into numbers, or holds NaN or infinity.
    """
    if info.type_name in kernels.reads:
        return _read_back(kernels, info.type_name, data, rows, width)
    return _finite(floats(info, data))


def _read_back(kernels: Kernels, type_name: str, data: bytes | memoryview, rows: int, width: int) -> Floats:
    """A copy, for the kernels' own memory is only valid until their next call."""
    import numpy as np

    return _finite(np.frombuffer(kernels.convert(data, type_name, "F32", rows, width, None), "<f4").copy())


def _finite(x: Floats) -> Floats:
    import numpy as np

    if not np.isfinite(x).all():
        raise FormatError("holds NaN or infinity", kind="invalid-data")
    return x


def _remade(
    kernels: Kernels, source: str, new: str, data: bytes | memoryview, rows: int, width: int, weights: bytes | None
) -> Floats:
    kind = TENSOR_TYPE_BY_NAME[new]
    if width % kind.block_size:
        raise FormatError(f"rows of {width} weights are not whole blocks of {new}")
    if weights is None and new in NO_WAY_WITHOUT:
        raise FormatError(f"{new} is not made without an importance matrix")
    made = bytes(kernels.convert(data, source, new, rows, width, weights))
    return _read_back(kernels, new, made, rows, width)


def sums(x: Floats, y: Floats, width: int, weights: bytes | None = None) -> Distance:
    """The sums of two arrays of float32 of one size, rows of ``width``; added up in double precision."""
    import numpy as np

    def dot(one: Floats, two: Floats) -> float:
        # Not by BLAS, whose own threads wait for one another where all cores have work.
        return float(np.einsum("i,i->", one, two))

    def weigh(one: Floats) -> float:
        by = np.frombuffer(weights or b"", "<f4").astype(np.float64)
        return float(np.einsum("ij,ij,j->", *2 * (one.reshape(-1, width),), by)) if weights else 0.0

    a, b = x.astype(np.float64), y.astype(np.float64)
    own, other, product, weighed_own = dot(a, a), dot(b, b), dot(a, b), weigh(a)
    a -= b
    squares, weighed = dot(a, a), weigh(a)
    np.abs(a, out=a)
    return Distance(
        len(a), squares, own, other, product, float(a.sum()), float(a.max(initial=0.0)), weighed, weighed_own
    )
