"""The stages in llama.cpp's order, and what they make of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from gguftool.errors import FormatError
from gguftool.facts import NUMBER
from gguftool.facts.arch import is_known
from gguftool.facts.machine.ends import Abort, Refusal, Unknown
from gguftool.facts.machine.program import Machine, Row
from gguftool.facts.machine.reader import Reader, where
from gguftool.facts.machine.rows import common, has_program, machine_of, program
from gguftool.facts.marks import bears, told
from gguftool.format.header import TensorInfo
from gguftool.format.types import ARR, BOOL
from gguftool.model import Model, Part, from_source
from gguftool.model.role import role
from gguftool.model.vocab import TOKENS, vocabulary
from gguftool.predict.after import after_load
from gguftool.predict.file import check_bounds, check_file, keys_as_c
from gguftool.predict.state import Run
from gguftool.predict.tensors import Asked, local_names, padded, run
from gguftool.predict.types import unknown_type
from gguftool.predict.verdict import ABORTS, LOAD_ERROR, LOADS, REFUSED, UNKNOWN, WARNS, LoadEnds, Prediction
from gguftool.predict.vocab import Loaded, load_vocab
from gguftool.records import replace
from gguftool.source import Memory, Source

_WRAP = {
    "hyperparameters": "error loading model hyperparameters: ",
    "vocabulary": "error loading model vocabulary: ",
}
_PRINTED = ("bos", "eos", "eot", "eom", "unk", "sep", "pad", "mask")
"""Special tokens in the order in which their texts are printed."""
DONE = "done"
"""The stage of a model that is loaded."""
TENSOR_ALIGNMENT = 32
"""The CPU backend wants buffers at multiples of this (`ggml-backend-impl.h`)."""


OTHERS: dict[str, str] = {
    "adapter": "adapter",
    "control-vector": "steering",
    "imatrix": "imatrix",
    "mmproj": "projector",
}
"""Role of a file that is no model -> module of this room whose ``predict(model)`` says how it is loaded, and whose
``unread(end, path, source)`` says it of bytes that are no GGUF."""


def predict(
    what: Model | Source | bytes,
    build: int | None = None,
    given_as: str | None = None,
    keep: Callable[[Run], None] | None = None,
) -> Prediction:
    """What a build of llama.cpp does with a model, told from its header and size alone.

    Args:
        what: a model, opened with ``strict=False`` so that faults are seen rather than raised; or a source or bytes,
            which may not even be GGUF. A header that is yet to be written: `gguftool.model.with_header`.
        build: number of the build of llama.cpp; None: the newest that is known.
        given_as: the role it is used in, a key of `gguftool.model.role.ROLES`; its own when None. A projector that is
            given as ``model`` is refused.
        keep: gets the run of a model that loads by the newest build, and closes it.

    Of a build whose rows are not stored those of a build near it are run (`byname.edition`); `Prediction.build` says
    which. Where all that are stored are newer, nothing but names is compared (`build` is None). Of a file beside a
    model names are compared with the timeline, and the checks of the newest build are run (`sided`).
    """
    if not isinstance(what, Model):
        source = Memory(what) if isinstance(what, bytes) else what
        try:
            what = from_source(source, strict=False)
        except FormatError:
            return _by(_near(build), lambda: _of_other_bytes(source, given_as))
    model = what
    own = given_as or role(model)
    return for_build(model, build, own, lambda: as_role(model, own, keep))


def for_build(model: Model, build: int | None, own: str, predicted: Callable[[], Prediction]) -> Prediction:
    """What a build does with a file that is used as ``own``; ``predicted`` says it by the facts that are read."""
    if build is None or build >= NUMBER:
        return predicted()
    # What is known of older builds is loaded where one is asked about.
    from gguftool.facts.editions import builds
    from gguftool.predict.byname import by_names, edition

    if own in OTHERS:
        from gguftool.predict.sided import side

        return side(model, own, build, predicted)
    stored, why = edition(model, build, builds())
    if why:
        return Prediction(UNKNOWN, "file", not_evaluated=(why,), build=None)
    return by_names(model, build) if stored is None else _by(stored, predicted)


def _near(build: int | None) -> int | None:
    """The build whose rows speak for one of which not even the names are known; None: the newest."""
    if build is None or build >= NUMBER:
        return None
    from gguftool.facts.editions import builds, nearest

    return nearest(build) or builds()[-1]


def _by(stored: int | None, predicted: Callable[[], Prediction]) -> Prediction:
    """What comes of it with the rows of a build; None: the newest."""
    if stored is None:
        return predicted()
    from gguftool.facts.editions import reading

    with reading(stored):
        return replace(predicted(), build=stored)


def as_role(model: Model, own: str, keep: Callable[[Run], None] | None = None) -> Prediction:
    """What is done with a file that is used as ``own``, by the facts that are read."""
    module = OTHERS.get(own)
    if module is None:
        return _of_model(model, keep=keep)
    found: Prediction = import_module(f"gguftool.predict.{module}").predict(model)
    return found


def _of_other_bytes(source: Source, given_as: str | None) -> Prediction:
    """Bytes that are no GGUF."""
    from gguftool.predict.walk import walk

    try:
        walk(source, source.name)
    except LoadEnds as end:
        if given_as in OTHERS:
            other: Prediction = import_module(f"gguftool.predict.{OTHERS[given_as]}").unread(end, source.name, source)
            return other
        return Prediction(end.verdict, "file", end.messages, (), end.where)
    return Prediction(UNKNOWN, "file", not_evaluated=("not readable as GGUF here",))


def screen(model: Model) -> Prediction | None:
    """As `predict`, but taking the vocabulary for granted; None where the number of tokens does not stand at once.

    For comparing two headers with the same vocabulary.
    """
    n, types = vocabulary(model).count, model.get("tokenizer.ggml.token_type_count")
    return None if n is None else _of_model(model, Loaded("", n, types if isinstance(types, int) else 0))


def _of_model(model: Model, granted: Loaded | None = None, keep: Callable[[Run], None] | None = None) -> Prediction:
    state = Run(model)
    try:
        found = _loaded(state, granted)
        if keep is not None and found.stage == DONE:
            keep(state)
            state = Run(model)
        return found
    finally:
        state.close()


def _loaded(state: Run, granted: Loaded | None) -> Prediction:
    try:
        run_stages(state, granted)
    except (LoadEnds, Refusal, Abort, Unknown) as end:
        return how(state, end)
    aside = state.left_aside()
    return Prediction(
        WARNS if state.warnings else LOADS,
        DONE,
        warnings=tuple(state.warnings),
        after_load=after_load(state),
        not_evaluated=tuple(state.not_evaluated),
        layers=state.layers(),
        tensors=len(state.asked.stored) - len(aside) if state.asked is not None else None,
        left_aside=aside,
    )


def how(state: Run, end: LoadEnds | Refusal | Abort | Unknown) -> Prediction:
    """What an end that came before the model was loaded says."""
    # The frames that it passed hold it, and the model: a circle.
    end.__traceback__ = end.__context__ = None
    if isinstance(end, LoadEnds):
        if end.verdict == UNKNOWN:
            return _unknown(state, end.messages[0], end.where)
        return _ended(state, end.verdict, end.messages, end.where, end.data)
    if isinstance(end, Refusal):
        line = LOAD_ERROR + _WRAP.get(state.stage, "") + end.text
        return _ended(state, REFUSED, (line.rstrip("\n"),), end.where, end.data)
    if isinstance(end, Abort):
        return _ended(state, ABORTS, (end.text,), end.where, end.data)
    return _unknown(state, end.why, end.where)


def _ended(state: Run, verdict: str, lines: tuple[str, ...], where: str, data: Any) -> Prediction:
    warnings = state.warnings + (state.asked.warnings if state.asked and state.stage == "tensors" else [])
    return Prediction(verdict, state.stage, lines, tuple(warnings), where, None, tuple(state.not_evaluated), data)


def _unknown(state: Run, why: str, where: str) -> Prediction:
    not_evaluated = (*state.not_evaluated, why)
    return Prediction(UNKNOWN, state.stage, (), tuple(state.warnings), where, None, not_evaluated)


def run_stages(state: Run, granted: Loaded | None = None) -> None:
    """All stages up to the mapping of the data; a vocabulary that is ``granted`` is not looked at.

    Raises:
        LoadEnds, Refusal, Abort, Unknown: how it ends; ``state.stage`` says where.
    """
    begin(state)
    machine = read_numbers(state)
    m = state.model
    asking = program(m.architecture.partition("\0")[0], "tensors")
    state.stage = "vocabulary"
    vocab = state.vocab = granted or load_vocab(machine.reader, vocabulary(m))
    state.warnings += vocab.warnings
    state.not_evaluated += vocab.not_evaluated
    ask(state, machine, vocab, asking)
    mapped(state)


def begin(state: Run) -> None:
    """What comes before the hyperparameters; raises as `run_stages`."""
    _read_file(state.model)
    m = state.model = keys_as_c(state.model)
    state.stage = "architecture"
    reader = reader_of(m)
    state.stage = "data"
    check_bounds(m.parts[0])
    state.stage = "splits"
    _named_twice(m)
    if (count := reader.scalar("=split.count", "u16") or 0) > 1:
        from gguftool.predict.splits import check_splits

        check_splits(m, reader, count)
    state.warnings += unknown_type(m)
    state.stage = "architecture"
    reader.scalar("=general.file_type", "u32")


def _read_file(m: Model) -> None:
    """What the reader of GGUF says to the first file; raises as `check_file`."""

    def end() -> tuple[Any, ...] | None:
        try:
            check_file(m.parts[0])
        except LoadEnds as end:
            return end.messages, end.verdict, end.where, end.data
        return None

    found = told("file", end)
    if found is not None:
        messages, verdict, where, data = found
        raise LoadEnds(messages, verdict=verdict, where=where, **data)


def _named_twice(m: Model) -> None:
    """Names of tensors that are equal once C has cut them at a NUL; all others the reader of the file has compared."""
    names = [t.name for t in m.parts[0].header.tensors]
    if any("\0" in name for name in names):
        seen: set[str] = set()
        for name in (whole.partition("\0")[0] for whole in names):
            if name in seen:
                raise Refusal(f"invalid model: tensor '{name}' is duplicated", f"tensor:{name}")
            seen.add(name)


def reader_of(m: Model) -> Reader:
    """Keys under the file's architecture; llama.cpp calls one it does not know "(unknown)"."""
    name = Reader(m.fields, "").scalar("=general.architecture", "str") or ""
    return Reader(m.fields, name if is_known(name) else "(unknown)")


