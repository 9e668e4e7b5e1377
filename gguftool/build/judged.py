"""What a file that was just made is judged by, before it gets its name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gguftool.brief import short_repr
from gguftool.errors import ToolFailed
from gguftool.facts import llama_cpp
from gguftool.model import Model, open_model
from gguftool.model.headers import Headers
from gguftool.predict import judge as setback
from gguftool.predict import predict
from gguftool.predict.verdict import UNKNOWN
from gguftool.quantity import human
from gguftool.records import dataclass
from gguftool.verify.data import check_data, judge, told_stretches
from gguftool.verify.pages import Run
from gguftool.verify.result import Fault
from gguftool.verify.stream import Progress

OK, NOTED, FAULT, UNJUDGED = "ok", "noted", "fault", "unjudged"
NO_NUMBERS = ("not-finite", "bad-scale")
"""What no model computes with."""


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

    def as_data(self) -> dict[str, object]:
        """The same for JSON; ``ok`` is None where it could not be judged."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "ok": None if self.verdict == UNJUDGED else self.ok,
            "summary": self.said,
            "file": self.file or None,
            "faults": [_fault(f) for f in self.faults],
            "notes": [_fault(f) for f in self.notes],
        }


def _fault(fault: Fault) -> dict[str, object]:
    return {"kind": fault.kind, "message": fault.message, "where": fault.where, "hint": fault.hint}


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
    # Of a quantiser's result less is asked, and these are many.
    from gguftool.verify import deep
    from gguftool.verify.modelcheck import check

    known = Headers()
    (result,) = deep.with_data([check(path, (), known)], progress=progress, known=known)
    faults = [fault for report in result.files for fault in report.faults]
    faults += [Fault("not-readable", str(r.error)) for r in result.files if r.error is not None]
    faults += list(result.set.faults) if result.set is not None else []
    # What kind of file it is, is known here.
    notes = [note for report in result.files for note in report.notes if note.kind != "role"]
    size, tensors = sum(report.size for report in result.files), sum(report.tensors for report in result.files)
    said = f"{tensors:,} tensors, {human(size)}"
    if faults:
        more = f" (and {len(faults) - 1:,} more)" if faults[1:] else ""
        return looked("data", f"{faults[0].message}{more}", faults, notes)
    return looked("data", f"whole, every number finite: {said}", (), notes)


def quantised(
    source: Model,
    drafts: Sequence[str],
    names: Sequence[str],
    seen: Sequence[Sequence[Run]] | None = None,
    *,
    fewer: bool = False,
    known: Headers | None = None,
) -> tuple[Check, ...]:
    """What a quantiser has made, before it gets its names: all data, and the load against that of its source.

    Args:
        source: the model it was made of.
        drafts: the files that were made.
        names: what they will be called.
        seen: by file, what was seen in their data by our own quantiser, which reads back what it writes and stops at
            the first number that is none; None: another engine wrote it, and all of it is read now.
        fewer: layers were left out, as was asked for.
        known: headers that need not be read again.

    Raises:
        ToolFailed: numbers that are none, or llama.cpp does not load it any more.
    """
    pages = seen if seen is not None else [None] * len(drafts)
    rows = zip(drafts, names, pages, strict=True)
    found = [(name, fault) for draft, name, runs in rows for fault in _numbers(draft, known, runs)]
    bad = [(name, fault) for name, fault in found if fault.kind in NO_NUMBERS]
    if bad:
        name, fault = bad[0]
        more = f" (and {len(bad) - 1} more)" if bad[1:] else ""
        raise ToolFailed(
            f"{name}: the engine said success, but {fault.message}{more}",
            "its numbers do not fit into that type: name another for it with --tensor-type NAME=bf16",
        )
    checks = [looked("data", "every number of the result is finite", (), [fault for _, fault in found])]
    # Of a set the first file alone says nothing of the load.
    return (*checks, *([_no_worse(source, drafts[0], names[0], fewer, known)] if len(drafts) == 1 else []))


def _numbers(path: str, known: Headers | None, pages: Sequence[Run] | None) -> list[Fault]:
    with open_model(path, strict=False, whole_set=False, known=known) as model:
        part = model.parts[0]
        if pages is not None:
            return told_stretches(part.source, part.header, pages)
        return judge(check_data(part.source, part.header), part.source)[0]


def _no_worse(source: Model, made: str, name: str, fewer: bool, known: Headers | None) -> Check:
    before = predict(source)
    with open_model(made, strict=False, whole_set=False, known=known) as model:
        after = predict(model)
    worse = setback(before, after)
    if worse is not None and not (fewer and after.loads):
        raise ToolFailed(
            f"{name}: {str(worse).replace(made, name).replace('this change', 'quantising')}",
            "other types may load: --tensor-type NAME=TYPE",
        )
    if after.verdict == UNKNOWN:
        return unjudged("load", "; ".join(after.not_evaluated) or "the header does not tell whether llama.cpp loads it")
    if not after.loads:
        return unjudged("load", f"{llama_cpp(after.build)} takes neither it nor its source: {after.reason}")
    return looked("load", f"{llama_cpp(after.build)}: {after.verdict}")
