"""What many builds of llama.cpp do with one file: each stage of a load is run as often as what *it* is made of differs.

The stages are those of `stages.run_stages`; of each only that counts for the next which it looks at (`facts.watched`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from gguftool.facts.machine.ends import Abort, Refusal, Unknown
from gguftool.facts.machine.hparams import WINDOWED
from gguftool.facts.machine.program import Machine, Row
from gguftool.facts.machine.rows import machine_of, program
from gguftool.facts.watched import Answers, Latest, Taken
from gguftool.model import Model
from gguftool.model.role import role
from gguftool.model.vocab import vocabulary
from gguftool.predict import stages
from gguftool.predict.after import after_load
from gguftool.predict.context import APART
from gguftool.predict.file import keys_as_c
from gguftool.predict.idle_rows import Stored, without_idle
from gguftool.predict.state import Run
from gguftool.predict.tensors import Asked, local_names, padded
from gguftool.predict.verdict import LOADS, WARNS, AfterLoad, LoadEnds, Prediction
from gguftool.predict.vocab import Loaded, load_vocab
from gguftool.records import dataclass, replace

T = TypeVar("T")


def by_build(model: Model) -> Callable[[int], Prediction]:
    """As `stages.predict` for many builds; what builds agree in is worked out once.

    Args:
        model: opened with ``strict=False``.
    """
    own = role(model)
    if own in stages.OTHERS:
        answers = Answers(partial(stages.as_role, model, own))
        return lambda build: stages.for_build(model, build, own, answers)
    staged = _Staged(model)
    return lambda build: stages.for_build(model, build, own, staged)


@dataclass(slots=True)
class _Here:
    """How far an evaluator has come, without its hyperparameters."""

    names: dict[str, Any]
    slots: set[tuple[str, int]]
    procs: dict[str, Any]
    rounds: int
    layer: int


@dataclass(slots=True)
class _Numbers:
    """What the hyperparameter stage leaves."""

    h: dict[str, Any]
    here: _Here
    warnings: list[str]


class _Tensors:
    """What the tensor stage leaves; equal where the checks after the load see the same of it.

    They do not see formulas, nor most of what is not there.

    Attributes:
        asked: the tensors.
        aside: those that llama.cpp knows and does not use.
        written: hyperparameters that were given a value.
        here: the evaluator.
    """

    def __init__(self, asked: Asked, aside: tuple[str, ...], written: dict[str, Any], here: _Here) -> None:
        self.asked, self.aside, self.written, self.here = asked, aside, written, here
        wanted, stored = asked.wanted.values(), asked.stored
        there = [(w.name, w.pattern, w.op, w.used, w.slot) for w in wanted if w.name in stored]
        apart = [w.name for w in wanted if w.name not in stored and w.name.endswith(APART)]
        self._seen = (written, here, asked.slots, there, apart)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Tensors) and self._seen == other._seen)

    __hash__ = None  # type: ignore[assignment]


class _Staged:
    """One model, stage by stage."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._as_c: Model | None = None
        self._latest = Latest()
        self._begun = Answers(partial(_ended, _begun, model), self._latest)
        self._known: list[tuple[tuple[Any, ...], Prediction]] = []

    def __call__(self) -> Prediction:
        """As `stages.predict` by the facts that are read at this moment."""
        begun = self._begun()
        if isinstance(begun, Prediction):
            return begun
        if self._as_c is None:
            m = self._as_c = keys_as_c(self._model)
            self._numbers = Answers(partial(_ended, _numbers, m), self._latest)
            self._vocabulary = Answers(partial(_ended, _vocabulary, m), self._latest)
            self._rows = Answers(partial(_rows, m), self._latest)
            self._tensors = Answers(partial(_ended, _tensors, m), self._latest)
            self._mapped = Answers(partial(_ended, _mapped, m), self._latest)
            self._after = Answers(partial(_after, m), self._latest)
        numbers = self._numbers()
        if isinstance(numbers, Prediction):
            return _behind(numbers, begun)
        found = self._vocabulary()
        said = [*begun, *numbers.warnings]
        if isinstance(found, Prediction):
            return _behind(found, said)
        vocab, of, sized = found
        rows = self._rows(numbers.h, (numbers.here, sized))
        tensors = self._tensors(numbers.h, (numbers.here, sized, rows))
        if isinstance(tensors, Prediction):
            return _behind(tensors, [*said, *vocab.warnings], vocab.not_evaluated)
        mapped = self._mapped()
        if mapped is not None:
            return _behind(mapped, [*said, *vocab.warnings, *tensors.asked.warnings], vocab.not_evaluated)
        after, layers = self._after(numbers.h, (tensors, of))
        return self._loaded(said, vocab, tensors, after, layers)

    def _loaded(
        self, said: list[str], vocab: Loaded, tensors: _Tensors, after: AfterLoad, layers: int | None
    ) -> Prediction:
        """One of a kind where it says the same: lines may be many."""
        parts = (vocab, tensors.asked.warnings, tensors.aside, said, after, layers)
        found = next((made for of, made in self._known if of[0] is vocab and of[1:] == parts[1:]), None)
        if found is None:
            warnings = (*said, *vocab.warnings, *tensors.asked.warnings)
            found = Prediction(
                WARNS if warnings else LOADS,
                stages.DONE,
                warnings=warnings,
                after_load=after,
                not_evaluated=tuple(vocab.not_evaluated),
                layers=layers,
                tensors=len(tensors.asked.stored) - len(tensors.aside),
                left_aside=tensors.aside,
            )
            self._known.append((parts, found))
        return found


