"""Which quantisation of the weights would make a plan fit."""

from __future__ import annotations

from dataclasses import replace

from gguftool.memory.advice import Advice, Smaller
from gguftool.memory.fit import search
from gguftool.memory.weights import Weight
from gguftool.model import Model

CANDIDATES = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q3_K_M", "Q2_K")


def with_smaller(m: Model, a: Advice) -> Advice:
    """The advice with the sizes of smaller quantisations, down to the first that fits.

    Sizes are those llama-quantize would give, from the same mixture; what fits is searched for anew.
    """
    from gguftool.build.ftypes import target
    from gguftool.build.plan import plan_quantize
    from gguftool.errors import GgufToolError

    p = a.planner
    now = p.weights.tensor_bytes
    out = []
    for name in CANDIDATES:
        try:
            steps = plan_quantize(m, target(name), allow_requantize=True).steps
        except GgufToolError:
            continue
        size = sum(x.new_bytes for x in steps)
        if size >= now * 0.97:
            continue
        tensors = [Weight(x.name, x.choice.type, x.tensor.shape, x.new_bytes) for x in steps]
        fit = search(replace(p, tensors=tensors), a.plan.settings, a.plan.placement)
        out.append(Smaller(name, size, fit.plan.total, bool(fit.fits)))
        if fit.fits:
            break
    return replace(a, smaller=tuple(out))
