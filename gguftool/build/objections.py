"""What speaks against a quantisation, or is to be known of it beforehand."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from gguftool.build.ftypes import Target
from gguftool.build.step import FLOATS, Step
from gguftool.facts import llama_cpp
from gguftool.format.types import TENSOR_TYPE_BY_NAME
from gguftool.model import Model
from gguftool.model.role import role, what_it_is
from gguftool.predict.pairs.imatrix import lacking, wrong_sizes

UNREADABLE = frozenset("I8 I16 I32 I64 F64 Q8_1 Q8_K".split())
"""Tensor types that ggml cannot turn into f32."""
NO_WAY_WITHOUT = frozenset("IQ2_XXS IQ2_XS IQ1_S".split())
"""Types whose kernels stop the process without importances (`ggml.c:ggml_quantize_requires_imatrix`)."""
GRIDS = frozenset("IQ2_XS IQ2_S IQ3_XXS IQ3_S".split())
"""Types whose kernels stop the process at importances below zero (`ggml-quants.c:iq2_find_best_neighbour`, b11434)."""


def refusals(
    steps: Sequence[Step], imatrix: dict[str, int] | None, allow_requantize: bool, negative: Container[str]
) -> Iterable[str]:
    """Why it cannot be done as asked."""
    again = [s for s in steps if s.requantizes]
    if again and not allow_requantize:
        types = ", ".join(sorted({s.source_type for s in again}))
        yield f"{len(again)} tensors are quantised already ({types}); quantising them again loses quality twice"
    bare = [
        s
        for s in steps
        if s.changes
        and (s.choice.needs_imatrix or s.choice.type in NO_WAY_WITHOUT)
        and (imatrix is None or s.tensor.name not in imatrix)
    ]
    if bare:
        lack = "no importance matrix is given" if imatrix is None else "the importance matrix has no entry for them"
        yield f"{len(bare)} tensors need an importance matrix and {lack}: {_some(s.name for s in bare)}"
    below = [s for s in steps if s.changes and s.choice.type in GRIDS and s.tensor.name in negative]
    if below:
        types = ", ".join(sorted({s.choice.type for s in below}))
        yield (
            f"the importance matrix holds values below zero for {len(below)} tensors, of which ggml makes no {types}: "
            f"{_some(s.name for s in below)}"
        )
    wrong = wrong_sizes({s.tensor.name: s.tensor.shape for s in steps}, imatrix or {})
    for s in steps:
        if not s.changes:
            continue
        block = TENSOR_TYPE_BY_NAME[s.choice.type].block_size
        if s.tensor.shape[0] % block:
            yield f"{s.name}: rows of {s.tensor.shape[0]} do not divide into blocks of {block} ({s.choice.type})"
        if s.source_type in UNREADABLE:
            yield f"{s.name}: is {s.source_type}, which cannot be converted"
        if s.tensor.name in wrong:
            have, need = wrong[s.tensor.name]
            yield f"{s.name}: the importance matrix has {have} values, the tensor needs {need}"


def warnings(
    model: Model, steps: Sequence[Step], target: Target, imatrix: dict[str, int] | None, negative: Container[str]
) -> Iterable[str]:
    """What the user should know."""
    fallen = [s for s in steps if s.choice.fell_back]
    if fallen:
        pairs = sorted({f"{s.choice.wanted} -> {s.choice.type}" for s in fallen})
        yield (
            f"{len(fallen)} of {len(steps)} tensors have rows that do not divide into blocks of the wanted type "
            f"({', '.join(pairs)})"
        )
    if imatrix is not None:
        changed = [s for s in steps if s.changes and s.choice.type not in FLOATS]
        bare = lacking((s.tensor.name for s in changed if not s.choice.needs_imatrix), imatrix)
        if bare:
            yield f"the importance matrix has no entry for {len(bare)} of {len(changed)} tensors: {_some(bare)}"
    below = [s.tensor.name for s in steps if s.changes and s.tensor.name in negative and s.choice.type not in GRIDS]
    if below:
        yield (
            f"the importance matrix holds values below zero for {len(below)} tensors, which no sum of squares is: "
            f"{_some(below)}"
        )
    if any(s.source_type == "F16" for s in steps) and target.name == "BF16":
        yield "from F16 to BF16: three bits of precision are lost"
    if role(model) in ("image", "audio"):
        yield f"the file is {what_it_is(model)}: which tensors that program wants unquantised is not known here"
    elif model.arch.facts is None:
        yield f"{llama_cpp()} does not know the architecture {model.architecture!r}: the mixture is a guess"
    if model.missing_shards:
        yield f"shards are missing: {', '.join(map(str, model.missing_shards))}"


def _some(names: Iterable[str], limit: int = 3) -> str:
    found = list(names)
    return ", ".join(found[:limit]) + (f" and {len(found) - limit} more" if len(found) > limit else "")
