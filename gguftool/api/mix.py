"""A mixture of types that loses least under a size: losses, sensitivities and choice put together."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from gguftool.brief import short_repr
from gguftool.build.mix.candidates import Allowed
from gguftool.errors import Unreadable, UsageError
from gguftool.reading import json_file
from gguftool.records import dataclass, field

if TYPE_CHECKING:
    from gguftool.build.mix.propose import Proposal
    from gguftool.build.quantize import Options
    from gguftool.model import Model
    from gguftool.run.sensitivity import Sensed

MEASURED, USUAL, AUTO = "measured", "usual", "auto"
LARGEST = 1 << 30
"""Weights of a model above which nothing is measured unless it is asked for: each of some forty groups is one reading
of a text."""
_LIMIT = 64 << 20


@dataclass(frozen=True, slots=True)
class Ways:
    """How to find a mixture.

    Attributes:
        allowed: what may be chosen from.
        sensitivity: ``measured`` (with the library), ``usual`` (of kinds of tensors in other models), ``auto``, or the
            path of what ``mix --format json`` has said of this model.
        text: path of a text to measure on; None: the first pages of Alice's Adventures in Wonderland.
        tokens: of the text, read once for each group.
        bands: stretches of layers to tell apart.
        timeout: seconds that measuring may take.
    """

    allowed: Allowed = field(default_factory=Allowed)
    sensitivity: str = AUTO
    text: str | None = None
    tokens: int = 1024
    bands: int = 6
    timeout: float = 3600.0

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Mixed:
    """A mixture and what it was found from.

    Attributes:
        proposal: the mixture.
        how: ``measured``, ``usual``, or the path of the file that the sensitivities are from.
        sensed: the measurement, where one was made.
        kernels: what made the errors.
        own: what llama.cpp's own mixture is told to lose, where its size was the target.
    """

    proposal: Proposal
    how: str
    sensed: Sensed | None
    kernels: str
    own: float | None = None

    __repr__ = short_repr


def mix(
    model: Model | str | os.PathLike[str],
    target: str,
    ways: Ways | None = None,
    options: Options | None = None,
    *,
    tell: Callable[[str], None] = lambda _: None,
) -> Mixed:
    """Propose the type of each tensor so that the file is no larger than ``target`` and loses least.

    Args:
        model: an F16, BF16 or F32 model: a path, an address, or open.
        target: bits a weight (``4.5bpw``), a size (``90MiB``), or a quantisation of llama.cpp (``Q4_K_M``: no larger
            than its own mixture).
        ways: what may be chosen, and how sensitivities are found.
        options: how it will be quantised: importance matrix, engine, requantising.
        tell: called with a line about progress.

    Raises:
        UsageError: the target, a type or a file is not one, or the model is none that is quantised.
        Refused: no mixture of the allowed types is that small, or the model is quantised already.
        FormatError: the source is broken or holds NaN.
        ToolFailed: what shall measure is not there, or fails.
    """
    from gguftool.build import imatrix as imatrices
    from gguftool.build import kernels as rows_of
    from gguftool.build.mix.losses import losses
    from gguftool.build.mix.propose import candidates, propose
    from gguftool.build.mix.size import limit
    from gguftool.build.mix.usual import completed, usual
    from gguftool.build.quantize import Options, only_weights, prepare, refuse
    from gguftool.hub import file_of, opened
    from gguftool.run.sensitivity import measure

    how, opts = ways or Ways(), options or Options()
    with opened(file_of(model)) as m:
        only_weights(m)
        # What stands against quantising it at all stands against a mixture.
        there = {t.type_name for t in m.all_tensors()}
        refuse(prepare(m, "Q5_1" if "Q8_0" in there else "Q8_0", opts)[0], opts)
        wanted = limit(target, lambda name: prepare(m, name, opts)[0].file_size)
        matrix = imatrices.read(opts.imatrix) if opts.imatrix else None
        kernels = rows_of.find()
        found = candidates(m, how.allowed, kernels, matrix)
        weights = matrix.entries if matrix else {}
        lost = losses(found, kernels, weights, opts.threads, tell)
        tensors = [t for t, _ in found]
        said = _how(how, sum(t.info.elements for t in tensors))
        sensed: Sensed | None = None
        known: Mapping[str, float]
        if said == MEASURED:
            sensed = measure(
                m, tensors, kernels, imatrix=weights, text=how.text, tokens=how.tokens,
                bands=how.bands, threads=opts.threads, timeout=how.timeout, tell=tell,
            )  # fmt: skip
            known = sensed.by_tensor
        else:
            known = usual(tensors) if said == USUAL else _told(said)
        minded = completed(tensors, known)
        proposal = propose(m, wanted, found, lost, minded, opts)
        own = None
        if wanted.like:
            types = {s.name: s.choice.type for s in prepare(m, wanted.like, opts)[0].steps}
            theirs = losses([(t, (types[t.name],)) for t in tensors], kernels, weights, opts.threads)
            own = sum(minded[name] * errors[types[name]] for name, errors in theirs.items())
    return Mixed(proposal, said, sensed, kernels.name, own)


def _how(ways: Ways, weights: int) -> str:
    """What ``auto`` means here."""
    from gguftool.run.measurer import available

    if ways.sensitivity != AUTO:
        return ways.sensitivity
    return MEASURED if ways.text is not None or (available() and weights <= LARGEST) else USUAL


def _told(path: str) -> Mapping[str, float]:
    """Sensitivities that an earlier run has found.

    Raises:
        UsageError: the file cannot be read, or is something else.
    """
    try:
        found = json_file(path, _LIMIT)
    except Unreadable as error:
        raise UsageError(str(error)) from None
    rows = found.get("tensors") if isinstance(found, Mapping) else None
    out = {}
    for row in rows if isinstance(rows, list) else ():
        name, value = (row.get("name"), row.get("sensitivity")) if isinstance(row, Mapping) else (None, None)
        if isinstance(name, str) and isinstance(value, int | float) and math.isfinite(value) and value >= 0:
            out[name] = float(value)
    if not out:
        raise UsageError(
            f"{path}: tells no sensitivities", "it is what `gguftool mix MODEL --target 5bpw --format json` prints"
        )
    return out