def hyperparameters(state: Run) -> tuple[Machine, list[Row]]:
    """The hyperparameter stage.

    Returns:
        the evaluator with the hyperparameters, and the rows that ask for the tensors.

    Raises:
        Refusal, Abort, Unknown: how it ends.
    """
    return read_numbers(state), program(state.model.architecture.partition("\0")[0], "tensors")


def read_numbers(state: Run) -> Machine:
    """As `hyperparameters`, the evaluator alone."""
    reader = reader_of(state.model)
    name = state.model.architecture.partition("\0")[0]
    if reader.arch == "(unknown)":
        wrap = "" if bears("bare-architecture") else "error loading model architecture: "
        raise Refusal(f"{wrap}unknown model architecture: '{name}'", "field:general.architecture")
    known = name == "clip" or has_program(name)
    if not known and bears("bare-architecture"):
        raise Refusal(f"unsupported model architecture: '{name}'", "field:general.architecture")
    state.stage = "hyperparameters"
    h = common(reader)
    if not known:
        raise Refusal("unsupported model architecture", "field:general.architecture")
    if name == "clip":
        state.stage = "architecture"
        text = "CLIP cannot be used as main model, use it with --mmproj instead"
        raise Refusal(text, "field:general.architecture")
    machine = state.machine = machine_of(reader, h)
    # Two architectures ask for tensors already here: whether their extra layers are in the file.
    machine.stored = shapes(state.model.parts)
    machine.run(program(name, "hparams"))
    state.warnings += machine.warnings
    return machine


