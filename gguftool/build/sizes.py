"""What every target would give for a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gguftool.build.changes import Changes
from gguftool.build.ftypes import TARGETS, Target
from gguftool.build.mixture import Overrides
from gguftool.build.plan import plan_quantize
from gguftool.errors import Refused
from gguftool.format.header import Field
from gguftool.model import Model
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """What one target gives for a model: bytes of the file, bits per weight, tensors that fall back."""

    target: Target
    file_size: int
    bits_per_weight: float
    fallbacks: int
    tensors: int
    needs_imatrix: bool


def sizes(
    model: Model,
    overrides: Overrides | None = None,
    *,
    imatrix: dict[str, int] | None = None,
    extra_fields: Callable[[Target], Sequence[Field]] = lambda _: (),
    changes: Changes | None = None,
) -> list[Size]:
    """The table of targets for ``model``, largest file first; targets llama.cpp cannot give are left out."""
    out = []
    for target in TARGETS.values():
        try:
            plan = plan_quantize(
                model,
                target,
                overrides,
                imatrix=imatrix,
                allow_requantize=True,
                extra_fields=extra_fields(target),
                changes=changes,
            )
        except Refused:
            continue
        needs = any(s.choice.needs_imatrix and (imatrix is None or s.tensor.name not in imatrix) for s in plan.steps)
        out.append(Size(target, plan.file_size, plan.bits_per_weight, len(plan.fallbacks), len(plan.steps), needs))
    return sorted(out, key=lambda s: -s.file_size)
