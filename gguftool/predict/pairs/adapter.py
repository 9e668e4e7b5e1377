"""A LoRA adapter beside its base model (`gguftool.predict.adapter` knows the checks and their words)."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.model import Model
from gguftool.model.adapter import EMBEDDING, INVOCATION, A, Adapter, adapter
from gguftool.model.vocab import vocabulary
from gguftool.predict.adapter import in_vain, predict
from gguftool.predict.pairs.misfit import ABORTS, HARM, IGNORED, REFUSED, Misfit
from gguftool.predict.verdict import UNKNOWN

_ANOTHER = "an adapter belongs to one base model: name that one, or the adapter that was trained on this one"


def misfits(model: Model, side: Model) -> Iterator[Misfit]:
    """The first thing that its loader does not like beside this model, or its first use; and what is in vain."""
    load = predict(side, model)
    if not load.loads:
        if load.verdict in (REFUSED, ABORTS):
            rule = "pair-architecture" if load.where == "field:general.architecture" else "pair-shapes"
            text = _meant(model, side, load.where, load.data) or f"llama.cpp does not take it: {load.first_error}"
            yield Misfit(rule, load.verdict, text, load.messages, _ANOTHER, where=load.where, data=load.data)
        return
    after = load.after_load
    if after is not None and after.outcome in (REFUSED, ABORTS):
        tied = after.where == f"tensor:{EMBEDDING}{A}" and "output.weight" not in model.tensors
        why = f"; this model computes its output with {EMBEDDING}, too, and there the pair does not fit" if tied else ""
        text = f"llama.cpp loads it, then aborts at the first tokens: {after.message}{why}"
        yield Misfit("pair-shapes", ABORTS, text, (after.message,), _ANOTHER, where=after.where)
        return
    if after is not None and after.outcome == UNKNOWN:
        text = f"llama.cpp loads it, and {after.message}"
        yield Misfit("pair-shapes", HARM, text, hint=_ANOTHER, where=after.where)
    yield from _in_vain(model, adapter(side))


def _in_vain(model: Model, it: Adapter) -> Iterator[Misfit]:
    """Loaded and never used: pairs that the graph does not ask for, tokens that the vocabulary does not have."""
    idle, text = in_vain(model.architecture, it)
    if idle:
        outcome = IGNORED if len(idle) == len(it.pairs) else HARM
        hint = "merge the adapter into the model before the conversion"
        yield Misfit("pair-effect", outcome, text, hint=hint, where=f"tensor:{idle[0].name}{A}")
    tokens = vocabulary(model).count
    beyond = [n for n in it.invocation if tokens is not None and n >= tokens]
    if beyond:
        text = f"token {beyond[0]:,} is to switch it on, the model has {tokens:,}: it is never switched on"
        yield Misfit("pair-effect", IGNORED, text, hint=_ANOTHER, where=f"field:{INVOCATION}")


def _meant(model: Model, side: Model, where: str, data: object) -> str:
    """In our words; "" where the loader's own say it."""
    kind, _, name = where.partition(":")
    if name == "general.architecture":
        return f"it was made for a model of the architecture {side.architecture!r}, this one is {model.architecture!r}"
    if kind != "tensor" or not isinstance(data, dict):
        return ""
    weight = name.removesuffix(".lora_a")
    if "expected" in data and "got" in data:
        have, want = (" × ".join(map(str, data[key][:2])) for key in ("got", "expected"))
        return f"its pair for {weight} is for a weight of {have}, that of this model is {want}"
    if weight not in model.tensors:
        return f"it changes {weight}, which this model does not have"
    return ""
