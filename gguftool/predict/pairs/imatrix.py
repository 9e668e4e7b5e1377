"""An importance matrix beside a model: its entries are those of the model's tensors, in their sizes.

`llama-quant.cpp:llama_model_quantize_impl` (b11434) stops at an entry of another size, and passes a tensor without one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gguftool.facts.layers import nextn_layers
from gguftool.model import Model
from gguftool.model.imatrix import entries as measured
from gguftool.predict.pairs.misfit import HARM, IGNORED, REFUSED, Misfit

_LAYER = re.compile(r"blk\.([0-9]{1,18})\.")
_AGAIN = "an importance matrix belongs to one model: measure one on this model with llama-imatrix"


def entries(side: Model) -> dict[str, int]:
    """Values of each entry of an importance matrix by tensor name, told from its header."""
    return {e.name: e.squares.elements for e in measured(side) if e.squares is not None}


def wanted(shape: tuple[int, ...]) -> int:
    """Values that the entry of a tensor has: one for each column, of each expert."""
    return (shape[0] if shape else 1) * (shape[2] if len(shape) > 2 else 1)


def wrong_sizes(shapes: Mapping[str, tuple[int, ...]], found: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Tensors whose entry has another size than theirs: values of the entry, values wanted.

    Those of the token embeddings are passed over, as llama.cpp does.
    """
    return {
        name: (found[name], wanted(shape))
        for name, shape in shapes.items()
        if name in found and found[name] != wanted(shape) and "token_embd" not in name
    }


def misfits(model: Model, side: Model) -> Iterator[Misfit]:
    """Sizes of the entries, and layers without one."""
    shapes = {t.name: t.shape for t in model.all_tensors()}
    found = entries(side)
    if not found or not shapes:
        return
    wrong = wrong_sizes(shapes, found)
    if wrong:
        name, (have, need) = next(iter(wrong.items()))
        more = f", and {len(wrong) - 1:,} more" if len(wrong) > 1 else ""
        yield Misfit(
            "pair-imatrix",
            REFUSED,
            f"it was measured on another model: {have:,} values for {name}, which has {need:,} columns{more}",
            said=(f"imatrix size {have} is different from tensor size {need} for {name}",),
            hint=_AGAIN,
            where=f"tensor:{name}.in_sum2",
            data={"tensor": name, "values": have, "wanted": need, "tensors": len(wrong)},
        )
        return
    layers = _layers(shapes)
    for nextn in range(model.arch.block_count - nextn_layers(model.arch), model.arch.block_count):
        layers.pop(nextn, None)
    bare = [n for n, names in layers.items() if not any(name in found for name in names)]
    if not bare:
        return
    first = layers[bare[0]][0]
    if len(bare) == len(layers):
        text = f"it has no entry for any layer of this model; its first is {next(iter(found))}"
    else:
        text = f"it has no entry for {len(bare):,} of {len(layers):,} layers, which are quantised without it"
    yield Misfit(
        "pair-imatrix",
        IGNORED if len(bare) == len(layers) else HARM,
        text,
        said=(f"did not find weights for {first}",),
        hint=_AGAIN,
        data={"layers": bare},
    )


def _layers(shapes: Mapping[str, tuple[int, ...]]) -> dict[int, list[str]]:
    """Matrices of each layer, in order."""
    out: dict[int, list[str]] = {}
    for name, shape in shapes.items():
        found = _LAYER.match(name)
        if found and len(shape) > 1 and name.endswith(".weight") and "_norm." not in name:
            out.setdefault(int(found[1]), []).append(name)
    return dict(sorted(out.items()))
