"""An importance matrix beside a model: its entries are those of the model's tensors, in their sizes.

`llama-quant.cpp:llama_model_quantize_impl` (b11434) stops at an entry of another size, and passes a tensor without one.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from gguftool.facts.layers import nextn_layers
from gguftool.model import Model
from gguftool.model.imatrix import entries as measured
from gguftool.predict.pairs.misfit import DOUBT, HARM, IGNORED, REFUSED, Misfit
from gguftool.regex import regex

_LAYER = regex(r"blk\.([0-9]{1,18})\.")
UNMEASURED = ("token_embd.weight", "output.weight", "per_layer_token_embd.weight")
"""Weights that llama-imatrix does not measure by itself."""
_AGAIN = "an importance matrix belongs to one model: measure one on this model with `gguftool imatrix`"


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
    yield from unfit(model, entries(side))


def unfit(model: Model, found: Mapping[str, int]) -> Iterator[Misfit]:
    """What of a model does not go with entries of these names and sizes, whatever file they are from."""
    shapes = {t.name: t.shape for t in model.all_tensors()}
    if not found or not shapes:
        return
    wrong = wrong_sizes(shapes, found)
    if wrong:
        name, (have, need) = next(iter(wrong.items()))
        more = f", and {len(wrong) - 1:,} more" if len(wrong) > 1 else ""
        yield Misfit(
            "pair-imatrix",
            REFUSED,
            f"it was measured on another model: {have:,} values for {name}, which has "
            f"{_columns(shapes[name], have)}{more}",
            said=(f"imatrix size {have} is different from tensor size {need} for {name}",),
            hint=_AGAIN,
            where=f"tensor:{name}.in_sum2",
            data={"tensor": name, "values": have, "wanted": need, "tensors": len(wrong)},
        )
        return
    layers = _layers(shapes)
    own = set(found)
    for nextn in range(model.arch.block_count - nextn_layers(model.arch), model.arch.block_count):
        layers.pop(nextn, None)
    bare = [n for n, names in layers.items() if not own.intersection(names)]
    if bare:
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
    if len(bare) < len(layers):
        yield from _strange(shapes, found)


def _columns(shape: tuple[int, ...], have: int) -> str:
    """What a tensor has, in words that go with a number of values."""
    experts = shape[2] if len(shape) > 2 else 1
    if experts > 1 and have % shape[0] == 0:
        return f"{experts:,} experts of {shape[0]:,} columns, not {have // shape[0]:,}"
    return f"{wanted(shape):,} columns"


def _strange(shapes: Mapping[str, tuple[int, ...]], found: Mapping[str, int]) -> Iterator[Misfit]:
    """Entries of tensors that the model does not have."""
    strange = [name for name in found if name not in shapes]
    if strange:
        more = f", for example {strange[0]}" if len(strange) > 1 else f": {strange[0]}"
        yield Misfit(
            "pair-imatrix",
            DOUBT,
            f"{len(strange):,} of its {len(found):,} entries are of tensors that this model does not have{more}",
            hint="they are passed over; they come from another conversion of the model, or from another model",
            where=f"tensor:{strange[0]}.in_sum2",
            data={"tensors": len(strange), "first": strange[0]},
        )


def lacking(names: Iterable[str], found: Container[str]) -> list[str]:
    """Of tensors that are to be quantised those without an entry, as far as llama-imatrix would have made one.

    Without being asked (``--process-output``) it measures neither the output nor the embeddings of tokens.
    """
    return [name for name in names if name not in found and name not in UNMEASURED]


def _layers(shapes: Mapping[str, tuple[int, ...]]) -> dict[int, list[str]]:
    """Matrices of each layer, in order."""
    out: dict[int, list[str]] = {}
    for name, shape in shapes.items():
        found = _LAYER.match(name)
        if found and len(shape) > 1 and name.endswith(".weight") and "_norm." not in name:
            out.setdefault(int(found[1]), []).append(name)
    return dict(sorted(out.items()))
