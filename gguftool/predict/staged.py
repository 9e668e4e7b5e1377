"""A model that loads, stage by stage for many builds: each stage is run as often as what *it* is made of differs.

The stages are those of `stages.run_stages`; of each only that counts for the next which it sees (`facts.watched`).
Where any of them ends the load, nothing is said here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from gguftool.facts.machine.ends import Abort, Refusal, Unknown
from gguftool.facts.machine.program import Machine
from gguftool.facts.machine.rows import machine_of, program
from gguftool.facts.watched import Taken, taken, told
from gguftool.model import Model
from gguftool.model.vocab import vocabulary
from gguftool.predict import stages
from gguftool.predict.after import after_load
from gguftool.predict.context import APART
from gguftool.predict.file import keys_as_c
from gguftool.predict.state import Run
from gguftool.predict.tensors import Asked, local_names, padded, run
from gguftool.predict.verdict import LOADS, WARNS, AfterLoad, LoadEnds, Prediction
from gguftool.predict.vocab import Loaded, load_vocab

T = TypeVar("T")


class _Here(NamedTuple):
    """How far an evaluator has come, without its hyperparameters."""

    names: dict[str, Any]
    slots: set[tuple[str, int]]
    procs: dict[str, Any]
    rounds: int
    layer: int


class _Tensors(NamedTuple):
    """What the tensor stage leaves.

    Attributes:
        asked: the tensors.
        written: hyperparameters that it gave a value.
        here: the evaluator.
        aside: tensors that llama.cpp knows and does not use.
    """

    asked: Asked
    written: dict[str, Any]
    here: _Here
    aside: tuple[str, ...]


def staged(model: Model) -> Prediction | None:
    """As `stages.predict` of a model by the facts that are read at this moment; None where it does not load."""
    warnings = told("begin", lambda: _begun(model))
    if warnings is None:
        return None
    m = keys_as_c(model)
    vocab = told("vocabulary", lambda: _vocabulary(m))
    if vocab is None or stages.printed_beyond(vocab) >= 0:
        return None
    tensors = ("tensors", vocab.n_tokens, vocab.n_token_types)
    ask = _Ask(m, vocab.n_tokens, vocab.n_token_types)
    asked = told(tensors, ask, _counted)
    if asked is None or not told("mapped", lambda: _mapped(m)):
        return None
    said = told("hyperparameter warnings", lambda: _warnings(m))
    bare = Loaded(**{name: getattr(vocab, name) for name in _USED})
    of = (vocab.kind, vocab.n_tokens, vocab.n_token_types, vocab.add_bos, vocab.add_eos, vocab.newline, vocab.linefeed)
    after = told(("after", *of, *vocab.ids.items()), lambda: _after(m, bare, tensors, ask))
    if said is None or after is None:
        return None
    all_warnings = (*warnings, *said, *vocab.warnings, *asked.asked.warnings)
    return Prediction(
        WARNS if all_warnings else LOADS,
        stages.DONE,
        warnings=all_warnings,
        after_load=after[0],
        not_evaluated=tuple(vocab.not_evaluated),
        layers=after[1],
        tensors=len(asked.asked.stored) - len(asked.aside),
        left_aside=asked.aside,
    )


_USED = ("kind", "n_tokens", "n_token_types", "ids", "add_bos", "add_eos", "newline", "linefeed")


def _unless_it_ends(work: Callable[[], T]) -> T | None:
    try:
        return work()
    except (LoadEnds, Refusal, Abort, Unknown) as end:
        # The frames that it passed hold it, and the model: a circle.
        end.__traceback__ = end.__context__ = None
        return None


def _passes(work: Callable[[], None]) -> bool:
    def passed() -> bool:
        work()
        return True

    return _unless_it_ends(passed) is not None


def _begun(model: Model) -> tuple[str, ...] | None:
    """Warnings of what comes before the hyperparameters."""
    state = Run(model)
    return tuple(state.warnings) if _passes(lambda: stages.begin(state)) else None


def _numbers(m: Model) -> tuple[Mapping[str, Any], tuple[_Here, list[str]]] | None:
    h, *rest = stages.numbers_and_end(m)
    if not isinstance(h, dict):
        return None
    names, slots, procs, rounds, layer, warnings = rest
    return h, (_Here(_own_names(names), slots, procs, rounds, layer), warnings)  # type: ignore[arg-type, return-value]


def _own_names(names: Any) -> dict[str, Any]:
    """Without functions, and without the hyperparameters, which are handed on apart."""
    return {name: value for name, value in names.items() if name != "hparams" and not name.endswith("()")}


def _warnings(m: Model) -> list[str] | None:
    found = taken("hyperparameters and where", lambda: _numbers(m))
    return None if found is None else found[1][1]


def _resumed(m: Model, h: Taken, here: _Here) -> Machine:
    """An evaluator that has come so far."""
    machine = machine_of(stages.reader_of(m), h)
    machine.names |= here.names
    machine.slots, machine.procs = set(here.slots), dict(here.procs)
    machine.rounds, machine.layer = here.rounds, here.layer
    machine.stored = stages.shapes(m.parts)
    return machine


def _vocabulary(m: Model) -> Loaded | None:
    return _unless_it_ends(lambda: load_vocab(stages.reader_of(m), vocabulary(m)))


class _Ask:
    """The tensor stage, for so many tokens."""

    def __init__(self, m: Model, n_tokens: int, n_token_types: int) -> None:
        self._model, self._sizes = m, (n_tokens, n_token_types)

    def __call__(self) -> _Tensors | None:
        found = taken("hyperparameters and where", lambda m=self._model: _numbers(m))  # type: ignore[misc]
        return None if found is None else _unless_it_ends(lambda: self._run(found[0], found[1][0]))

    def _run(self, h: Taken, here: _Here) -> _Tensors:
        m = self._model
        state = Run(m)
        machine = state.machine = _resumed(m, h, here)
        try:
            asking = program(m.architecture.partition("\0")[0], "tensors")
            asked = state.asked = Asked(stages.stored_tensors(m))
            machine.names |= local_names(machine, *self._sizes)
            run(machine, asking, asked)
            reached = _Here(_own_names(machine.names), machine.slots, machine.procs, machine.rounds, machine.layer)
            return _Tensors(asked, h.written(), reached, state.left_aside())
        finally:
            state.close()


def _counted(found: _Tensors | None) -> Any:
    """What the load says of its tensors."""
    return None if found is None else (found.asked.warnings, found.aside, len(found.asked.stored))


def _seen(found: _Tensors | None) -> Any:
    """What the checks after the load see of the tensor stage: formulas, and most of what is not there, they do not."""
    if found is None:
        return None
    stored, wanted = found.asked.stored, found.asked.wanted.values()
    there = [(w.name, w.pattern, w.op, w.used, w.slot) for w in wanted if w.name in stored]
    apart = [w.name for w in wanted if w.name not in stored and w.name.endswith(APART)]
    return found.asked.slots, there, apart, found.written, found.here


def _after(m: Model, vocab: Loaded, tensors: Any, ask: _Ask) -> tuple[AfterLoad, int | None] | None:
    """What follows the load, and the number of layers."""
    found, left = taken("hyperparameters and where", lambda: _numbers(m)), told(tensors, ask, _seen)
    if found is None or left is None:
        return None
    h = found[0]
    h.update(left.written)
    state = Run(m, vocab=vocab, asked=left.asked)
    state.machine = _resumed(m, h, left.here)
    stored = left.asked.stored
    state.machine.stored = lambda name: padded(stored[name].shape) if name in stored else None
    try:
        return after_load(state), state.layers()
    finally:
        state.close()


def _mapped(m: Model) -> bool:
    return _passes(lambda: stages.mapped(Run(m)))
