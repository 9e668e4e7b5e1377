"""Devices that weights, caches and buffers can lie on."""

from __future__ import annotations

from dataclasses import dataclass

from gguftool.brief import short_repr

HOST = "CPU"


@dataclass(frozen=True, slots=True)
class Kind:
    """What matters of a backend.

    Attributes:
        alignment: a tensor starts at a multiple of this.
        pads_rows: quantised tensors get room for one row rounded up to 512 elements (`ggml-cuda.cu:get_alloc_size`).
        pinned_host: host weights go to memory pinned for it, which keeps the CPU from repacking them.
        known: sizes are checked against real runs or the source; else they are of the right order.
    """

    alignment: int
    pads_rows: bool
    pinned_host: bool
    known: bool

    __repr__ = short_repr


KINDS: dict[str, Kind] = {
    "cuda": Kind(128, True, True, True),
    "rocm": Kind(128, True, True, True),
    "vulkan": Kind(64, False, True, True),
    "metal": Kind(32, False, False, False),
    "sycl": Kind(128, False, True, False),
    "rpc": Kind(128, False, False, False),
    "cpu": Kind(32, False, False, True),
}


@dataclass(frozen=True, slots=True)
class Device:
    """A device of llama.cpp, in its order.

    Attributes:
        name: as llama.cpp calls it, for example ``CUDA0``.
        kind: a name of `KINDS`.
        memory: bytes that may be used; None: unknown.
        about: what it is, for people.
        reserve: bytes of it to keep free; None: as on every device.
    """

    name: str
    kind: str
    memory: int | None = None
    about: str = ""
    reserve: int | None = None

    __repr__ = short_repr

    @property
    def rules(self) -> Kind:
        """What its backend does."""
        return KINDS.get(self.kind, KINDS["cuda"])


def row_padding(block_size: int, block_bytes: int, width: int) -> int:
    """Extra bytes CUDA adds to a quantised tensor whose rows are not a multiple of 512 elements wide."""
    if block_size == 1 or width % 512 == 0:
        return 0
    return (512 - width % 512) // block_size * block_bytes
