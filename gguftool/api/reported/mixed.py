"""The quantisation that a file claims, beside what llama.cpp's mixture of that name gives this very model."""

from __future__ import annotations

from gguftool.brief import short_repr
from gguftool.build.ftypes import TARGETS, Target
from gguftool.build.mixture import Shape, choose
from gguftool.build.plan import facts, in_order
from gguftool.errors import Refused
from gguftool.format.types import FILE_TYPES, TENSOR_TYPE_BY_NAME
from gguftool.model import Model
from gguftool.model.overview import TypeShare, type_mix
from gguftool.model.role import ROLES, role
from gguftool.records import dataclass

FILE_TYPE, GUESSED = "general.file_type", 1024


@dataclass(frozen=True, slots=True)
class Otherwise:
    """A tensor that is of another type than the mixture gives it."""

    name: str
    has: str
    would: str

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Mixture:
    """What llama-quantize would make of the model under the name that the file claims.

    Attributes:
        target: the name, ``Q4_K_M``.
        mix: tensors, elements and bytes by type, the largest first.
        bytes: of all tensors together.
        bits_per_weight: of that mixture.
        otherwise: tensors that have another type in the file, in llama.cpp's order.
    """

    target: str
    mix: tuple[TypeShare, ...]
    bytes: int
    bits_per_weight: float
    otherwise: tuple[Otherwise, ...]

    __repr__ = short_repr


def claimed(m: Model) -> Target | None:
    """The target that `general.file_type` names; None where llama-quantize has none of that number."""
    value = m.get(FILE_TYPE)
    if isinstance(value, bool) or not isinstance(value, int) or value & ~GUESSED not in FILE_TYPES:
        return None
    return next((t for t in TARGETS.values() if t.ftype == value & ~GUESSED), None)


def mixture(m: Model) -> tuple[Mixture | None, str]:
    """The mixture, or why there is none.

    An importance matrix counts as given where the file says that there was one.
    """
    target = claimed(m)
    if target is None:
        return None, "the file names no quantisation of llama-quantize"
    if not ROLES[role(m)].loads:
        return None, f"{ROLES[role(m)].what} is not quantised by a mixture"
    tensors = in_order(m.tensors.values())
    if any(t.nbytes is None for t in tensors) or not tensors or m.missing_shards:
        return None, "not all tensors are there, or of a known type"
    matrix = any(key.startswith("quantize.imatrix.") for key in m.fields)
    try:
        shapes = [Shape(t.name, t.shape or (1,), t.type_name) for t in tensors]
        choices = choose(target, shapes, facts(m), has_imatrix=matrix)
    except Refused as error:
        return None, str(error)
    sums: dict[str, list[int]] = {}
    otherwise = []
    for t, choice in zip(tensors, choices, strict=True):
        kind = TENSOR_TYPE_BY_NAME.get(choice.type)
        elements = t.info.elements
        size = (t.nbytes or 0) if kind is None else elements // kind.block_size * kind.block_bytes
        one = sums.setdefault(choice.type, [0, 0, 0])
        one[0], one[1], one[2] = one[0] + 1, one[1] + elements, one[2] + size
        if choice.type != t.type_name:
            otherwise.append(Otherwise(t.name, t.type_name, choice.type))
    mix = tuple(sorted((TypeShare(k, *v) for k, v in sums.items()), key=lambda s: (-(s.bytes or 0), s.type_name)))
    total = sum(s.bytes or 0 for s in mix)
    return Mixture(target.name, mix, total, 8 * total / max(1, sum(s.elements for s in mix)), tuple(otherwise)), ""


measured = type_mix
"""What the tensors are, beside it."""
