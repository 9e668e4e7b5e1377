"""What each device reads and computes for one token.

Of the weights a token touches the dense ones and its experts; of the caches the cells it attends to. The token
embedding is looked up, a row of it. The output matrix works for the tokens that are answered, not for a prompt's.
"""

from __future__ import annotations

from gguftool.brief import short_repr
from gguftool.facts.arch import Hparams
from gguftool.facts.layers import layers, window
from gguftool.memory.devices import HOST
from gguftool.memory.kv import Cache
from gguftool.memory.plan import MemoryPlan, Planner
from gguftool.records import dataclass, field

OPERATIONS = 2
"""A multiplication and an addition for an element of a matrix."""

PLAIN = frozenset({"F32", "F16", "BF16"})


@dataclass(slots=True)
class Touched:
    """What one device does for a token.

    Attributes:
        device, kind, about: the device.
        dense: bytes of weights that every token reads, the output layer's left out.
        experts: bytes of all its experts.
        output: bytes of the output layer.
        work, expert_work, output_work: elements of the matrices of the three.
        cells: (cells read at most, bytes of one, operations of one), by cache and layer.
        shares: of the context that a cell stands for, beside each of ``cells``.
        state: bytes of the recurrent states of one sequence.
        layers: layers that run here, in whole or in part.
    """

    device: str
    kind: str
    about: str
    dense: int = 0
    experts: int = 0
    output: int = 0
    work: int = 0
    expert_work: int = 0
    output_work: int = 0
    cells: list[tuple[int, float, float]] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    state: float = 0.0
    layers: int = 0

    __repr__ = short_repr

    def cache(self, depth: float) -> tuple[float, float]:
        """Bytes and operations of a token that looks back at ``depth`` tokens."""
        size = work = 0.0
        for (most, one, operations), share in zip(self.cells, self.shares, strict=True):
            n = min(most, depth * share)
            size += n * one
            work += n * operations
        return size, work


@dataclass(frozen=True, slots=True)
class Usage:
    """All devices of a plan.

    Attributes:
        parts: what each does, the host last.
        used, experts: experts a token takes, of how many.
        plain: the weights are no quantised ones, so that they are multiplied as 16-bit numbers.
        writes: the model keeps a context, so it can write.
        lends: a device computes what lies on the host when a batch is large.
        ubatch: tokens that are computed together.
    """

    parts: tuple[Touched, ...]
    used: int
    experts: int
    plain: bool
    writes: bool
    lends: bool
    ubatch: int

    __repr__ = short_repr

    def share(self, tokens: int) -> float:
        """Part of the experts that so many tokens need, each choosing its own by chance."""
        if not self.experts:
            return 1.0
        return 1.0 if self.used >= self.experts else 1 - (1 - self.used / self.experts) ** tokens


def usage(planner: Planner, plan: MemoryPlan) -> Usage:
    """What the devices of a plan do for a token."""
    hp = planner.hp
    parts = {d.name: Touched(d.name, d.kind, d.about) for d in plan.devices}
    busy: dict[str, set[int]] = {name: set() for name in parts}
    for name, group in planner.weights.used(plan.placement, plan.placed.layer_device):
        x = parts[name]
        if group.layer >= planner.weights.layer_count:
            x.output += group.data
            x.output_work += group.elements
            continue
        busy[name].add(group.layer)
        if group.experts:
            x.experts += group.data
            x.expert_work += group.elements
        else:
            x.dense += group.data
            x.work += group.elements
    _caches(hp, plan, parts)
    for name, x in parts.items():
        x.layers = len(busy[name])
    devices = planner.machine.devices
    return Usage(
        tuple(parts.values()),
        max(hp.per_layer("expert_used_count"), default=0),
        max(hp.per_layer("expert_count"), default=0),
        is_plain(planner),
        bool(plan.cache.caches or plan.cache.state),
        plan.placement.op_offload and any(d.backend.pinned_host for d in devices),
        plan.cache.context.ubatch,
    )


def is_plain(planner: Planner) -> bool:
    """Most of the weights are 16- or 32-bit numbers."""
    by_type: dict[str, int] = {}
    for w in planner.tensors:
        by_type[w.type_name] = by_type.get(w.type_name, 0) + w.nbytes
    return max(by_type, key=lambda name: by_type[name], default="F16") in PLAIN


def _caches(hp: Hparams, plan: MemoryPlan, parts: dict[str, Touched]) -> None:
    every = {x.index: x for x in layers(hp)}
    heads = hp.head_count

    def where(layer: int) -> Touched:
        return parts[plan.placed.layer_device[layer] if plan.placement.kv_offload else HOST]

    indexed = any(c.name == "indexer" for c in plan.cache.caches)
    for c in plan.cache.caches:
        most, share = _reach(hp, c, plan.cache.context.per_slot, indexed=indexed)
        for x in c.layers:
            part, n = where(x.index), heads[x.index] if x.index < len(heads) else max(heads, default=0)
            wide = every[x.index].key_length + every[x.index].value_length if c.name != "indexer" else 0
            part.cells.append((most, c.layer_bytes(x, 1) / max(c.cells * c.streams, 1), OPERATIONS * n * wide))
            part.shares.append(share)
    rows = max(plan.cache.context.slots * (1 + plan.settings.snapshots), 1)
    for st in plan.cache.state:
        where(st.index).state += st.bytes(1) / rows


def _reach(hp: Hparams, c: Cache, per_slot: int, *, indexed: bool) -> tuple[int, float]:
    """Cells of a cache that a token looks at, at most, and how many of them a token of the context makes."""
    if c.name == "window":
        return min(c.cells, window(hp) or c.cells), 1.0
    sparse = hp.shape.number("indexer_top_k") if indexed else 0
    share = min(1.0, c.cells / max(per_slot, 1))
    return min(c.cells, sparse) if sparse and c.name in ("full", "csa") else c.cells, share
