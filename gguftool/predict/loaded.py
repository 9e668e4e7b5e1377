"""The tensors that a model has in memory once it is loaded, by name: what an adapter may change."""

from __future__ import annotations

from collections.abc import Mapping

from gguftool.model import Model
from gguftool.predict.surveyed import survey
from gguftool.predict.tensors import adapted, padded
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class Weight:
    """One tensor of a loaded model.

    Attributes:
        shape: its four sizes, as ggml keeps them.
        op: what it is made for (``MUL_MAT``, ``MUL_MAT_ID``, ``GET_ROWS``, ``MUL`` …).
        adapted: its graph asks adapters when it uses it.
        tied: it is the table of tokens, and the output is computed with it, too.
    """

    shape: tuple[int, ...]
    op: str
    adapted: bool = True
    tied: bool = False


def loaded(base: Model) -> tuple[Mapping[str, Weight] | None, str]:
    """The tensors that llama.cpp holds of a model (`llama-model.cpp:get_tensor`, b11434).

    Returns:
        them by name; None with the reason when it cannot be told.
    """
    found = survey(base)
    if found.problem or found.missing or found.misshaped or found.machine is None:
        return None, f"the base model does not load: {found.problem or 'its tensors are not what is asked for'}"
    there = {n: w for n, w in found.wanted.items() if w.used and n in found.stored}
    tied = ("output", -1) in found.machine.slots and "output.weight" not in there
    arch = base.architecture
    return {
        name: Weight(
            padded(found.stored[name].shape),
            wanted.op,
            adapted(arch, name),
            tied and name == "token_embd.weight" and adapted(arch, "output.weight"),
        )
        for name, wanted in there.items()
    }, ""
