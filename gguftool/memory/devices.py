"""Devices that weights, caches and buffers can lie on."""

from __future__ import annotations

from gguftool.brief import short_repr
from gguftool.facts.backends import Backend, backend
from gguftool.records import dataclass

HOST = "CPU"


@dataclass(frozen=True, slots=True)
class Kind:
    """What matters of a backend, beside what it says of itself (`gguftool.facts.backends`).

    Attributes:
        alignment: a tensor starts at a multiple of this.
        known: sizes are checked against real runs or the source; else they are of the right order.
    """

    alignment: int
    known: bool

    __repr__ = short_repr


KINDS: dict[str, Kind] = {
    "cuda": Kind(128, True),
    "rocm": Kind(128, True),
    "vulkan": Kind(64, True),
    "metal": Kind(32, False),
    "sycl": Kind(128, False),
    "rpc": Kind(128, False),
    "cpu": Kind(32, True),
    "musa": Kind(128, False),
    "cann": Kind(128, False),
    "opencl": Kind(128, False),
    "hexagon": Kind(128, False),
    "webgpu": Kind(256, False),
    "openvino": Kind(64, False),
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
        """How its backend lays out tensors."""
        return KINDS.get(self.kind, KINDS["cuda"])

    @property
    def backend(self) -> Backend:
        """What its backend says of itself."""
        return backend(self.kind)

    @property
    def cache_alignment(self) -> int:
        """What a tensor of a cache or a state is aligned to in its buffers."""
        return self.rules.alignment if self.backend.pads_rows else KINDS["cpu"].alignment


def row_padding(block_size: int, block_bytes: int, width: int) -> int:
    """Extra bytes CUDA adds to a quantised tensor whose rows are not a multiple of 512 elements wide."""
    if block_size == 1 or width % 512 == 0:
        return 0
    return (512 - width % 512) // block_size * block_bytes
