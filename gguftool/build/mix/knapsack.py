"""One choice for each item, at least loss, within a size: the multiple-choice knapsack.

First the Lagrangian: of each item the option of least loss + price x size, at the price where the budget is just met.
What is left of the budget is filled option by option; then partial choices that could still be better are walked, those
out of reach by the Lagrangian's bound dropped. Small instances end at the optimum; of large ones, where the partial
choices are thinned out, ``bound`` says how far it can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from gguftool.records import dataclass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STATES = 3000
"""States kept at a time."""
_STEPS = 100
"""Halvings on the way to the price."""


@dataclass(frozen=True, slots=True)
class Option:
    """One way to have an item: ``size`` in bytes, ``loss`` in any unit, 0 or more."""

    size: int
    loss: float


@dataclass(frozen=True, slots=True)
class Solution:
    """What was chosen.

    Attributes:
        picks: index of the option of each item.
        size: of all, in bytes; never above the budget.
        loss: of all.
        bound: no choice within the budget has less loss than this.
    """

    picks: tuple[int, ...]
    size: int
    loss: float
    bound: float


def smallest(items: Sequence[Sequence[Option]]) -> int:
    """Bytes of the smallest choice there is."""
    return sum(min(o.size for o in options) for options in items)


def solve(items: Sequence[Sequence[Option]], budget: int, states: int = STATES) -> Solution | None:
    """The choice of least loss within ``budget`` bytes; None when even the smallest is larger.

    Args:
        items: the options of each, at least one.
        budget: bytes that all may take together.
        states: how many partial choices are kept; more is slower and nearer to the optimum.
    """
    if not items:
        return Solution((), 0, 0.0, 0.0) if budget >= 0 else None
    if smallest(items) > budget:
        return None
    price, picks = _price(items, budget)
    bound = _dual(items, price, budget)
    picks = _filled(items, picks, budget)
    picks = _walked(items, picks, budget, price, states)
    size, loss = _sums(items, picks)
    return Solution(tuple(picks), size, loss, min(bound, loss))


def _sums(items: Sequence[Sequence[Option]], picks: Sequence[int]) -> tuple[int, float]:
    chosen = [options[i] for options, i in zip(items, picks, strict=True)]
    return sum(o.size for o in chosen), sum(o.loss for o in chosen)


def _at(items: Sequence[Sequence[Option]], price: float) -> list[int]:
    """Of each item the option of least loss + price x size; of equal ones the smaller."""
    return [min(range(len(o)), key=lambda i: (o[i].loss + price * o[i].size, o[i].size, i)) for o in items]


def _dual(items: Sequence[Sequence[Option]], price: float, budget: int) -> float:
    least = sum(min(o.loss + price * o.size for o in options) for options in items)
    return max(0.0, least - price * budget)


def _price(items: Sequence[Sequence[Option]], budget: int) -> tuple[float, list[int]]:
    """The lowest price of a byte at which the choice keeps within the budget, and that choice."""
    picks = _at(items, 0.0)
    if _sums(items, picks)[0] <= budget:
        return 0.0, picks
    low, high = 0.0, max(1e-300, *(o.loss for options in items for o in options))
    for _ in range(_STEPS):
        middle = (low + high) / 2
        found = _at(items, middle)
        if _sums(items, found)[0] <= budget:
            high, picks = middle, found
        else:
            low = middle
    size = _sums(items, picks)[0]
    return high, picks if size <= budget else [min(range(len(o)), key=lambda i: (o[i].size, o[i].loss)) for o in items]


def _filled(items: Sequence[Sequence[Option]], picks: list[int], budget: int) -> list[int]:
    """What is left of the budget, spent where a byte takes away the most loss."""
    picks = list(picks)
    left = budget - _sums(items, picks)[0]
    # Ways on from an item's present option; those from an earlier one are passed over.
    ways: list[tuple[float, int, int, int]] = []

    def look(i: int) -> None:
        now = items[i][picks[i]]
        for j, o in enumerate(items[i]):
            more, less = o.size - now.size, now.loss - o.loss
            if less > 0 and more <= left:
                heappush(ways, (-less / max(more, 1), i, j, picks[i]))

    for i in range(len(items)):
        look(i)
    while ways:
        _, i, j, since = heappop(ways)
        more = items[i][j].size - items[i][since].size
        if since == picks[i] and more <= left:
            left -= more
            picks[i] = j
            look(i)
    return picks


def _walked(items: Sequence[Sequence[Option]], picks: list[int], budget: int, price: float, states: int) -> list[int]:
    """The best of all partial choices that the bound leaves; ``picks`` where none is better."""
    import numpy as np

    best = _sums(items, picks)[1]
    order = sorted(range(len(items)), key=lambda i: (-max(o.size for o in items[i]), i))
    rest_size, rest_least = _rests(items, order, price)
    size, loss = np.zeros(1, np.int64), np.zeros(1)
    came: list[tuple[NDArray[np.int32], NDArray[np.int16]]] = []
    for place, i in enumerate(order):
        options = items[i]
        sizes = (size[:, None] + np.array([o.size for o in options], np.int64)[None, :]).ravel()
        losses = (loss[:, None] + np.array([o.loss for o in options])[None, :]).ravel()
        keep = np.nonzero(
            (sizes + rest_size[place + 1] <= budget)
            & (losses + price * (sizes - budget) + rest_least[place + 1] < best)
        )[0]
        if not len(keep):
            return picks
        keep = _front(sizes, losses, keep)
        if len(keep) > states:
            keep = _thinned(sizes, losses, keep, price, states)
        came.append(((keep // len(options)).astype(np.int32), (keep % len(options)).astype(np.int16)))
        size, loss = sizes[keep], losses[keep]
    at = int(loss.argmin())
    found = list(picks)
    for place in range(len(order) - 1, -1, -1):
        parent, option = came[place]
        found[order[place]] = int(option[at])
        at = int(parent[at])
    return found if _sums(items, found)[1] < best else picks


def _rests(items: Sequence[Sequence[Option]], order: Sequence[int], price: float) -> tuple[list[int], list[float]]:
    """Of what is still to be chosen after each place: the least bytes, and the least loss + price x size."""
    sizes, least = [0], [0.0]
    for i in reversed(order):
        sizes.append(sizes[-1] + min(o.size for o in items[i]))
        least.append(least[-1] + min(o.loss + price * o.size for o in items[i]))
    return sizes[::-1], least[::-1]


def _front(sizes: NDArray[np.int64], losses: NDArray[np.float64], keep: NDArray[np.intp]) -> NDArray[np.intp]:
    """Those that no other one beats in both size and loss, by size."""
    import numpy as np

    keep = keep[np.lexsort((losses[keep], sizes[keep]))]
    before = np.minimum.accumulate(losses[keep])
    first = np.ones(len(keep), bool)
    first[1:] = losses[keep][1:] < before[:-1]
    return keep[first]


def _thinned(
    sizes: NDArray[np.int64], losses: NDArray[np.float64], keep: NDArray[np.intp], price: float, states: int
) -> NDArray[np.intp]:
    """Those nearest to the bound."""
    import numpy as np

    rank = losses[keep] + price * sizes[keep]
    chosen = np.sort(np.argsort(rank, kind="stable")[:states])
    return keep[chosen]
