"""What each type would lose of each tensor, told from some of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gguftool.build.distance import Job, distances
from gguftool.build.kernels import Kernels
from gguftool.model import Tensor

SAMPLE = 1 << 16
"""Weights of a tensor that are looked at, about."""
_OFTEN = 64
"""Jobs between two words about progress."""


def losses(
    found: Sequence[tuple[Tensor, Sequence[str]]],
    kernels: Kernels,
    imatrix: Mapping[str, bytes],
    threads: int = 0,
    tell: Callable[[str], None] = lambda _: None,
    sample: int = SAMPLE,
) -> dict[str, dict[str, float]]:
    """Relative squared error by tensor name and type; with importances each column counts as much as it does there.

    Args:
        found: tensors, each with the types to try.
        kernels: what quantises.
        imatrix: f32 importances by tensor name.
        threads: 0 for one per core.
        tell: called with a line about progress.
        sample: weights of a tensor to look at, about.

    Raises:
        FormatError: the source holds NaN or infinity, or ends early.
    """
    jobs = [
        Job(t, None, kind, imatrix.get(t.name), sample) for t, kinds in found for kind in kinds if kind != t.type_name
    ]
    out: dict[str, dict[str, float]] = {t.name: {t.type_name: 0.0} for t, _ in found}
    for number, (job, answer) in enumerate(zip(jobs, distances(jobs, kernels, threads=threads), strict=True), 1):
        if isinstance(answer, Exception):
            raise answer
        if number % _OFTEN == 0:
            tell(f"errors: {number:,} of {len(jobs):,}")
        weighted = answer.weighted
        out[job.tensor.name][job.through or ""] = (weighted if weighted is not None else answer.relative) or 0.0
    return out
