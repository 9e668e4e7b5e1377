"""Which placements need the same compute buffers, so that of many only a few are laid out.

The graph that is laid out has a few of each row of like layers only (`gguftool.memory.layout`): placements whose rows
come to the same are one class. Where the graph is not known, the formula looks at what lies on the host.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from gguftool.brief import named_repr
from gguftool.memory.again import picked
from gguftool.memory.devices import HOST
from gguftool.memory.plan import Planner
from gguftool.memory.use import PROJECTOR
from gguftool.memory.weights import Placement
from gguftool.records import replace


class Alike:
    """Keys of placements.

    Args:
        planner: the model on its machine.
        p: placement, whose layers, shares and experts do not matter.
        kinds: of each layer, a number for what it keeps of the context.
        laid_out: the graph of the model is known.
    """

    __repr__ = named_repr

    def __init__(self, planner: Planner, p: Placement, kinds: Sequence[int], *, laid_out: bool) -> None:
        self.laid_out = laid_out
        # What drafts, and adapters, have layers of their own.
        self.apart = bool(planner.drafts) or any(x.layers for x in planner.sides if x.what != PROJECTOR)
        self.numbers: dict[object, int] = {}
        self.sizes: dict[int, int] = {}
        count = planner.weights.layer_count
        self.trunk = [x.index for x in planner.layout.layers] if laid_out else list(range(count))
        names = (HOST, *(d.name for d in planner.machine.devices))
        self.marks = {
            (name, moved): self._marks(planner, replace(p, cpu_moe=count if moved else 0), name, kinds)
            for name in names
            for moved in (False, True)
        }

    def _marks(self, planner: Planner, p: Placement, name: str, kinds: Sequence[int]) -> list[int]:
        at = (name,) * (planner.weights.layer_count + 1)
        if not self.laid_out:
            return [
                self._number((name, *self._lent(planner, p, i, name), kinds[i] * (name == HOST))) for i in self.trunk
            ]
        signs = planner.layout.signs(at, lambda w: planner.weights.lies(w, at, p))
        out = []
        for i, sign in zip(self.trunk, signs, strict=True):
            mark = self._number((sign, kinds[i]))
            self.sizes[mark] = len(planner.layout.blocks[i])
            out.append(mark)
        return out

    def _lent(self, planner: Planner, p: Placement, layer: int, name: str) -> tuple[int, bool]:
        """What the formula sees of a layer on the host: its largest matrix, and whether it has experts there."""
        groups = [
            g
            for g in planner.weights.groups.values()
            if g.layer == layer and (name == HOST or (g.experts and layer < p.cpu_moe))
        ]
        return max((g.largest for g in groups), default=0), any(g.experts for g in groups)

    def _number(self, sign: object) -> int:
        return self.numbers.setdefault(sign, len(self.numbers))

    def key(self, at: Sequence[str], experts: int) -> Hashable:
        """What of a placement the compute buffers depend on.

        Args:
            at: device of each layer, the output layer's last.
            experts: the experts of so many layers, from the first on, stay on the host.
        """
        if self.apart:
            return tuple(at), experts
        marks = self._of(at, experts)
        ends = (at[0], at[-1], HOST in at, experts > 0)
        if not self.laid_out:
            return ends, frozenset(marks)
        return ends, tuple(marks[i] for i in picked(marks, apart=self._parted(at)))

    def cost(self, at: Sequence[str], experts: int) -> int:
        """Tensors that are gone through to lay out a placement; a formula is next to nothing."""
        if not self.laid_out:
            return 4
        marks = self._of(at, experts)
        return 4 + sum(self.sizes[marks[i]] for i in picked(marks, apart=self._parted(at)))

    def _of(self, at: Sequence[str], experts: int) -> list[int]:
        return [self.marks[at[i], i < experts][n] for n, i in enumerate(self.trunk)]

    @staticmethod
    def _parted(at: Sequence[str]) -> bool:
        return HOST in at and len(set(at)) > 1
