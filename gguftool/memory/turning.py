"""What a model takes under many settings at once: the planner's numbers, so that a picture of them can be turned.

Weights, caches and states are sums over layers (`gguftool.memory.shares`). Compute buffers come from laying out a
graph, so the planner is asked for each: for every context of the grid, but of placements that are alike
(`gguftool.memory.alike`) only for one. How much is laid out is bounded; what was not is not there, and nothing is
guessed in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from gguftool.brief import short_repr
from gguftool.facts.cachetypes import CACHE_TYPES, refusals
from gguftool.memory.alike import Alike
from gguftool.memory.devices import HOST
from gguftool.memory.kv import CPU_ALIGNMENT, kv_cache
from gguftool.memory.plan import MemoryPlan, Planner
from gguftool.memory.settings import Settings
from gguftool.memory.shares import LayerCache, WeightShares, layer_caches, weight_shares
from gguftool.memory.weights import Placement
from gguftool.records import dataclass, field, replace

TYPES = ("f16", "q8_0", "q5_1", "q4_0")
USUAL = frozenset({"f16", "q8_0", "q4_0"})
SLOTS = (1, 2, 4, 8)
CONTEXTS = 11
SMALLEST, LONGER = 512, 64
"""The shortest context of the grid, and how often the longest may be longer than it."""
MOST_DEVICES = 3
THIN = 8
"""Of three devices none gets fewer than one part in so many of the layers."""
BUDGET = 90_000
"""Tensors that are gone through while graphs are laid out: about three seconds of a processor."""
USUAL_PART = 0.4
"""The part of it that is left to what people turn to first: one device, one slot, equal types."""
WORTH_OF_SLOTS = {1: 1.0, 4: 0.25, 2: 0.1}
WORTH_OF_DEVICES = (1.0, 1.0, 0.2, 0.05)
WORTH_OF_WHOLE = 8
RARE = 0.03
"""Placements on several devices that are alike are worth a look from this part of all on."""


SettingsOf = Callable[[int, str, str], Settings]
"""Settings for so many slots and these types of K and V; the context in them is not looked at."""
Split = tuple[int, ...]
Asked = tuple["Spot", int, str, str]
"""A setting that has to be there: the placement, how many slots, types of K and V."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where the layers are.

    Attributes:
        host: so many layers, from the first on, are on the host; the output layer counts as one.
        experts: the experts of so many layers, from the first on, are on the host.
        split: layers of each device.
    """

    host: int
    experts: int
    split: Split

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Board:
    """What depends on how many devices there are.

    Attributes:
        devices: their names.
        weights: by layer.
        projector: bytes of it on each device, the host last.
        spots: the class of each placement that was planned.
        points: by class, number of slots, type of K and of V, in that order: a number in `Turned.rows`; -1: not
            planned.
        drafts: something stands beside the model: a row has a series of it for each device, after those of compute.
    """

    devices: tuple[str, ...]
    weights: WeightShares
    projector: tuple[int, ...]
    spots: dict[Spot, int]
    points: tuple[tuple[int, ...], ...]
    drafts: bool

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Turned:
    """The grid.

    Attributes:
        contexts, slots, types: its stops.
        refused: by type of K and of V: why llama.cpp refuses the pair, in its words; "": it does not.
        layers: of the model, the output layer among them.
        kinds: of each layer, which of the kinds of caches it has.
        kv_offload: caches follow their layers.
        caches: by home (host, device), kind and number of slots: a series for each type of K, and of V; the state.
        boards: by number of devices, from none on.
        series: bytes by context.
        rows: compute buffers of each device, the host last: numbers of series.
        output: rows of logits, by number of slots.
        program, per_slot: by number of slots, series.
        plans: how often the planner was asked.
        skipped: placements under settings that were not planned.
    """

    contexts: tuple[int, ...]
    slots: tuple[int, ...]
    types: tuple[str, ...]
    refused: tuple[str, ...]
    layers: int
    kinds: tuple[int, ...]
    kv_offload: bool
    caches: tuple[tuple[tuple[tuple[tuple[int, ...], tuple[int, ...], int], ...], ...], ...]
    boards: tuple[Board, ...]
    series: tuple[tuple[int, ...], ...]
    rows: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    program: tuple[int, ...]
    per_slot: tuple[int, ...]
    plans: int
    skipped: int

    __repr__ = short_repr


def stops(trained: int, asked: int, *, halves: bool) -> tuple[int, ...]:
    """Contexts of the grid: powers of two up to the trained context, that, and the one asked for.

    Args:
        trained: the context length of the file; 0: unknown.
        asked: the one asked for.
        halves: also half way between powers of two.
    """
    top = max(trained, asked)
    least = max(SMALLEST, top // LONGER)
    out = {1 << k for k in range(40) if least <= 1 << k <= top}
    out |= {3 << k for k in range(40) if halves and least <= 3 << k <= top}
    out |= {trained} - {0}
    return tuple(sorted({*sorted(out)[-CONTEXTS:], asked}))


@dataclass(slots=True)
class _Numbers:
    """Tuples by number, none twice."""

    known: dict[tuple[int, ...], int] = field(default_factory=dict)

    def of(self, row: Sequence[int]) -> int:
        return self.known.setdefault(tuple(row), len(self.known))


@dataclass(frozen=True, slots=True)
class _Item:
    """One thing to plan: placements that are alike, a number of slots, pairs of types that come to the same."""

    board: int
    group: int
    spot: Spot
    slot: int
    pairs: tuple[int, ...]
    cost: int
    worth: float
    first: bool


class _Grid:
    def __init__(
        self,
        planners: Sequence[Planner],
        settings: SettingsOf,
        p: Placement,
        contexts: Sequence[int],
        slots: Sequence[int],
        types: Sequence[str],
        asked: Asked | None,
    ) -> None:
        self.planners, self.settings, self.p, self.asked = planners, settings, p, asked
        self.contexts, self.slots, self.types = contexts, slots, types
        self.pairs = [(k, v) for k in types for v in types]
        self.series, self.rows = _Numbers(), _Numbers()
        self.count = planners[0].weights.layer_count
        self.plans = 0

    def plan(self, board: int, spot: Spot, ctx: int, slots: int, pair: tuple[str, str]) -> MemoryPlan:
        self.plans += 1
        return self.planners[board].plan(replace(self.settings(slots, *pair), ctx=ctx), self.placed(board, spot))

    def placed(self, board: int, spot: Spot) -> Placement:
        layers = None if board == 0 else self.count + 1 - spot.host
        split = tuple(map(float, spot.split)) if board > 1 else ()
        return replace(self.p, gpu_layers=layers, cpu_moe=spot.experts, split=split)

    def at(self, spot: Spot) -> tuple[str, ...]:
        """Device of each layer: shares that are numbers of layers give each device just those."""
        names = [d.name for d in self.planners[len(spot.split)].machine.devices]
        every = [HOST] * (self.count + 1 - sum(spot.split))
        for name, layers in zip(names, spot.split, strict=True):
            every += [name] * layers
        return tuple(every)

    def spots(self, board: int) -> list[Spot]:
        """All placements that are looked at, with so many devices."""
        asked = [self.asked[0]] if self.asked and len(self.asked[0].split) == board else []
        return list(dict.fromkeys([*self._spots(board), *asked]))

    def _spots(self, board: int) -> Iterator[Spot]:
        every, fixed = self.count + 1, self.p.cpu_moe
        if board < 2:
            yield from (Spot(h, fixed, (every - h,) * board) for h in range(every + 1 if board else 1))
            if board and self.planners[board].hp.int("expert_count"):
                yield from (Spot(0, e, (every,)) for e in range(self.count + 1) if e != fixed)
        elif board == 2:
            yield from (Spot(h, fixed, (a, every - h - a)) for h in range(every - 1) for a in range(1, every - h))
        else:
            least = max(1, every // THIN)
            sizes = range(least, every - 2 * least + 1)
            yield from (Spot(0, fixed, (a, b, every - a - b)) for a in sizes for b in sizes if every - a - b >= least)

    def layer_caches(self, ctx: int, slots: int, pair: tuple[str, str], alignment: int) -> tuple[LayerCache, ...]:
        cache = kv_cache(self.planners[0].hp, replace(self.settings(slots, *pair), ctx=ctx))
        return layer_caches(cache, self.count, alignment)

    @property
    def alignments(self) -> tuple[int, int]:
        """Of caches on the host and on a device."""
        devices = self.planners[-1].machine.devices
        return CPU_ALIGNMENT, devices[0].cache_alignment if devices else CPU_ALIGNMENT

    def items(self, board: int, groups: dict[Hashable, list[Spot]], alike: Alike) -> Iterator[_Item]:
        """What there is to plan with so many devices."""
        total = sum(len(x) for x in groups.values())
        first = max((x for x in groups.values() if x[0].host == 0), key=len, default=[])
        for group, spots in enumerate(groups.values()):
            spot = spots[0]
            whole = spot.host == 0 and not spot.experts
            share = 1.0 if whole and board < 2 else len(spots) * (WORTH_OF_WHOLE if whole else 1) / total
            asked = self.asked if self.asked and self.asked[0] in spots else None
            if board > 1 and share < RARE and spots is not first and not asked:
                continue
            cost = alike.cost(self.at(spot), spot.experts) * len(self.contexts)
            for slot, slots in enumerate(self.slots):
                for pairs in self.same(board, spot, alike):
                    usual = sum(1.0 if k == v and k in USUAL else 0.05 for k, v in (self.pairs[i] for i in pairs))
                    worth = usual * share * WORTH_OF_DEVICES[board] * WORTH_OF_SLOTS.get(slots, 0.06) / cost
                    # However large a model is: what was asked for, and all of it on so many devices, is there.
                    simple = usual >= 1 and slots == self.slots[0]
                    said = asked is not None and slots == asked[1] and self.pairs.index(asked[2:]) in pairs
                    sure = said or (simple and spots is first)
                    yield _Item(
                        board, group, spot, slot, pairs, cost, worth + sure + said, sure or (simple and board < 2)
                    )

    def same(self, board: int, spot: Spot, alike: Alike) -> list[tuple[int, ...]]:
        """Pairs of types that need the same buffers: where no cache is copied over, its size does not matter."""
        copied = alike.apart or (board > 0 and (spot.host > 0 or not self.p.kv_offload))
        out: dict[object, list[int]] = {}
        for i, pair in enumerate(self.pairs):
            if not refusals(self.planners[0].hp, *pair, self.settings(1, *pair).flash_attn):
                sign = tuple((t == "f32", CACHE_TYPES[t].quantized) for t in pair)
                out.setdefault(i if copied else sign, []).append(i)
        return [tuple(x) for x in out.values()]

    def row(self, x: _Item) -> int:
        """Compute buffers of all contexts."""
        plans = [self.plan(x.board, x.spot, ctx, self.slots[x.slot], self.pairs[x.pairs[0]]) for ctx in self.contexts]
        by_device = list(zip(*((d.compute for d in plan.devices) for plan in plans), strict=True))
        if self.drafts(x.board):
            by_device += zip(*((d.beside for d in plan.devices) for plan in plans), strict=True)
        return self.rows.of([self.series.of(column) for column in by_device])

    def drafts(self, board: int) -> bool:
        return any(d.beside for d in self.planners[board].plan(self.settings(1, *self.pairs[0])).devices)


def turned(
    planners: Sequence[Planner],
    settings: SettingsOf,
    p: Placement,
    contexts: Sequence[int],
    slots: Sequence[int] = SLOTS,
    types: Sequence[str] = TYPES,
    budget: int = BUDGET,
    asked: Asked | None = None,
) -> Turned:
    """Plan a grid of settings.

    Args:
        planners: the model on the host alone, with one device, with two, …, all of one kind.
        settings: of so many slots and such types.
        p: placement; the experts it leaves on the host stay there, unless all layers are on one device.
        contexts: stops of the grid.
        slots: numbers of slots.
        types: cache types, of K and of V.
        budget: tensors that are gone through at most.
        asked: what is planned first.

    Raises:
        UsageError: see `Planner.plan`.
    """
    # No device goes without a layer.
    planners = planners[: planners[0].weights.layer_count + 2]
    g = _Grid(planners, settings, p, contexts, slots, types, asked)
    cells = [
        [[[g.layer_caches(ctx, n, (t, t), a) for ctx in contexts] for t in types] for n in slots] for a in g.alignments
    ]
    every = zip(*(row for home in cells for of_slots in home for by_type in of_slots for row in by_type), strict=True)
    numbers: dict[object, int] = {}
    kinds = [numbers.setdefault(values, len(numbers)) for values in every]
    laid_out = g.plan(0, Spot(0, p.cpu_moe, ()), contexts[0], slots[0], g.pairs[0]).laid_out
    likes = [Alike(x, p, kinds, laid_out=laid_out) for x in planners]
    groups: list[dict[Hashable, list[Spot]]] = [{} for _ in planners]
    for board, alike in enumerate(likes):
        for spot in g.spots(board):
            groups[board].setdefault(alike.key(g.at(spot), spot.experts), []).append(spot)
    points = [[[-1] * (len(slots) * len(g.pairs)) for _ in group] for group in groups]
    items = [x for board, alike in enumerate(likes) for x in g.items(board, groups[board], alike)]
    skipped, left = 0, int(budget * USUAL_PART)
    for x in sorted(items, key=lambda x: -x.worth):
        if x.cost > budget - (0 if x.first else left):
            skipped += len(x.pairs)
            continue
        budget -= x.cost
        row = g.row(x)
        for pair in x.pairs:
            points[x.board][x.group][x.slot * len(g.pairs) + pair] = row
    by_slots, caches = _by_slots(g), tuple(_caches(home, kinds, g.series) for home in cells)
    return Turned(
        contexts=tuple(contexts),
        slots=tuple(slots),
        types=tuple(types),
        refused=tuple("; ".join(refusals(planners[0].hp, *x, settings(1, *x).flash_attn)) for x in g.pairs),
        layers=g.count + 1,
        kinds=tuple(kinds),
        kv_offload=p.kv_offload,
        caches=caches,
        boards=tuple(_board(g, board, groups[board], points[board]) for board in range(len(planners))),
        series=tuple(g.series.known),
        rows=tuple(g.rows.known),
        **by_slots,
        plans=g.plans,
        skipped=skipped,
    )


_Kinds = tuple[tuple[tuple[tuple[int, ...], tuple[int, ...], int], ...], ...]


def _caches(home: Sequence[Sequence[Sequence[Sequence[LayerCache]]]], kinds: Sequence[int], series: _Numbers) -> _Kinds:
    """By kind and number of slots: series of K by its types, of V by its types, and the state."""
    first = [kinds.index(kind) for kind in range(max(kinds) + 1)]
    return tuple(
        tuple(
            (
                tuple(series.of([x[layer].k for x in by_type]) for by_type in of_slots),
                tuple(series.of([x[layer].v for x in by_type]) for by_type in of_slots),
                of_slots[0][0][layer].state,
            )
            for of_slots in home
        )
        for layer in first
    )


def _board(g: _Grid, board: int, groups: dict[Hashable, list[Spot]], points: Sequence[Sequence[int]]) -> Board:
    planner = g.planners[board]
    used = [i for i, row in enumerate(points) if any(n >= 0 for n in row)]
    spots = {spot: n for n, i in enumerate(used) for spot in list(groups.values())[i]}
    plan = planner.plan(g.settings(1, *g.pairs[0]), g.placed(board, g.spots(board)[0]))
    return Board(
        tuple(d.name for d in planner.machine.devices),
        weight_shares(planner, plan.placement),
        tuple(d.projector for d in plan.devices),
        spots,
        tuple(tuple(points[i]) for i in used),
        g.drafts(board),
    )


def _by_slots(g: _Grid) -> dict[str, tuple[int, ...]]:
    """What depends on the context and the number of slots alone."""
    plans = [[g.plan(0, Spot(0, g.p.cpu_moe, ()), ctx, n, g.pairs[0]) for ctx in g.contexts] for n in g.slots]
    return {
        "output": tuple(row[0].output for row in plans),
        "program": tuple(g.series.of([x.program for x in row]) for row in plans),
        "per_slot": tuple(g.series.of([x.cache.context.per_slot for x in row]) for row in plans),
    }
