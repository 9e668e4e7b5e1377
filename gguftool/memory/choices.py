"""The ways in which a wish that does not fit can be had: what each keeps, and what it gives up.

Each is the same search with less of it free (`gguftool.memory.search`), so it is what a plan with its options says.
"""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.brief import short_repr
from gguftool.facts.cachetypes import CACHE_TYPES
from gguftool.memory.fit import CAREFUL, Fit, Free, largest_context
from gguftool.memory.plan import MemoryPlan, Planner
from gguftool.memory.search import admissible, pair_bytes, search
from gguftool.memory.settings import Settings
from gguftool.memory.weights import Placement
from gguftool.records import dataclass, replace

MOST = 6
STEP = 1024
SMALLEST = 4096
"""A context below this is no way to keep anything."""
QUALITY = (
    (2.0, "nothing: as f16"),
    (1.06, "next to no loss"),
    (0.0, "a noticeable loss"),
)
"""Bytes an element from which on, and what a cache of such types costs in the words of ``kv-test``'s grades."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One way.

    Attributes:
        keeps: what it keeps, a few words.
        planner: the model it is of: another one for smaller weights.
        plan: what it takes.
        ftype: the quantisation of the weights, where it is another.
        path: the file with those weights, where there is one.
        asked: bytes on the devices as it was asked for.
    """

    keeps: str
    planner: Planner
    plan: MemoryPlan
    ftype: str = ""
    path: str = ""
    asked: int = 0

    __repr__ = short_repr

    @property
    def quality(self) -> str:
        """What its cache costs, in words."""
        if not self.plan.cache.caches:
            return ""
        s = self.plan.settings
        least = min(CACHE_TYPES[t].bytes_per_element for t in (s.type_k, s.type_v))
        return next(words for size, words in QUALITY if least >= size)

    @property
    def on_host(self) -> str:
        """What of the model lies on the host though a device is there."""
        p = self.plan.placement
        parts = []
        if p.cpu_moe:
            count = self.planner.weights.layer_count
            parts.append(f"experts of {min(p.cpu_moe, count)}/{count}")
        if p.gpu_layers is not None and len(self.plan.devices) > 1:
            every = len(self.plan.placed.layer_device)
            parts += [f"{every - p.gpu_layers}/{every} layers"] if every > p.gpu_layers else []
        return " and ".join(parts)

    @property
    def devices(self) -> int:
        """Bytes on the devices, or on the host where there is none."""
        return on_devices(self.plan)

    @property
    def same(self) -> tuple[object, ...]:
        """What makes two ways one."""
        s, p = self.plan.settings, self.plan.placement
        return (self.plan.cache.context.requested, s.type_k, s.type_v, s.ubatch, p.cpu_moe, p.gpu_layers, self.ftype)


def on_devices(plan: MemoryPlan) -> int:
    """Bytes on the devices, or on the host where there is none."""
    return sum(d.total for d in plan.devices[: max(1, len(plan.devices) - 1)])


def choices(planner: Planner, s: Settings, p: Placement, free: Free, found: Fit) -> tuple[Choice, ...]:
    """The ways that fit, the recommended one first; empty when what was asked for fits, or nothing is known.

    Args:
        planner: the model on its machine.
        s: settings asked for.
        p: placement asked for.
        free: what nobody named.
        found: the outcome of the whole search.
    """
    if not found.steps or found.steps[0].fits or found.plan.refused:
        return ()
    ways = [Choice("recommended", planner, found.plan)] if found.fits else []
    ways += _ways(planner, s, p, free)
    return distinct(ways)


def distinct(ways: list[Choice]) -> tuple[Choice, ...]:
    """No way twice, and not too many; the name of a later one that is the same as the recommended one says why."""
    out: dict[tuple[object, ...], Choice] = {}
    for x in ways:
        old = out.get(x.same)
        if old is None:
            out[x.same] = x
        elif old.keeps == "recommended":
            out[x.same] = replace(old, keeps=f"recommended: {x.keeps}")
    return tuple(out.values())[:MOST]


def _ways(planner: Planner, s: Settings, p: Placement, free: Free) -> Iterator[Choice]:
    still = replace(free, ctx=False, cpu_moe=False, gpu_layers=False, cache_type=False, ubatch=False)
    moves = replace(free, ctx=False, cache_type=False)
    for keeps, settings, allowed in (
        ("the cache as asked", s, moves),
        *(("a cache of " + pair[0], t, moves) for pair, t in _smaller(planner, s, free)),
        ("speed", s, replace(free, ctx=False, cpu_moe=False, gpu_layers=False)),
    ):
        fit = search(planner, settings, p, allowed)
        if fit.fits:
            yield Choice(keeps, planner, fit.plan)
    asked = planner.plan(s, p).cache.context.requested
    for settings in (s, *(t for _, t in _smaller(planner, s, free))):
        most = largest_context(planner, settings, p, asked)
        tokens = (most or 0) // STEP * STEP
        if SMALLEST <= tokens < asked:
            fit = search(planner, replace(settings, ctx=tokens), p, still)
            if fit.fits:
                yield Choice("speed and cache", planner, fit.plan)


def _smaller(planner: Planner, s: Settings, free: Free) -> list[tuple[tuple[str, str], Settings]]:
    """The careful cache types below those asked for."""
    now = pair_bytes((s.type_k, s.type_v))
    kinds = {d.kind for d in planner.machine.devices}
    return [
        (pair, s.with_types(pair))
        for pair in CAREFUL
        if free.cache_type and pair_bytes(pair) < now and admissible(planner.hp, pair, s.flash_attn, kinds) is None
    ]