def numbers(model: Model) -> dict[str, Any] | None:
    """What llama.cpp would compute with, by its own names; None when the keys do not get it so far."""
    state = Run(model)
    try:
        return dict(hyperparameters(state)[0].h)
    except (Refusal, Abort, Unknown) as end:
        end.__traceback__ = end.__context__ = None
        return None
    finally:
        state.close()


def shapes(parts: Sequence[Part]) -> Callable[[str], tuple[int, ...] | None]:
    """The padded shape of a stored tensor by name; does not hold the model, which an evaluator's circles must not."""
    infos: dict[str, TensorInfo] = {}

    def shape(name: str) -> tuple[int, ...] | None:
        if not infos:
            infos.update((t.name.partition("\0")[0], t) for part in parts for t in part.header.tensors)
        found = infos.get(name)
        return padded(found.shape) if found is not None else None

    return shape


def stored_tensors(m: Model) -> dict[str, TensorInfo]:
    """Tensors of all shards by name, which C cuts at a NUL; gathered once."""
    found: dict[str, TensorInfo] | None = m.kept.get("stored tensors")
    if found is None:
        found = {t.name.partition("\0")[0]: t for part in m.parts for t in part.header.tensors}
        m.kept["stored tensors"] = found
    return found


def printed_beyond(vocab: Loaded) -> int:
    """The first token that is printed and is not in the vocabulary; -1 for none."""
    printed = (*(vocab.ids.get(role, -1) for role in _PRINTED), vocab.linefeed)
    return next((i for i in printed if i >= vocab.n_tokens), -1) if vocab.kind != "none" else -1


