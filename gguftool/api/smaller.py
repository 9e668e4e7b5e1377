"""Which quantisation of the weights would make a plan fit."""

from __future__ import annotations

from gguftool.memory.advice import Advice, Smaller
from gguftool.memory.search import search
from gguftool.model import Model
from gguftool.records import replace
from gguftool.run.ways import made


def with_smaller(m: Model, a: Advice) -> Advice:
    """The advice with the sizes of smaller quantisations, down to the first that fits.

    Sizes are those llama-quantize would give, from the same mixture; what fits is searched for anew.
    """
    out = []
    for name, other in made(m, a.planner):
        fit = search(other, a.plan.settings, a.plan.placement)
        out.append(Smaller(name, other.weights.tensor_bytes, fit.plan.total, bool(fit.fits)))
        if fit.fits:
            break
    return replace(a, smaller=tuple(out))
