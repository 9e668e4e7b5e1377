"""Everything a model takes, by device: weights, caches, state, compute buffers; and whether it fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gguftool.brief import short_repr, table
from gguftool.facts.arch import Hparams
from gguftool.facts.cachetypes import refusals
from gguftool.facts.layers import nextn_layers
from gguftool.memory.blocks import NotKnownHere
from gguftool.memory.builds import formula
from gguftool.memory.compute import Terms, by_formula, pipeline_copies, terms
from gguftool.memory.devices import HOST, Device
from gguftool.memory.growth import Growth, growth, kept
from gguftool.memory.kv import CachePlan, kv_cache, layer_cache
from gguftool.memory.layout import Layout, way
from gguftool.memory.program import Program, graphs, program, vocabulary
from gguftool.memory.reserve import Backends, Reserve
from gguftool.memory.settings import Context, Settings, of_a_graph
from gguftool.memory.use import DeviceUse, DraftContext, Side, Sums, Taken
from gguftool.memory.weights import Placed, Placement, Weight, Weights, of_a_place
from gguftool.model import Model
from gguftool.records import dataclass, field, replace

GIB = 1 << 30
DEFAULT_RESERVE = GIB
"""Kept free on every device, as by llama.cpp's own fit (`common.h:fit_params_target`): drivers and desktops need it."""
HOST_ALIGNMENT = 32
_Reserved = tuple[Reserve | None, dict[tuple[int, ...], dict[str, int]]]
"""What a graph takes, None when it is not known, and its bytes by the cells of the caches."""


@dataclass(frozen=True, slots=True)
class MemoryPlan(Sums):
    """What a launch with these settings takes.

    Attributes:
        settings, placement: what was planned.
        cache: contexts, caches and states, exact.
        placed: weights by buffer, exact.
        devices: use by device, the host last.
        compute: bytes of all compute buffers.
        compute_basis: ``estimated`` or ``measured``.
        build: number of the build it is planned for; None: as the newest.
        laid_out: estimated by laying out the model's graph as llama.cpp does; else by a formula.
        refused: why llama.cpp would not start like this, in its words; empty: it would.
        terms: parts of the compute buffer.
        tensor_bytes: bytes of all tensors in the file.
        skipped_bytes: of them, those llama.cpp does not load.
        drafts: contexts that draft beside the model's own.
        growth: what comes after the start.
        process: the program itself: its code, its threads, the vocabularies.
    """

    settings: Settings
    placement: Placement
    cache: CachePlan
    placed: Placed
    devices: tuple[DeviceUse, ...]
    refused: tuple[str, ...]
    terms: Terms
    tensor_bytes: int
    skipped_bytes: int
    compute_basis: str = "estimated"
    laid_out: bool = False
    build: int | None = None
    drafts: tuple[DraftContext, ...] = ()
    growth: tuple[Growth, ...] = ()
    process: Program = field(default_factory=Program)

    __repr__ = short_repr

    def _repr_html_(self) -> str:
        head = ("device", "weights", "KV", "state", "compute", "total", "memory", "fits")
        rows = (
            (d.name, d.weights, d.kv, d.state, d.compute + d.output + d.projector, d.total, d.memory or "", d.fits)
            for d in self.devices
        )
        return table("bytes by device", head, rows)

    @property
    def program(self) -> int:
        """Bytes of the program itself."""
        return self.process.total

    @property
    def missing(self) -> int:
        """Bytes over, on all devices together."""
        return sum(d.missing for d in self.devices)

    def grows(self, device: str | None = None) -> int:
        """Bytes that come after the start at most, on one device or on all."""
        return sum(g.bytes for g in self.growth if device in (None, g.device))


