"""What lies on a device, beside the model, and in a context that drafts."""

from __future__ import annotations

from gguftool.brief import short_repr
from gguftool.memory.growth import NOTHING, Kept
from gguftool.memory.kv import CachePlan
from gguftool.memory.weights import Placed
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """What lies on one device, in bytes.

    Attributes:
        name, kind, about: the device; the host is ``CPU``.
        memory: bytes that may be used; None: unknown.
        reserve: bytes of them to keep free.
        weights: weights; on the host also rearranged copies.
        kv: KV caches.
        state: recurrent states.
        compute: compute buffers.
        output: rows of logits, on the host.
        projector: the multimodal projector.
        beside: adapters, and what a context that drafts takes.
    """

    name: str
    kind: str
    memory: int | None
    reserve: int
    weights: int = 0
    kv: int = 0
    state: int = 0
    compute: int = 0
    output: int = 0
    projector: int = 0
    about: str = ""
    beside: int = 0

    __repr__ = short_repr

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.kv + self.state + self.compute + self.output + self.projector + self.beside

    @property
    def fits(self) -> bool | None:
        """Whether it leaves the reserve free; None when the memory is unknown."""
        return None if self.memory is None else self.total <= max(0, self.memory - self.reserve)

    @property
    def missing(self) -> int:
        """Bytes it is over, 0 when it fits or nothing is known."""
        return 0 if self.memory is None else max(0, self.total + self.reserve - self.memory)


PROJECTOR = "mmproj"


@dataclass(frozen=True, slots=True)
class Side:
    """A file that is loaded beside the model.

    Attributes:
        what: ``mmproj``, ``lora``, ``control-vector``, or ``n-grams`` for tables of what was written before.
        bytes: what its weights take.
        compute: the buffer of its graph at the start.
        pictures: what that buffer grows by for the largest picture.
        inputs: the picture itself; where the rest is on a device it is there once more, and on the host.
        device: where it goes, `HOST` or the name of a device; "": to the first device there is.
        token: what comes for each token of a context while it is used.
        layers: of an adapter, the parts of `bytes` by layer; they go where the layers are. -1: the token embedding.
    """

    what: str
    bytes: int
    device: str = ""
    compute: int = 0
    pictures: int = 0
    inputs: int = 0
    token: int = 0
    layers: tuple[tuple[int, int], ...] = ()

    __repr__ = short_repr


class Sums:
    """What all devices take together, for whatever has ``devices``."""

    __slots__ = ()
    devices: tuple[DeviceUse, ...]

    @property
    def fits(self) -> bool | None:
        """Whether it fits everywhere; False as soon as one device is over, None when one is unknown."""
        answers = [d.fits for d in self.devices]
        return False if False in answers else None if None in answers else True

    @property
    def weights(self) -> int:
        """Bytes of the weights, with copies that exist twice."""
        return sum(d.weights for d in self.devices)

    @property
    def kv(self) -> int:
        """Bytes of the KV caches on all devices."""
        return sum(d.kv for d in self.devices)

    @property
    def state(self) -> int:
        """Bytes of the states on all devices."""
        return sum(d.state for d in self.devices)

    @property
    def compute(self) -> int:
        """Bytes of the compute buffers on all devices."""
        return sum(d.compute for d in self.devices)

    @property
    def output(self) -> int:
        """Bytes of the rows of logits."""
        return sum(d.output for d in self.devices)

    @property
    def total(self) -> int:
        """All devices together."""
        return sum(d.total for d in self.devices)


@dataclass(frozen=True, slots=True)
class DraftContext(Sums):
    """A context that drafts beside the model's own.

    Attributes:
        what: ``draft``: of a model of its own; ``layers``: of the model's own prediction layers.
        cache: its context and caches.
        devices: what it takes by device; without weights where they are the model's.
        refused: why llama.cpp would not set it up, in its words; empty: it would.
        kept: what a slot of it is when it is written out.
        own: bytes that the program keeps for it: the vocabulary of a model of its own, graphs.
        over: share its compute buffers may be over; None: no plan of its class was measured.
    """

    what: str
    cache: CachePlan
    devices: tuple[DeviceUse, ...]
    refused: tuple[str, ...] = ()
    kept: Kept = NOTHING
    own: int = 0
    over: float | None = None

    __repr__ = short_repr

    def on(self, device: str) -> int:
        """Bytes on a device."""
        return sum(d.total for d in self.devices if d.name == device)


@dataclass(frozen=True, slots=True)
class Taken(Sums):
    """What a plan takes of the devices at the start, without what explains it.

    Attributes:
        cache: contexts, caches and states.
        placed: weights by buffer.
        drafts: contexts that draft beside the model's own.
        laid_out: compute buffers are those of the model's graph.
        devices: use by device, the host last.
    """

    cache: CachePlan
    placed: Placed
    drafts: tuple[DraftContext, ...]
    laid_out: bool
    devices: tuple[DeviceUse, ...]

    __repr__ = short_repr
