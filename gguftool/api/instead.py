"""What would let a model fit that does not: a smaller context, less kept free, no device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gguftool.api.plan import fitted
from gguftool.brief import short_repr
from gguftool.errors import UsageError
from gguftool.quantity import human
from gguftool.records import dataclass, replace
from gguftool.run.args import masked, own_words
from gguftool.run.deploy import Found
from gguftool.run.engine import Engine
from gguftool.run.ways import ways_of_weights
from gguftool.run.wishes import Wishes
from gguftool.shell import path_word

if TYPE_CHECKING:
    from gguftool.model import Model

RESERVES = tuple(n << 20 for n in (512, 256, 128, 0))
"""What may be kept free instead, most first."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One way: what it is, and the command, on these terms."""

    what: str
    words: tuple[str, ...]

    __repr__ = short_repr


def instead(m: Model, spec: str, said: Wishes, engine: Engine, machine: Found) -> Iterator[Offer]:
    """The ways in which a model fits that does not as it was asked for.

    Args:
        m: the model; its header is enough.
        spec: what a command calls it.
        said: what was asked for.
        engine: what will serve.
        machine: this machine.
    """
    verb = "pull" if spec.lower().startswith("hf://") else "launch"
    d, planner, fit = fitted(m, said, engine, machine)
    for way in ways_of_weights(d, planner, fit, spec)[:1]:
        context = way.choice.plan.cache.context.requested
        yield Offer(f"a context of {context:,}", ("gguftool", verb, *way.commands[-1][2:]))
    kept = [replace(said, reserve=n) for n in RESERVES if n < said.reserve]
    less = next((x for x in kept if _fits(m, x, engine, machine)), None)
    if less is not None:
        free = (
            f"{human(less.reserve)} kept free instead of {human(said.reserve)}" if less.reserve else "nothing kept free"
        )
        yield _offer(free, verb, spec, less)
    if planner.machine.devices:
        alone = replace(said, vram=None, device=("none",))
        if _fits(m, alone, engine, machine):
            yield _offer("the host alone", verb, spec, alone)


def _fits(m: Model, asked: Wishes, engine: Engine, machine: Found) -> bool:
    """False also where the other wishes make no sense with it."""
    try:
        return bool(fitted(m, asked, engine, machine)[2].fits)
    except UsageError:
        return False


def _offer(what: str, verb: str, spec: str, asked: Wishes) -> Offer:
    return Offer(what, tuple(masked(["gguftool", verb, path_word(spec), *own_words(asked)])))
