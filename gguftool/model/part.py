"""One file of a model, and one tensor in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gguftool.brief import line, short_repr, shown
from gguftool.errors import FormatError
from gguftool.format.header import Header, TensorInfo
from gguftool.records import dataclass
from gguftool.source import Source

if TYPE_CHECKING:
    from gguftool.model.arrays import Array


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a model: its bytes and its header; ``no`` is the shard number from 0."""

    name: str
    source: Source
    header: Header
    no: int = 0

    __repr__ = short_repr

    @property
    def size(self) -> int:
        """Length of the file in bytes."""
        return self.source.size

    @property
    def path(self) -> str | None:
        """The file on this machine that the bytes come from; None for those of the network or of memory."""
        found = getattr(self.source, "path", None)
        return found if isinstance(found, str) else None


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor and where its data stands."""

    info: TensorInfo
    part: Part

    @property
    def name(self) -> str:
        """Tensor name."""
        return self.info.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes in GGML order, fastest running dimension first."""
        return self.info.shape

    @property
    def type_name(self) -> str:
        """``Q4_K``."""
        return self.info.type_name

    @property
    def nbytes(self) -> int | None:
        """Bytes of the data; None when the type is unknown."""
        return self.info.nbytes

    @property
    def offset(self) -> int:
        """Absolute offset of the data in its file."""
        return self.part.header.data_offset + self.info.offset

    def read(self) -> bytes:
        """The bytes of the data.

        Raises:
            FormatError: unknown type, or the data passes the end of the file.
        """
        n = self.nbytes
        if n is None:
            raise FormatError(f"{self.name}: tensor type {self.type_name} is unknown, so is its size", key=self.name)
        if self.offset + n > self.part.size:
            raise FormatError(
                f"{self.name}: data passes the end of {self.part.name}",
                offset=self.offset,
                key=self.name,
                kind="truncated",
            )
        return self.part.source.read_at(self.offset, n)

    def numpy(self) -> Array:
        """The data as it is stored, as a numpy array that cannot be written to; see `gguftool.model.arrays.stored`."""
        from gguftool.model.arrays import stored

        return stored(self.info, self.read(), self.part.header.layout.order)

    def dequantized(self) -> Array:
        """The weights as float32, in numpy's order of dimensions (that of GGML reversed); `gguf` does the arithmetic.

        Raises:
            FormatError: a type without a way back, or a big-endian file.
        """
        if self.part.header.big_endian:
            raise FormatError(f"{self.name}: big-endian data is not dequantised", key=self.name)
        from gguftool.model.arrays import floats

        return floats(self.info, self.read()).reshape(self.shape[::-1])

    def __repr__(self) -> str:
        return line("Tensor", [shown(self.name), self.type_name, str(self.shape), f"{self.nbytes or 0:,} bytes"])