@dataclass(frozen=True, slots=True)
class Machine:
    """Where it shall run.

    Attributes:
        devices: accelerators, in llama.cpp's order.
        ram: bytes of host memory that may be used; None: unknown.
        reserve: bytes to keep free on each device.
        ram_reserve: bytes to keep free of the host's.
        repack: what the host processor rearranges, a name of `gguftool.memory.weights.REPACKED`.
    """

    devices: tuple[Device, ...] = ()
    ram: int | None = None
    reserve: int = DEFAULT_RESERVE
    ram_reserve: int = DEFAULT_RESERVE
    repack: str = "avx2"

    __repr__ = short_repr


@dataclass(slots=True)
class Planner:
    """Plans one model on one machine under many settings; the tensors are gone through once.

    Attributes:
        hp: hyperparameters.
        tensors: all tensors.
        machine: where it shall run.
        overrides: `-ot` patterns.
        sides: files that are loaded beside the model.
        layers: what becomes of layers that predict further tokens: "": they are not loaded, ``loaded``, or ``draft``:
            this is the context that drafts with them.
        drafts: what draws up a context that drafts beside this one.
        build: number of the llama.cpp build that will run it; None: not known, as the newest.
    """

    hp: Hparams
    tensors: Sequence[Weight]
    machine: Machine = field(default_factory=Machine)
    overrides: tuple[tuple[str, str], ...] = ()
    sides: tuple[Side, ...] = ()
    layers: str = ""
    drafts: tuple[Callable[[Settings, Placement], DraftContext], ...] = ()
    build: int | None = None
    weights: Weights = field(init=False)
    layout: Layout = field(init=False)
    _reserves: dict[object, _Reserved] = field(init=False, default_factory=dict)
    _placed: dict[Placement, Placed] = field(init=False, default_factory=dict)
    _taken: dict[tuple[Settings, Placement], Taken] = field(init=False, default_factory=dict)
    _plans: dict[tuple[Settings, Placement], MemoryPlan] = field(init=False, default_factory=dict)

    __repr__ = short_repr

    def __post_init__(self) -> None:
        m = self.machine
        self.layout = Layout(self.hp, self.tensors)
        self.weights = Weights(self.hp, self.tensors, m.devices, self.overrides, m.repack, nextn=bool(self.layers))

    @property
    def vocabulary(self) -> int:
        """Rows of the output matrix."""
        return self.weights.output_rows or self.hp.int("vocab_size")

    def own(self, c: Context) -> int:
        """Bytes that the program keeps for such a context beside its buffers."""
        words = 0 if self.layers == "draft" and not self.tensors else vocabulary(self.hp, self.vocabulary)
        return words + graphs(self.hp, c, len(self.tensors))

    def plan(self, s: Settings, p: Placement | None = None) -> MemoryPlan:
        """What a launch takes.

        Raises:
            UsageError: neither the file nor the settings name a context length.
        """
        key = s, self._as_here(p)
        found = self._plans.get(key)
        if found is None:
            found = self._plans[key] = self._plan(*key)
        return found

    def taken(self, s: Settings, p: Placement | None = None) -> Taken:
        """What a launch takes of the devices: as the plan has it, for a fraction of its cost.

        Raises:
            UsageError: neither the file nor the settings name a context length.
        """
        key = s, self._as_here(p)
        found = self._taken.get(key)
        if found is None:
            found = self._taken[key] = self._take(*key)
        return found

    def _as_here(self, p: Placement | None) -> Placement:
        """A placement with the patterns and the processor of this planner."""
        repack = self.machine.repack
        if p is not None and p.overrides == self.overrides and p.repack == repack:
            return p
        return replace(p or Placement(), overrides=self.overrides, repack=repack)

    def _take(self, s: Settings, placement: Placement) -> Taken:
        cache = layer_cache(self.hp, s) if self.layers == "draft" else kv_cache(self.hp, s)
        placed = self._placed.get(placement)
        if placed is None:
            placed = self._placed[placement] = self.weights.place(placement)
        drafts = tuple(draw(s, placement) for draw in self.drafts)
        laid = self._laid_out(s, placement, cache, placed)
        return Taken(cache, placed, drafts, bool(laid), self._uses(s, placement, cache, placed, laid, drafts))

    def _terms(self, s: Settings, cache: CachePlan) -> Terms:
        return terms(self.hp, s, cache, self.vocabulary, self.build)

    def _plan(self, s: Settings, placement: Placement) -> MemoryPlan:
        it = self.taken(s, placement)
        cache, drafts = it.cache, it.drafts
        refused = (*_unknown(self.hp), *refusals(self.hp, s.type_k, s.type_v, s.flash_attn))
        refused += tuple(f"the context that drafts: {line}" for x in drafts for line in x.refused)
        w = self.weights
        more = growth(s, cache.context, kept(self.hp, s, cache), [x.kept for x in drafts])
        if self.sides:
            from gguftool.memory.beside import grown

            more = (*grown(self.sides, [d.name for d in self.machine.devices], cache.context.total), *more)
        return MemoryPlan(
            s, placement, cache, it.placed, it.devices, refused, self._terms(s, cache), w.tensor_bytes, w.skipped,
            drafts=drafts, growth=more, laid_out=it.laid_out, build=self.build,
            process=program(self.hp, self.own(cache.context), sum(x.own for x in drafts)),
        )  # fmt: skip

    def _uses(
        self,
        s: Settings,
        p: Placement,
        cache: CachePlan,
        placed: Placed,
        laid: dict[str, int],
        drafts: tuple[DraftContext, ...],
    ) -> tuple[DeviceUse, ...]:
        m = self.machine

        names = [d.name for d in m.devices]
        beside = {name: sum(x.on(name) for x in drafts) for name in (*names, HOST)}
        projectors = dict.fromkeys(beside, 0)
        if self.sides:
            from gguftool.memory.beside import adapter, projector

            for name in beside:
                beside[name] += adapter(self.sides, names, name, placed)
                projectors[name] = projector(self.sides, names, name)
        kinds = {d.name: d for d in m.devices}
        kv: dict[str, int] = {}
        state: dict[str, int] = {}
        largest_host_cache = self._book_caches(p, cache, placed, kinds, kv, state)
        # `llama-context.cpp:output_reserve`: a row of logits a slot, on the host.
        output = self.vocabulary * 4 * cache.context.slots
        compute = laid
        if not laid:
            first = self.weights.layer_count - nextn_layers(self.hp) if self.layers == "draft" else 0
            compute = by_formula(
                self._terms(s, cache), m.devices, p, placed, first=first, copies=self._copies(p, placed),
                cache=largest_host_cache,
            )  # fmt: skip
        uses = [
            DeviceUse(
                d.name,
                d.kind,
                d.memory,
                m.reserve if d.reserve is None else d.reserve,
                placed.buffers.get(d.name, 0),
                kv.get(d.name, 0),
                state.get(d.name, 0),
                compute.get(d.name, 0),
                0,
                projectors[d.name],
                d.about,
                beside[d.name],
            )
            for d in m.devices
        ]
        uses.append(
            DeviceUse(
                HOST, "cpu", m.ram, m.ram_reserve, placed.host, kv.get(HOST, 0), state.get(HOST, 0),
                compute.get(HOST, 0), output, projectors[HOST], beside=beside[HOST],
            )
        )  # fmt: skip
        return tuple(uses)

    def _book_caches(
        self,
        p: Placement,
        cache: CachePlan,
        placed: Placed,
        kinds: dict[str, Device],
        kv: dict[str, int],
        state: dict[str, int],
    ) -> int:
        """Caches go where their layers are; returns the bytes of the largest layer's cache on the host."""
        on_host: dict[int, int] = {}

        def where(layer: int) -> tuple[str, int]:
            name = placed.layer_device[layer] if p.kv_offload else HOST
            device = kinds.get(name)
            return name, device.cache_alignment if device else HOST_ALIGNMENT

        for c in cache.caches:
            sizes: dict[tuple[int, int, int], int] = {}
            for x in c.layers:
                name, alignment = where(x.index)
                like = x.k_width, x.v_width, alignment
                size = sizes.get(like)
                if size is None:
                    size = sizes[like] = c.layer_bytes(x, alignment)
                kv[name] = kv.get(name, 0) + size
                if name == HOST:
                    on_host[x.index] = on_host.get(x.index, 0) + size
        for st in cache.state:
            name, alignment = where(st.index)
            state[name] = state.get(name, 0) + st.bytes(alignment)
        return max(on_host.values(), default=0)

    def _copies(self, p: Placement, placed: Placed) -> int:
        kinds, everything = [d.kind for d in self.machine.devices], HOST not in placed.layer_device
        moved = bool(self.overrides or p.cpu_moe)
        return pipeline_copies(kinds, all_layers=everything, overrides=moved, kv_offload=p.kv_offload)

    def _laid_out(self, s: Settings, p: Placement, cache: CachePlan, placed: Placed) -> dict[str, int]:
        """Compute buffers by device as the graph needs them; empty: the graph of this model is not known."""
        # The graph is the same for contexts of any length, and on the host for all types that go the same way.
        types = tuple(map(way, (s.type_k, s.type_v))) if not self.machine.devices else (s.type_k, s.type_v)
        key = of_a_graph(s), types, of_a_place(p), placed.layer_device, cache.context.ubatch
        known = self._reserves.get(key)
        if known is None:
            known = self._reserves[key] = (self._reserve(s, p, cache, placed), {})
        found, laid = known
        if found is None:
            return {}
        cells = {x.name: x.cells for x in cache.caches}
        of_these = tuple(cells.values())
        if of_these not in laid:
            laid[of_these] = found.bytes(cells)
        return laid[of_these]

    def _reserve(self, s: Settings, p: Placement, cache: CachePlan, placed: Placed) -> Reserve | None:
        devices, at = self.machine.devices, placed.layer_device
        backends = Backends(
            tuple(d.name for d in devices),
            {HOST: HOST_ALIGNMENT, **{d.name: d.rules.alignment for d in devices}},
            tuple(d.name for d in devices if d.backend.offloads) if p.op_offload else (),
            self._copies(p, placed),
        )
        try:
            return self.layout.reserve(
                s, cache, formula(self.build), at, lambda w: self.weights.lies(w, at, p), backends,
                kv_offload=p.kv_offload, drafts=self.layers == "draft",
            )  # fmt: skip
        except NotKnownHere:
            return None


