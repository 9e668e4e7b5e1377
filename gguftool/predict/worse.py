"""Whether a change to a file makes it worse for llama.cpp: one judgement for every edit and every fix."""

from __future__ import annotations

from gguftool.brief import short_repr
from gguftool.facts import llama_cpp
from gguftool.model import Model
from gguftool.model.role import role
from gguftool.predict.disagree import ASIDE, fault_of
from gguftool.predict.idle import all_the_same, changed_keys
from gguftool.predict.shown import shown_by
from gguftool.predict.stages import OTHERS, predict, screen
from gguftool.predict.verdict import ABORTS, REFUSED, UNKNOWN, AfterLoad, Prediction
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class Harm:
    """What a change would break.

    Attributes:
        message: what gets worse, as a sentence.
        line: the line that llama.cpp would print, or "" when it prints none.
        where: ``field:KEY``, ``tensor:NAME`` or ``file``: what it follows from.
    """

    message: str
    line: str = ""
    where: str = "file"

    __repr__ = short_repr

    def __str__(self) -> str:
        return f"{self.message}: {self.line}" if self.line else self.message


_LOADS_NOT = {REFUSED: "would refuse it after this change", ABORTS: "would abort on it after this change"}
_VERB = {"aborts": "abort at", "hangs": "hang at"}
_STAGE = {"context": "the context", "decode": "the first tokens"}


def harm(old: Model, new: Model) -> Harm | None:
    """What a change breaks; None when nothing, or when it cannot be known.

    Args:
        old: the model as it is, opened with ``strict=False``.
        new: the model as it would be (`gguftool.model.with_header`).
    """
    if all_the_same(old.header, new.header):
        return None
    own = role(old)
    if own in OTHERS:
        return judge(predict(old, given_as=own), predict(new, given_as=own))
    changed = changed_keys(old.header, new.header)
    if not any(key.startswith("tokenizer.") or key == "general.architecture" for key in changed):
        # The vocabulary, the longest stage by far, ends both alike: without it the rest is compared first.
        before = screen(old)
        if before is not None and (not before.loads or judge(before, screen(new) or before) is None):
            return None
    before = predict(old)
    return judge(before, predict(new)) if before.loads else None


_ORDER = ("file", "architecture", "splits", "hyperparameters", "vocabulary", "tensors", "data", "done")


def setback(old: Model, new: Model) -> Harm | None:
    """What a change makes worse of a file that does not load as it is; None when nothing, or when it loads.

    The file may go on not loading, but may not stop at an earlier stage or tensor, or load and leave tensors aside that
    belong to the model. Of a file beside a model its loader's verdict is all there is.

    Args:
        old: the model as it is, opened with ``strict=False``.
        new: the model as it would be (`gguftool.model.with_header`).
    """
    if all_the_same(old.header, new.header) or role(old) in OTHERS:
        return None
    before = predict(old)
    if before.loads or before.verdict == UNKNOWN:
        return None
    after = predict(new)
    if after.loads:
        odd = fault_of(new, shown_by(new))[0] if after.left_aside else None
        if odd is None or odd.rank[0] != ASIDE:
            return None
        return Harm("it would load, and leave a part of the model out", odd.text, odd.place)
    if after.verdict == UNKNOWN or _ORDER.index(after.stage) > _ORDER.index(before.stage):
        return None
    if after.stage == before.stage:
        was, now = fault_of(old, shown_by(old))[0], fault_of(new, shown_by(new))[0]
        if was is None or now is None or now.rank >= was.rank:
            return None
    return Harm(f"{llama_cpp()} would stop even earlier after this change", after.first_error, after.where)


def judge(before: Prediction, after: Prediction) -> Harm | None:
    """What stands between two predictions; None when the second is no worse, or when it cannot be known.

    Args:
        before: of the file as it is.
        after: of the file as it would be.
    """
    who = f"{llama_cpp()} loads this file, and "
    if not before.loads:
        return None
    if after.verdict in _LOADS_NOT or after.skipped:
        what = _LOADS_NOT.get(after.verdict, "would run without it after this change")
        return Harm(who + what, after.first_error, after.where)
    if not after.loads:
        return None
    was, now = _reached(before.after_load), _reached(after.after_load)
    end = after.after_load
    if was is not None and now is not None and now < was and end is not None:
        verb = f"{_VERB.get(end.outcome, 'fail at')} {_STAGE.get(end.stage, end.stage)}"
        return Harm(f"{who}would {verb} after this change", end.message, end.where or "file")
    for what, had, has in (("layers", before.layers, after.layers), ("tensors", before.tensors, after.tensors)):
        if had is not None and has is not None and has < had:
            aside = next((name for name in after.left_aside if name not in before.left_aside), "")
            message = f"{llama_cpp()} uses {had:,} {what} of this file, and would use {has:,} after this change"
            return Harm(message, f"{aside} is left aside" if aside else "", f"tensor:{aside}" if aside else "file")
    return None


def _reached(end: AfterLoad | None) -> int | None:
    """How far a loaded model gets: 0 not to a context, 1 not past the first tokens, 2 it runs; None: not known."""
    if end is None or end.outcome == "unknown":
        return None
    return 2 if end.outcome == "ok" else 0 if end.stage == "context" else 1
