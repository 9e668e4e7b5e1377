"""Everything a plan has to say, gathered once so that reports only lay it out."""

from __future__ import annotations

from collections.abc import Callable

from gguftool.brief import short_repr
from gguftool.facts.cachetypes import refusals
from gguftool.memory.fit import PAIRS, Cell, Fit, Step, largest_context, table
from gguftool.memory.kv import bytes_per_token
from gguftool.memory.notes import Assumption, assumptions, warnings
from gguftool.memory.plan import MemoryPlan, Planner
from gguftool.quantity import human
from gguftool.records import dataclass, replace

Measure = Callable[[MemoryPlan], "dict[str, dict[str, int]] | None"]
"""Asks the real library about a plan: bytes of ``weights``, ``context`` and ``compute`` by device; None: it refused."""


@dataclass(frozen=True, slots=True)
class Smaller:
    """What another quantisation of the weights would give: bytes of the weights, and whether all then fits."""

    ftype: str
    weights: int
    total: int
    fits: bool

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Advice:
    """A plan with all that explains it.

    Attributes:
        planner: the model on its machine.
        fit: the search and its outcome.
        rows: contexts down, cache types across.
        largest: most tokens that fit, by pair of cache types; None: a memory size is unknown.
        per_token: KV bytes of one more token, windows left out.
        assumptions: what the numbers rest on.
        warnings: what may surprise.
        smaller: other quantisations of the weights, when it does not fit.
        measured: from where the measured numbers come, or "".
    """

    planner: Planner
    fit: Fit
    rows: tuple[tuple[Cell, ...], ...]
    largest: tuple[tuple[tuple[str, str], int | None], ...]
    per_token: float
    assumptions: tuple[Assumption, ...]
    warnings: tuple[str, ...]
    smaller: tuple[Smaller, ...] = ()
    measured: str = ""

    __repr__ = short_repr

    @property
    def plan(self) -> MemoryPlan:
        """The recommended plan."""
        return self.fit.plan


def advise(planner: Planner, fit: Fit, *, measured: str = "") -> Advice:
    """Gather everything about the outcome of a search."""
    plan = fit.plan
    own = (plan.settings.type_k, plan.settings.type_v)
    pairs = list(dict.fromkeys((*PAIRS, own))) if plan.cache.caches else [own]
    largest = tuple(
        (pair, largest_context(planner, plan.settings.with_types(pair), plan.placement))
        for pair in pairs
        if not refusals(planner.hp, *pair, plan.settings.flash_attn)
    )
    rows = tuple(tuple(row) for row in table(planner, plan))
    return Advice(
        planner,
        fit,
        rows,
        largest,
        bytes_per_token(planner.hp, plan.settings),
        tuple(assumptions(planner, plan)),
        tuple(warnings(planner, plan)),
        measured=measured,
    )


def with_measured(plan: MemoryPlan, found: dict[str, dict[str, int]]) -> MemoryPlan:
    """The plan with compute buffers as the real library gave them."""
    uses = []
    for d in plan.devices:
        got = found.get(d.name)
        uses.append(replace(d, compute=got["compute"] if got else 0))
    return replace(plan, devices=tuple(uses), compute_basis="measured")


def refine(planner: Planner, fit: Fit, measure: Measure, *, may_move: bool) -> Fit | None:
    """Replace estimates by measurements, and move layers until the measured sizes fit as well as they can.

    Args:
        planner: the model on its machine.
        fit: the outcome of the search.
        measure: asks the real library.
        may_move: the number of layers on the devices is ours to choose.

    Returns:
        the outcome with measured numbers, or None when the library refused.
    """
    plan = fit.plan
    found = measure(plan)
    if found is None:
        return None
    best = with_measured(plan, found)
    steps = [*fit.steps, Step("measured", _differs(plan, best), best.fits is not False)]
    count = planner.weights.layer_count + 1
    devices = planner.machine.devices
    if not may_move or not devices or any(d.memory is None for d in devices):
        return Fit(best, tuple(steps))
    now = count if plan.placement.gpu_layers is None else plan.placement.gpu_layers
    # Layers go up while it fits and down while it does not, by bisection between what is known to do either.
    low, high = (now, count + 1) if best.fits else (-1, now)
    best_fit = best if best.fits else None
    while high - low > 1:
        middle = (low + high) // 2
        candidate = planner.plan(plan.settings, replace(plan.placement, gpu_layers=middle))
        again = measure(candidate)
        measured = with_measured(candidate, again) if again is not None else None
        if measured is not None and measured.fits:
            low, best_fit = middle, measured
        else:
            high = middle
    if best_fit is None:
        return Fit(best, tuple(steps))
    layers = best_fit.placement.gpu_layers
    if best_fit is not best:
        steps.append(Step(f"{layers} of {count} layers on the device", "by measured sizes", True))
    return Fit(best_fit, tuple(steps))


def _differs(plan: MemoryPlan, measured: MemoryPlan) -> str:
    return f"compute buffers {human(measured.compute)}, estimated {human(plan.compute)}"
