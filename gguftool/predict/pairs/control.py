"""A control vector beside a model: its width and its layers (`llama-adapter.cpp:llama_adapter_cvec`, b11434)."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.facts.arch import facts
from gguftool.facts.layers import nextn_layers
from gguftool.model import Model
from gguftool.model.steering import control_vector
from gguftool.predict.pairs.misfit import HARM, IGNORED, Misfit
from gguftool.predict.steering import WIDTH, predict, steered

_ANOTHER = "a control vector belongs to one model: make one of this model"


def misfits(model: Model, side: Model) -> Iterator[Misfit]:
    """Width and layers."""
    load, hp, found = predict(side, model), model.arch, control_vector(side).layers
    if load.skipped and load.warnings[0] == WIDTH:
        width, wanted = load.data["width"], load.data["model"]
        yield Misfit(
            "pair-width",
            IGNORED,
            f"its directions are {width:,} wide, the model is {wanted:,} wide; llama.cpp runs without it",
            said=load.warnings,
            hint=_ANOTHER,
            data=load.data,
        )
        return
    if facts(model.architecture) is not None and not steered(model.architecture):
        text = f"llama.cpp adds no control vector in the graph of {model.architecture}: nothing of it is used"
        yield Misfit("pair-effect", IGNORED, text, hint="steer a model of another architecture")
        return
    # Data for layer 1 and up is kept; the layer 0 of the model gets none.
    last = hp.block_count - nextn_layers(hp) - 1
    beyond = [n for n in found if n > last]
    if beyond:
        nothing = len(beyond) == len(found)
        which = f"its first layer is {beyond[0]}" if nothing else f"its layers from {beyond[0]} on are not in the model"
        what = f"the last of the model is {last}: {'nothing of it is' if nothing else 'they are not'} used"
        yield Misfit(
            "pair-layers",
            IGNORED if nothing else HARM,
            f"{which}, {what}",
            hint=_ANOTHER,
            where=f"tensor:direction.{beyond[0]}",
            data={"layers": beyond, "last": last},
        )
