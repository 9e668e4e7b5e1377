"""Whether a launch fits as it was asked for, what of it could be, and the table of contexts and cache types."""

from __future__ import annotations

from gguftool.brief import short_repr
from gguftool.facts.arch import Hparams
from gguftool.facts.cachetypes import refusals
from gguftool.memory.plan import MemoryPlan, Planner
from gguftool.memory.settings import CELL_PAD, Settings
from gguftool.memory.weights import Placement
from gguftool.quantity import human
from gguftool.records import dataclass, replace

PAIRS = (("f16", "f16"), ("q8_0", "q8_0"), ("q4_0", "q4_0"))
CAREFUL = PAIRS[:2]
"""Those that hardly touch what a model says (`docs/launch.md`, "What a cache type costs")."""


@dataclass(frozen=True, slots=True)
class Free:
    """What the search may change: the things the user did not name."""

    ctx: bool = False
    cache_type: bool = True
    ubatch: bool = True
    cpu_moe: bool = True
    gpu_layers: bool = True

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Step:
    """One thing tried.

    Attributes:
        what: for example ``cache type q8_0``.
        result: what came of it, one line's worth.
        fits: whether that was enough.
        kept: whether the recommendation has it.
    """

    what: str
    result: str
    fits: bool
    kept: bool = True

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Fit:
    """The outcome of a search: the plan, how it came about, and whether it fits."""

    plan: MemoryPlan
    steps: tuple[Step, ...]

    __repr__ = short_repr

    @property
    def fits(self) -> bool | None:
        """As the plan says."""
        return self.plan.fits

    @property
    def lacking(self) -> bool:
        """What was asked for does not fit, whatever came of the search."""
        return self.fits is False or bool(self.steps and not self.steps[0].fits)


def largest_context(planner: Planner, s: Settings, p: Placement, limit: int | None = None) -> int | None:
    """Most tokens, all slots together, that fit with these settings and this placement.

    Args:
        planner: the model on its machine.
        s: settings; their context is not looked at.
        p: placement.
        limit: do not look further; None: the trained context, once a slot unless they share one.

    Returns:
        a multiple of 256; 0 when not even 256 tokens fit; None when a memory size is unknown.
    """
    trained = planner.hp.context_length or 1 << 17
    top = limit or trained * (1 if s.unified else s.slots)

    def fits(cells: int) -> bool | None:
        return planner.taken(replace(s, ctx=cells * CELL_PAD), p).fits

    high = max(1, top // CELL_PAD)
    answer = fits(high)
    if answer is None:
        return None
    if answer:
        return top if top % CELL_PAD == 0 else high * CELL_PAD
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low * CELL_PAD


def as_asked(planner: Planner, s: Settings, p: Placement) -> Fit:
    """What was asked for, and whether it fits; devices are filled alike, unless their shares were named.

    Args:
        planner: the model on its machine.
        s: settings asked for.
        p: placement asked for.
    """
    plan = planner.plan(s, shared(planner, s, p))
    if plan.fits is None:
        return Fit(plan, ())
    return Fit(plan, (Step("as asked", spare(plan) if plan.fits else over(plan), plan.fits),))


def shared(planner: Planner, s: Settings, p: Placement) -> Placement:
    """A placement with shares that fill the devices alike, unless it has shares, or there is one device at most."""
    if len(planner.machine.devices) < 2:
        return p
    from gguftool.memory.split import balanced

    return balanced(planner, s, p)


def over(plan: MemoryPlan) -> str:
    """By how much a plan is over, and where."""
    return "over by " + ", ".join(f"{d.name} {human(d.missing)}" for d in plan.devices if d.missing)


def spare(plan: MemoryPlan) -> str:
    """What a plan leaves of the fullest device."""
    left = [(d.memory or 0) - d.reserve - d.total for d in plan.devices]
    return f"fits with {human(min(left))} to spare"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the table of contexts and cache types; ``refused``: why there is none."""

    context: int
    types: tuple[str, str]
    kv: int
    total: int
    fits: bool | None
    refused: str = ""

    __repr__ = short_repr


def table(planner: Planner, plan: MemoryPlan, pairs: tuple[tuple[str, str], ...] = ()) -> list[list[Cell]]:
    """Contexts down, cache types across, all with the placement and the batch of a plan."""
    own = (plan.settings.type_k, plan.settings.type_v)
    columns = list(dict.fromkeys((*PAIRS, own, *pairs))) if plan.cache.caches else [own]
    rows = []
    for ctx in contexts(planner.hp, plan.cache.context.requested):
        row = []
        for pair in columns:
            s = replace(plan.settings, type_k=pair[0], type_v=pair[1], ctx=ctx)
            why = refusals(planner.hp, *pair, s.flash_attn)
            one = planner.taken(s, plan.placement)
            row.append(Cell(ctx, pair, one.kv, one.total, False if why else one.fits, why[0] if why else ""))
        rows.append(row)
    return rows


def contexts(hp: Hparams, asked: int) -> list[int]:
    """Powers of two from 4096 to the trained context, with that and the one asked for."""
    trained = hp.context_length or asked
    out = {asked, trained}
    n = 4096
    while n < max(trained, asked):
        out.add(n)
        n *= 2
    ordered = sorted(out)
    # At most eight rows: the small ones go first, the asked one stays.
    while len(ordered) > 8:
        ordered.remove(next(x for x in ordered if x != asked))
    return ordered
