"""What a file that was just made is judged by, before it gets its name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gguftool.brief import short_repr
from gguftool.facts import llama_cpp
from gguftool.model import Model, open_model
from gguftool.predict import judge, predict
from gguftool.predict.verdict import UNKNOWN
from gguftool.quantity import human
from gguftool.verify import deep
from gguftool.verify.modelcheck import check
from gguftool.verify.result import Fault
from gguftool.verify.stream import Progress

OK, NOTED, FAULT, UNJUDGED = "ok", "noted", "fault", "unjudged"
WITHOUT_NAME = ("missing-shards", "wrong-name")
"""Faults of a set that its final names mend."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: ``data``, ``counts``, ``load``, ``lint``, ``tokenizer``, ``template`` or ``known``.
        verdict: ``ok``; ``noted``: nothing that makes it wrong; ``fault``; ``unjudged``: ``said`` tells why.
        said: one line.
        faults: what is wrong.
        notes: what is worth knowing.
        file: the file, where several were made.
    """

    name: str
    verdict: str
    said: str
    faults: tuple[Fault, ...] = ()
    notes: tuple[Fault, ...] = ()
    file: str = ""

    __repr__ = short_repr

    @property
    def ok(self) -> bool:
        """False when it found a fault."""
        return self.verdict != FAULT


def looked(name: str, said: str, faults: Iterable[Fault] = (), notes: Iterable[Fault] = ()) -> Check:
    """A check that was made; faults and notes say how it went."""
    wrong, worth = tuple(faults), tuple(notes)
    return Check(name, FAULT if wrong else NOTED if worth else OK, said, wrong, worth)


def unjudged(name: str, why: str) -> Check:
    """A check that could not be made."""
    return Check(name, UNJUDGED, why)


def sound(checks: Iterable[Check]) -> bool:
    """Whether none of them found a fault."""
    return all(check.ok for check in checks)


def data(path: str, progress: Progress | None = None) -> Check:
    """Size, structure and all tensor data of a model: read once.

    Args:
        path: its first file.
        progress: called with the bytes done, from several threads.
    """
    (result,) = deep.with_data([check(path)], progress=progress)
    faults = [fault for report in result.files for fault in report.faults]
    faults += [Fault("not-readable", str(r.error)) for r in result.files if r.error is not None]
    faults += list(result.set.faults) if result.set is not None else []
    notes = [note for report in result.files for note in report.notes]
    size, tensors = sum(report.size for report in result.files), sum(report.tensors for report in result.files)
    said = f"{tensors:,} tensors, {human(size)}"
    if faults:
        more = f" (and {len(faults) - 1:,} more)" if faults[1:] else ""
        return looked("data", f"{faults[0].message}{more}", faults, notes)
    return looked("data", f"whole, every number finite: {said}", (), notes)


def no_worse(source: Model, made: str) -> Check:
    """Whether llama.cpp does with a file that was made what it does with its source.

    Args:
        source: the model it was made of.
        made: the new file.
    """
    before = predict(source)
    with open_model(made, strict=False) as model:
        after = predict(model)
    worse = judge(before, after)
    who = llama_cpp(after.build)
    if worse is not None:
        return looked("load", str(worse), [Fault("load-worse", str(worse), worse.where)])
    if after.verdict == UNKNOWN:
        return unjudged("load", "; ".join(after.not_evaluated) or "the header does not tell whether llama.cpp loads it")
    if not after.loads:
        return unjudged("load", f"{who} takes neither it nor its source: {after.reason}")
    return looked("load", f"{who}: {after.verdict}", (), [Fault("load-warning", text) for text in after.warnings[:3]])


def faults_of(checks: Sequence[Check]) -> list[Fault]:
    """All faults, in order."""
    return [fault for check in checks for fault in check.faults]