def ask(state: Run, machine: Machine, vocab: Loaded, asking: list[Row]) -> Asked:
    """The tensor stage; raises as `run_stages`."""
    state.stage = "tensors"
    size, n = vocab.n_tokens, printed_beyond(vocab)
    if n >= 0:
        if not bears("ids-at"):
            raise Abort("a token beyond the vocabulary is printed", where(TOKENS))
        raise Refusal(f"vector::_M_range_check: __n (which is {n}) >= this->size() (which is {size})", where(TOKENS))
    asked = state.asked = Asked(stored_tensors(state.model))
    machine.names |= local_names(machine, vocab.n_tokens, vocab.n_token_types)
    run(machine, asking, asked)
    state.warnings += asked.warnings
    return asked


def mapped(state: Run) -> None:
    """What stands between the tensors and a loaded model: precision policy, alignment of the mapped data.

    Raises:
        Refusal, Abort: how it ends.
    """
    state.stage = "data"
    m = state.model
    reader = Reader(m.fields, m.architecture)
    names = reader.array("=general.tensor_extra.name", "str", 0, required=False)
    if names is not None:
        key = "general.tensor_extra.prec_a4"
        f = m.fields.get(key)
        if f is None or f.type != ARR or f.element_type != BOOL:
            raise Refusal(f"{key} must be a bool array", f"field:{key}")
        if f.count != len(names):
            text = f"{key} tensor/value length mismatch ({len(names)} vs {f.count})"
            raise Refusal(text, f"field:{key}")
    for part in m.parts:
        if part.header.tensors and part.header.data_offset % TENSOR_ALIGNMENT:
            words = '(uintptr_t)ptr % TENSOR_ALIGNMENT == 0 && "buffer pointer must be aligned"'
            raise Abort(f"GGML_ASSERT({words}) failed", "field:general.alignment")
