"""Whether a file fits beside a model: a projector, an adapter, a control vector, a draft model, an importance matrix.

One question, `misfits`, asked by every command that has two files in hand. What is asked of a file of one role stands
in the module of that role; each of them has ``misfits(model, side)``. Only headers are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from gguftool.errors import UsageError
from gguftool.facts import llama_cpp
from gguftool.model import Model
from gguftool.model.role import ROLES, role, way_on, what_it_is
from gguftool.near import near_names
from gguftool.predict.pairs.misfit import ABORTS, DOUBT, HARM, IGNORED, OUTCOMES, REFUSED, Check, Misfit
from gguftool.predict.stages import OTHERS, predict
from gguftool.regex import regex

__all__ = [
    "ABORTS",
    "BESIDE",
    "DOUBT",
    "HARM",
    "IGNORED",
    "OUTCOMES",
    "REFUSED",
    "Misfit",
    "misfits",
    "used_as",
    "wrong_role",
]

BESIDE: dict[str, tuple[str, str]] = {
    "mmproj": ("mmproj", "--mmproj"),
    "adapter": ("adapter", "--lora"),
    "control-vector": ("control", "--control-vector"),
    "draft": ("draft", "--model-draft"),
    "imatrix": ("imatrix", "--imatrix"),
}
"""Role of a file beside a model -> module of this room, and the option that takes it."""
_AS_DRAFT = ("model", "encoder", "draft")
"""Roles of files that can be loaded as a draft model."""


def used_as(side: Model) -> str:
    """As what a file would stand beside a model: a key of `BESIDE`, "" when as nothing.

    A model beside a model is its draft.
    """
    own = role(side)
    return "draft" if own in _AS_DRAFT else own if own in BESIDE else ""


def misfits(model: Model, side: Model, given_as: str | None = None, build: int | None = None) -> tuple[Misfit, ...]:
    """Why a file does not go with a model, the worst first; of one that does not load at all, this alone.

    Args:
        model: the language model, opened with ``strict=False``.
        side: the file beside it, opened likewise.
        given_as: what it is given as, a key of `BESIDE`; as what it is when None (`used_as`).
        build: number of the build that loads the file alone; whether the two go together is the newest's word.

    Raises:
        UsageError: there is no such role beside a model.
    """
    as_ = given_as or used_as(side)
    if given_as is not None and given_as not in BESIDE:
        near = near_names(given_as, BESIDE, 1)
        raise UsageError(f"nothing is given to a model as {given_as!r}", f"did you mean {near[0]}?" if near else None)
    if (wrong := wrong_role(side, as_)) is not None:
        return (wrong,)
    found = list(_not_loaded(side, as_, build)) or list(_of(as_)(model, side))
    return tuple(sorted(found, key=lambda m: OUTCOMES.index(m.outcome)))


def _of(as_: str) -> Check:
    check: Check = import_module(f"gguftool.predict.pairs.{BESIDE[as_][0]}").misfits
    return check


def wrong_role(side: Model, as_: str) -> Misfit | None:
    """Why a file cannot be used as ``as_`` (a key of `BESIDE`, "" for nothing), by what it is; None when it can."""
    own = role(side)
    if as_ and (own == as_ or (as_ == "draft" and own in _AS_DRAFT)):
        return None
    what, hint = what_it_is(side), way_on(side)
    if not as_:
        text = f"{what[0].upper()}{what[1:]} is nothing that stands beside a model"
        return Misfit("pair-role", REFUSED, text, hint=hint, data={"role": own})
    wanted = "model to draft with" if as_ == "draft" else ROLES[as_].what.partition(" (")[0].partition(" ")[2]
    hint = hint or "give a model that is to run on its own first, as MODEL"
    outcome = IGNORED if as_ == "control-vector" else REFUSED
    given = predict(side, given_as=as_) if as_ in OTHERS else None
    said = () if given is None else given.messages or given.warnings
    text = f"it is no {wanted}: it is {what}"
    return Misfit("pair-role", outcome, text, said=said, hint=hint, data={"role": own, "given_as": as_})


def _not_loaded(side: Model, as_: str, build: int | None) -> Iterator[Misfit]:
    """What llama.cpp says of the file alone."""
    if as_ not in OTHERS and as_ != "draft":
        return
    load = predict(side, build, given_as=as_ if as_ in OTHERS else None)
    lines = load.messages or (load.warnings if load.skipped else ())
    if not lines and not load.ends:
        return
    outcome = IGNORED if load.skipped else load.verdict
    verb = {ABORTS: "aborts on it", IGNORED: "goes on without it"}.get(outcome, "does not load it")
    if lines:
        why = _PREFIX.sub("", lines[0])
    else:  # where the words of that age are not known, what it lacks is
        from gguftool.predict.needs import needs, sentence

        why = f"it {sentence(needs(side))}"
    who = "llama.cpp" if build is None else llama_cpp(build)
    yield Misfit("pair-load", outcome, f"{who} {verb}: {why}", said=lines, where=load.where, data=load.data)


_PREFIX = regex(
    r"^(?:clip_init: failed to load model '[^']*': (?:\w+: )?"
    r"|\w+: (?:error loading model: (?:error loading model \w+: )?|failed to apply lora adapter: ))"
)
"""What stands in front of a reason."""