def _behind(end: Prediction, warnings: list[str], not_evaluated: list[str] | tuple[str, ...] = ()) -> Prediction:
    """The end of a stage, with what the stages before it said."""
    if not warnings and not not_evaluated:
        return end
    return replace(end, warnings=(*warnings, *end.warnings), not_evaluated=(*not_evaluated, *end.not_evaluated))


def _ended(stage: Callable[..., T], model: Model, *given: Any) -> T | Prediction:
    """What a stage leaves, or how it ends the load."""
    state = Run(model)
    try:
        return stage(state, *given)
    except (LoadEnds, Refusal, Abort, Unknown) as end:
        return stages.how(state, end)
    finally:
        state.close()


def _begun(state: Run) -> list[str]:
    stages.begin(state)
    return state.warnings


def _numbers(state: Run) -> _Numbers:
    state.stage = "architecture"
    machine = stages.read_numbers(state)
    for full, window in WINDOWED.items():
        machine.h.setdefault(window, machine.h.get(full, 0))
    return _Numbers(machine.h, _here(machine), machine.warnings)


def _here(machine: Machine) -> _Here:
    # Without functions, and without the hyperparameters, which are handed on apart.
    names = {name: value for name, value in machine.names.items() if name != "hparams" and not name.endswith("()")}
    return _Here(names, machine.slots, machine.procs, machine.rounds, machine.layer)


def _resumed(m: Model, h: Taken, here: _Here) -> Machine:
    """An evaluator that has come so far."""
    machine = machine_of(stages.reader_of(m), h)
    machine.names |= here.names
    machine.slots, machine.procs = set(here.slots), dict(here.procs)
    machine.rounds, machine.layer = here.rounds, here.layer
    return machine


def _vocabulary(state: Run) -> tuple[Loaded, Loaded, Loaded]:
    """All of it; without its lines, which may be many; and what the tensor stage sees of it."""
    state.stage = "vocabulary"
    vocab = load_vocab(stages.reader_of(state.model), vocabulary(state.model))
    of = replace(vocab, warnings=[], not_evaluated=[])
    # That is its size, unless a token is printed that is not there.
    sized = of if stages.printed_beyond(of) >= 0 else Loaded("none", of.n_tokens, of.n_token_types)
    return vocab, of, sized


def _rows(m: Model, h: Taken, left: tuple[_Here, Loaded]) -> list[Row]:
    """Rows of the tensor stage that do something for this file; all where it is not sure."""
    here, of = left
    rows = program(m.architecture.partition("\0")[0], "tensors")
    machine = _resumed(m, h, here)
    stored: Stored | None = m.kept.get("stored as rows name them")
    if stored is None:
        stored = m.kept["stored as rows name them"] = Stored(stages.stored_tensors(m))
    try:
        machine.names |= local_names(machine, of.n_tokens, of.n_token_types)
        return without_idle(rows, machine.names, stored)
    except (Refusal, Abort, Unknown) as end:
        end.__traceback__ = end.__context__ = None
        return rows
    finally:
        machine.names.clear()


def _tensors(state: Run, h: Taken, left: tuple[_Here, Loaded, list[Row]]) -> _Tensors:
    here, of, rows = left
    machine = state.machine = _resumed(state.model, h, here)
    asked = stages.ask(state, machine, of, rows)
    return _Tensors(asked, state.left_aside(), h.written(), _here(machine))


def _mapped(state: Run) -> None:
    stages.mapped(state)


def _after(m: Model, h: Taken, left: tuple[_Tensors, Loaded]) -> tuple[AfterLoad, int | None]:
    """What follows the load, and the number of layers."""
    tensors, of = left
    h.update(tensors.written)
    state = Run(m, vocab=of, asked=tensors.asked)
    state.machine = _resumed(m, h, tensors.here)
    stored = tensors.asked.stored
    state.machine.stored = lambda name: padded(stored[name].shape) if name in stored else None
    try:
        return after_load(state), state.layers()
    finally:
        state.close()
