"""All that is wrong with a model's tensors at once, where `predict` stops at the first fault as llama.cpp does."""

from __future__ import annotations

from gguftool.facts.machine.ends import Abort, Refusal, Unknown
from gguftool.facts.machine.program import Machine
from gguftool.format.header import TensorInfo
from gguftool.model import Model
from gguftool.model.vocab import vocabulary
from gguftool.predict.stages import hyperparameters, stored_tensors
from gguftool.predict.state import Run
from gguftool.predict.tensors import Asked, Wanted, local_names, run
from gguftool.predict.vocab import Loaded, load_vocab
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class Survey:
    """What an architecture asks for against what the file has.

    Attributes:
        wanted: every tensor asked for, by name, in llama.cpp's order.
        stored: tensors of the file by name.
        missing: required tensors that are not there.
        misshaped: tensors of another shape than asked for.
        extra: tensors nobody asks for, in file order.
        ignored: tensors llama.cpp knows and leaves aside.
        machine: evaluator with the hyperparameters.
        problem: why the comparison is not complete, "" when it is.
    """

    wanted: dict[str, Wanted]
    stored: dict[str, TensorInfo]
    missing: tuple[str, ...]
    misshaped: tuple[str, ...]
    extra: tuple[str, ...]
    ignored: tuple[str, ...]
    machine: Machine | None
    problem: str = ""


def survey(model: Model) -> Survey:
    """Compare all tensors; stages before the tensors must pass, else ``problem`` says what stands in the way."""
    stored = stored_tensors(model)
    if model.missing_shards:
        return Survey({}, stored, (), (), (), (), None, "shards are missing")
    state = Run(model)
    try:
        machine, program = hyperparameters(state)
    except (Refusal, Abort, Unknown) as end:
        return Survey({}, stored, (), (), (), (), None, f"llama.cpp stops before the tensors: {end}")
    try:
        vocab = load_vocab(machine.reader, vocabulary(model))
    except (Refusal, Abort):
        # Its own rules speak of the vocabulary; here only its size matters.
        size = vocabulary(model).count
        if size is None:
            return Survey({}, stored, (), (), (), (), None, "there is no token list to compare the embedding with")
        types = model.get("tokenizer.ggml.token_type_count")
        vocab = Loaded("", size, types if isinstance(types, int) else 0)
    asked = Asked(stored, collect=True)
    machine.names |= local_names(machine, vocab.n_tokens, vocab.n_token_types)
    problem = ""
    try:
        run(machine, program, asked)
    except (Refusal, Abort) as end:
        problem = end.text
    except Unknown as gap:
        problem = gap.why
    names = [f.where.removeprefix("tensor:") for f in asked.faults if isinstance(f, Refusal)]
    missing = tuple(dict.fromkeys(n for n in names if n in asked.wanted and n not in stored))
    misshaped = tuple(dict.fromkeys(n for n in names if n in asked.wanted and n in stored))
    return _surveyed(asked, machine, missing, misshaped, problem)


def of_run(state: Run) -> Survey | None:
    """The survey of a model that was loaded: everything that was asked for is there."""
    if state.asked is None or state.machine is None:
        return None
    return _surveyed(state.asked, state.machine, (), (), "")


def _surveyed(
    asked: Asked, machine: Machine, missing: tuple[str, ...], misshaped: tuple[str, ...], problem: str
) -> Survey:
    stored = dict(asked.stored)
    extra = () if problem else tuple(n for n in stored if n not in asked.wanted)
    ignored = tuple(n for n, w in asked.wanted.items() if n in stored and not w.used)
    return Survey(asked.wanted, stored, missing, misshaped, extra, ignored, machine, problem)
