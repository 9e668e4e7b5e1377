"""A mixture under a size: candidates, their losses, the choice, and the plan that comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gguftool.brief import short_repr
from gguftool.build import imatrix as imatrices
from gguftool.build.ftypes import TARGETS
from gguftool.build.kernels import Kernels
from gguftool.build.mix.candidates import Allowed, bits, named, of_tensor
from gguftool.build.mix.knapsack import Option, Solution, smallest, solve
from gguftool.build.mix.size import Limit
from gguftool.build.mix.spelling import lines
from gguftool.build.mixture import Overrides
from gguftool.build.plan import QuantizePlan, in_order
from gguftool.build.quantize import Options, prepare
from gguftool.errors import Refused
from gguftool.format.header import align
from gguftool.format.types import TENSOR_TYPE_BY_NAME
from gguftool.model import Model, Tensor
from gguftool.quantity import human
from gguftool.records import dataclass, replace

_LABELS = ("Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q3_K_M", "Q2_K")
"""Targets that lend a mixture their name, of several with one default type."""


@dataclass(frozen=True, slots=True)
class Part:
    """One tensor that was chosen for.

    Attributes:
        name: of the tensor.
        type: chosen.
        sensitivity: divergence in nats that a relative error of 1 is taken to cause.
        error: relative squared error that the type makes.
        size: bytes of its data.
        could: error by type, of all types that it might have had.
    """

    name: str
    type: str
    sensitivity: float
    error: float
    size: int
    could: Mapping[str, float]

    @property
    def loss(self) -> float:
        """What it adds to the loss."""
        return self.sensitivity * self.error


@dataclass(frozen=True, slots=True)
class Proposal:
    """A mixture.

    Attributes:
        parts: tensors that were chosen for, in the order they are written.
        patterns: (pattern, type) pairs that give it, for ``--tensor-type``.
        label: the target that `general.file_type` names: the one most weights have the type of.
        plan: what quantising with these patterns gives.
        limit: what was asked for.
        loss: sum over ``parts``.
        bound: no mixture of these candidates within the limit has less.
    """

    parts: tuple[Part, ...]
    patterns: tuple[tuple[str, str], ...]
    label: str
    plan: QuantizePlan
    limit: Limit
    loss: float
    bound: float

    __repr__ = short_repr


Candidates = Sequence[tuple[Tensor, tuple[str, ...]]]


def candidates(model: Model, may: Allowed, kernels: Kernels, matrix: imatrices.Imatrix | None) -> Candidates:
    """Tensors that the quantiser touches, with the types that each may have.

    Raises:
        Refused: a tensor has none.
    """
    tensors = in_order(model.all_tensors())
    fixed = named(tensors, may.fixed)
    out = []
    for t in tensors:
        measured = matrix is not None and t.name in matrix.entries
        kinds = of_tensor(t, model.architecture, may, kernels.writes, measured, fixed.get(t.name))
        if kinds:
            out.append((t, kinds))
        elif of_tensor(t, model.architecture, Allowed(types=(t.type_name,)), kernels.writes, measured):
            raise Refused(
                f"{t.name}: none of the types that are allowed divides its rows of {t.shape[0]}",
                "allow more: --types k,legacy,iq,float",
            )
    if not out:
        raise Refused(f"{model.name}: has no tensors to quantise")
    return out


def propose(
    model: Model,
    limit: Limit,
    found: Candidates,
    lost: Mapping[str, Mapping[str, float]],
    sensitivity: Mapping[str, float],
    options: Options,
) -> Proposal:
    """The mixture of least loss within ``limit``.

    Args:
        model: the source.
        limit: what the result may take.
        found: from `candidates`.
        lost: relative squared error by tensor and type, from `gguftool.build.mix.losses`.
        sensitivity: divergence that a relative error of 1 causes, by tensor.
        options: how it will be quantised; its overrides are not used.

    Raises:
        Refused: even the smallest mixture is larger than ``limit``, or its patterns cannot give it.
    """
    spare = 0
    while True:
        types, solution = _chosen(model, limit, found, lost, sensitivity, options, spare)
        label, patterns = _label(found, types), lines(types)
        plan = _plan(model, label, patterns, options)
        over = limit.over(plan)
        if over <= 0:
            break
        # The name of the label is part of the header, and so of the size.
        spare += over
    wrong = [s.name for s in plan.steps if types.get(s.name, s.source_type) != s.choice.type]
    if wrong:
        raise Refused(f"{wrong[0]}: no pattern of --tensor-type gives this tensor another type than its neighbours")
    sizes = {s.name: s.new_bytes for s in plan.steps}
    parts = tuple(
        Part(t.name, types[t.name], sensitivity[t.name], lost[t.name][types[t.name]], sizes[t.name], lost[t.name])
        for t, _ in found
    )
    return Proposal(parts, patterns, label, plan, limit, solution.loss, solution.bound)


def _plan(model: Model, label: str, patterns: tuple[tuple[str, str], ...], options: Options) -> QuantizePlan:
    return prepare(model, label, replace(options, overrides=Overrides(tensor_types=patterns)))[0]


def _chosen(
    model: Model,
    limit: Limit,
    found: Candidates,
    lost: Mapping[str, Mapping[str, float]],
    sensitivity: Mapping[str, float],
    options: Options,
    spare: int,
) -> tuple[dict[str, str], Solution]:
    alignment = 1 if limit.bits_per_weight is not None else model.header.alignment
    items = [
        [Option(align(_bytes(t, kind), alignment), sensitivity[t.name] * lost[t.name][kind]) for kind in kinds]
        for t, kinds in found
    ]
    # What stands beside the tensors that are chosen for: the header, and those that stay as they are.
    as_is = _plan(model, "Q8_0", lines({t.name: kinds[0] for t, kinds in found}), options)
    mine = sum(align(_bytes(t, kinds[0]), alignment) for t, kinds in found)
    beside = (as_is.data_size if alignment == 1 else as_is.file_size) - mine
    budget = limit.bytes_for(as_is) - beside - spare
    solution = solve(items, budget)
    if solution is None:
        least = smallest(items) + beside
        raise Refused(
            f"{limit.text}: the smallest mixture of the types that are allowed takes {human(least)} "
            f"({limit.bits_of(least, as_is):.2f} bits per weight)",
            "name a larger target, allow more types with --types, or give an importance matrix: --imatrix FILE",
        )
    return {t.name: kinds[i] for (t, kinds), i in zip(found, solution.picks, strict=True)}, solution


def _bytes(tensor: Tensor, kind: str) -> int:
    traits = TENSOR_TYPE_BY_NAME[kind]
    return tensor.info.elements // traits.block_size * traits.block_bytes


def _label(found: Candidates, types: Mapping[str, str]) -> str:
    """The target with the type that most weights have; of several the nearest in bits to the whole."""
    weights: dict[str, int] = {}
    for t, _ in found:
        weights[types[t.name]] = weights.get(types[t.name], 0) + t.info.elements
    by_type: dict[str, str] = {}
    for name in (*_LABELS, *TARGETS):
        by_type.setdefault(TARGETS[name].default, name)
    quantized = {kind: n for kind, n in weights.items() if kind in by_type and TARGETS[by_type[kind]].quantized}
    # A target of floats takes no patterns.
    return by_type[max(quantized, key=lambda kind: (quantized[kind], bits(kind)))] if quantized else "Q8_0"
