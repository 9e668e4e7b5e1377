"""Which types a tensor may have: blocks that divide its rows, what the kernels make, and what was not ruled out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gguftool.build.category import allowed
from gguftool.build.mixture import NEEDS_IMATRIX
from gguftool.build.objections import NO_WAY_WITHOUT, UNREADABLE
from gguftool.build.patterns import compiled, first
from gguftool.build.step import FLOATS
from gguftool.errors import UsageError
from gguftool.format.types import TENSOR_TYPE_BY_NAME
from gguftool.model import Tensor
from gguftool.near import near_names
from gguftool.records import dataclass

FAMILIES = {
    "legacy": tuple("Q4_0 Q4_1 Q5_0 Q5_1 Q8_0".split()),
    "k": tuple("Q2_K Q3_K Q4_K Q5_K Q6_K".split()),
    "iq": tuple("IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ4_NL IQ4_XS".split()),
    "float": FLOATS,
}
"""Types by family. Those of models trained for few bits (TQ1_0, MXFP4, Q2_0 …) stand in none: name them."""
USUAL = tuple(t for family in FAMILIES.values() for t in family)
HEADS = ("token_embd.weight", "output.weight")
LEAST_OF_HEADS = 4.0
"""Bits a weight that embeddings and output keep: what a text does not hold is not measured with it, and these tensors
have a row for each token."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """What may be chosen from.

    Attributes:
        types: names of tensor types.
        least: bits a weight that every tensor keeps.
        fixed: (pattern, type) pairs of the user's; the first found in a tensor's name decides.
    """

    types: tuple[str, ...] = USUAL
    least: float = 0.0
    fixed: tuple[tuple[str, str], ...] = ()


def bits(type_name: str) -> float:
    """Bits a weight of a type."""
    kind = TENSOR_TYPE_BY_NAME[type_name]
    return 8 * kind.block_bytes / kind.block_size


def types(text: str) -> tuple[str, ...]:
    """Types out of text such as ``k,legacy`` or ``q4_k,q6_k,q8_0``.

    Raises:
        UsageError: a name is neither a family nor a type that can be quantised to.
    """
    out: list[str] = []
    for word in text.replace(",", " ").split():
        found = FAMILIES.get(word.lower())
        if found is None:
            kind = TENSOR_TYPE_BY_NAME.get(word.upper())
            if kind is None or kind.name in UNREADABLE:
                near = near_names(word.upper(), [*USUAL, *map(str.upper, FAMILIES)], 3, 0.4)
                raise UsageError(
                    f"--types: {word!r} is no type to quantise to",
                    f"near: {', '.join(near)}" if near else f"families: {', '.join(FAMILIES)}",
                )
            found = (kind.name,)
        out += found
    if not out:
        raise UsageError("--types names no type", f"families: {', '.join(FAMILIES)}")
    return tuple(dict.fromkeys(out))


def of_tensor(
    tensor: Tensor, arch: str, may: Allowed, writes: Collection[str], measured: bool, fixed: str | None = None
) -> tuple[str, ...]:
    """Types that ``tensor`` may have; empty when the quantiser never touches it.

    Args:
        tensor: of the source.
        arch: architecture of the model.
        may: what the user allows.
        writes: what the kernels make.
        measured: whether an importance matrix has an entry for it.
        fixed: the type that the user has named for it.
    """
    if not allowed(tensor.name, tensor.shape, arch) or tensor.type_name in UNREADABLE:
        return ()
    if fixed is not None:
        return (fixed,)
    row = tensor.shape[0]
    least = max(may.least, LEAST_OF_HEADS if tensor.name in HEADS else 0.0)
    low = () if measured else NEEDS_IMATRIX | NO_WAY_WITHOUT

    def fits(name: str) -> bool:
        if name in low or bits(name) < least or row % TENSOR_TYPE_BY_NAME[name].block_size:
            return False
        # From one 16-bit type to the other nothing is won.
        if name in FLOATS and name != tensor.type_name and bits(name) >= bits(tensor.type_name):
            return False
        return name == tensor.type_name or name in writes

    return tuple(sorted((n for n in may.types if fits(n)), key=lambda n: (bits(n), n)))


def named(tensors: Iterable[Tensor], fixed: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The type that the user has named, by tensor name."""
    found = [(compiled(pattern), kind) for pattern, kind in fixed]
    out = {}
    for t in tensors:
        kind = first(found, t.name)
        if kind is not None:
            out[t.name] = kind
    return out