def _unknown(hp: Hparams) -> list[str]:
    """Why no build would load this architecture (`llama-model.cpp:load_arch`)."""
    if hp.facts is None:
        return [f"unknown model architecture: '{hp.arch}'"]
    if not hp.facts.unsupported:
        return []
    if hp.arch == "clip":
        return ["CLIP cannot be used as main model, use it with --mmproj instead"]
    return [f"unsupported model architecture: '{hp.arch}'"]


def weights_of(model: Model) -> list[Weight]:
    """The tensors of a model as far as memory goes; those of a type we do not know count as nothing."""
    return [Weight(t.name, t.type_name, t.shape, t.nbytes or 0, t.offset, t.part.no) for t in model.tensors.values()]


def memory(
    model: Model,
    context: int | None = None,
    cache_type: tuple[str, str] = ("f16", "f16"),
    *,
    settings: Settings | None = None,
    placement: Placement | None = None,
    machine: Machine | None = None,
) -> MemoryPlan:
    """What llama.cpp takes for a model.

    Args:
        model: the model; its header is enough.
        context: tokens of all slots together; None: the file's context length.
        cache_type: types of K and V.
        settings: all settings at once, in place of the two above.
        placement: which layers and tensors go where.
        machine: devices and their memory; None: the host alone, its memory unknown.

    Returns:
        bytes by device. Caches, states and weights are exact, compute buffers estimated.

    Raises:
        UsageError: no context length anywhere, or a cache type that does not exist.
    """
    s = settings or Settings(context, *cache_type)
    return Planner(model.arch, weights_of(model), machine or Machine()).plan(s, placement)
