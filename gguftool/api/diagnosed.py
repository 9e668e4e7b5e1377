"""Why does this model not do well? All checks at once, their causes ranked: ``gguftool diagnose``."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gguftool.api.known import known_text
from gguftool.api.plan import plan
from gguftool.brief import short_repr
from gguftool.errors import Bug, GgufToolError, UsageError
from gguftool.facts import llama_cpp as llama_cpp_of
from gguftool.hub import is_remote, named, opened
from gguftool.lint.call import lint
from gguftool.model import in_folder
from gguftool.model.role import only_runnable
from gguftool.programs import SERVER, find
from gguftool.quantity import human
from gguftool.records import dataclass, replace
from gguftool.run.devices import devices
from gguftool.run.known import BROKEN, KNOWS, Known
from gguftool.run.symptoms import Symptom, Usual, match, symptoms
from gguftool.run.target import at_hand
from gguftool.shell import gguftool, path_word
from gguftool.verify.deep import expectations, with_hashes
from gguftool.verify.modelcheck import check
from gguftool.verify.named import Asked, ask

if TYPE_CHECKING:
    from gguftool.lint.rule import Finding
    from gguftool.lint.run import Report
    from gguftool.model import Model
    from gguftool.run.devices import FoundDevice

P2P = "GGML_CUDA_P2P"
"""Peer copies between GPUs; llama.cpp asks whether it is set, not to what (`ggml-cuda.cu`, b11434)."""
CERTAIN, LIKELY, POSSIBLE = 100, 60, 20
BY_SEVERITY = {"error": 50, "warning": 30, "info": 8}
BY_PLACE = 40
MISFIT = 25
"""What a finding that does not go with the symptom loses."""


@dataclass(frozen=True, slots=True)
class Looked:
    """One check: what, what came of it, and whether that is well (None: it could not be made, or says nothing)."""

    what: str
    result: str
    ok: bool | None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause.

    Attributes:
        name: rule of lint, kind of fault, or name of the table.
        says: what it is.
        evidence: what shows it; "" where nothing here does: it is only common.
        next: words of the command behind ``gguftool``.
        weight: how likely, for the order.
        finding: of lint, with its fix.
        source: public reports.
    """

    name: str
    says: str
    evidence: str
    next: tuple[str, ...]
    weight: float
    finding: Finding | None = None
    source: str = ""

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """What `diagnose` found.

    Attributes:
        path: the model.
        symptom: what it was asked about; None: nothing particular.
        looked: the checks.
        causes: those that something shows, the likeliest first.
        common: causes of the symptom that no check here can show.
        bugs: rules of lint that failed themselves.
    """

    path: str
    symptom: Symptom | None
    looked: tuple[Looked, ...]
    causes: tuple[Cause, ...]
    common: tuple[Cause, ...]
    bugs: tuple[Bug, ...] = ()

    __repr__ = short_repr

    @property
    def ok(self) -> bool:
        """No cause was found."""
        return not self.causes


def named_symptom(text: str) -> Symptom:
    """The symptom that a text describes.

    Raises:
        UsageError: it is like none that is known.
    """
    found = match(text)
    if found is None:
        raise UsageError(f"no symptom is like {text!r}", "known: " + "; ".join(s.title for s in symptoms()))
    return found


def diagnose(
    model: Model | str | os.PathLike[str],
    symptom: str | None = None,
    *,
    run: bool = True,
    hashes: bool = True,
    llama_cpp: str | None = None,
) -> Diagnosed:
    """Look for the causes of what a model does: lint, integrity, memory, what it knows; ranked.

    Args:
        model: a path, an address, or a model opened with ``strict=False``.
        symptom: what it does, in one's own words; None: anything.
        run: also load it and ask what every language model knows, where a llama.cpp is at hand.
        hashes: also hash it, where something says what the hash must be.
        llama_cpp: folder or program of llama.cpp to use.

    Raises:
        UsageError: no symptom is like that.
        MissingFile, Unreadable, NotGguf: the file cannot be opened as GGUF at all.
    """
    s = named_symptom(symptom) if symptom else None
    path = named(model)
    with opened(in_folder(path) if isinstance(model, (str, os.PathLike)) else model, strict=False) as m:
        report = lint(m, data=run, build=at_hand(llama_cpp))
        looked, causes = _linted(report, s)
        more = [*_whole(m, hashes), *_memory(m, s)]
    stops = report.load is not None and report.load.ends
    seen = devices(find(SERVER, llama_cpp, may_lack=True)) if s else []
    known = None
    if not run:
        more.append((Looked("known text", "not looked at (--no-run)", None), None))
    elif stops:
        more.append((Looked("known text", "not asked: llama.cpp would not load it", None), None))
    else:
        known = known_text(model, llama_cpp=llama_cpp)
        more += _said(known)
    looked += [look for look, _ in more]
    causes += [cause for _, cause in more if cause is not None]
    causes += _surroundings(s, seen)
    if known is not None and known.verdict == BROKEN:
        causes = [replace(c, weight=c.weight + LIKELY) if _computes(c) else c for c in causes]
    causes.sort(key=lambda c: -c.weight)
    named_causes, common = tuple(_at(c, path) for c in causes), tuple(_common(s, path, len(seen)))
    return Diagnosed(path, s, tuple(looked), named_causes, common, report.bugs)


def usual(symptom: str) -> tuple[Symptom, tuple[Cause, ...]]:
    """What a symptom comes from, of no model in particular.

    Raises:
        UsageError: no symptom is like that.
    """
    s = named_symptom(symptom)
    return s, tuple(map(_usual, s.common))


def _usual(u: Usual) -> Cause:
    """A cause that the table names and nothing here shows."""
    return Cause(u.name, u.says, "", u.next, POSSIBLE, source=u.source)


def _at(c: Cause, path: str) -> Cause:
    return replace(c, next=tuple(path_word(path) if word == "MODEL" else word for word in c.next))


def _computes(c: Cause) -> bool:
    """Whether a cause is about what is computed: a broken text makes it likelier."""
    computing = ("data", "rope", "constants", "tensors", "tokenizer", "metadata")
    return c.finding is not None and c.finding.family in computing


def _linted(report: Report, s: Symptom | None) -> tuple[list[Looked], list[Cause]]:
    count = sum(f.changes_run for f in report)
    counts = f"{count or 'no'} finding{'' if count == 1 else 's'} that matter{'s' if count == 1 else ''} when it runs"
    if report.failed:
        counts += f"; {len(report.failed)} failed: {', '.join(s.rule for s in report.failed)} (a bug in gguftool)"
    fine = not any(f.changes_run and f.severity != "info" for f in report) and not report.failed
    out = [Looked("lint", counts, fine)]
    if report.load is not None:
        out.insert(
            0,
            Looked(
                llama_cpp_of(report.build),
                report.load.first_error or report.load.verdict,
                not report.load.ends,
            ),
        )
    causes: dict[str, Cause] = {}
    more: Counter[str] = Counter()
    for f in report:
        found = _finding(f, s)
        if found is not None and causes.setdefault(f.rule, found) is not found:
            more[f.rule] += 1
    for name, count in more.items():
        causes[name] = replace(causes[name], evidence=f"{causes[name].evidence}, and {count:,} more like it")
    return out, list(causes.values())


def _finding(f: Finding, s: Symptom | None) -> Cause | None:
    """A finding as a cause; one that does not go with the symptom only where it is grave."""
    if not f.changes_run:
        return None
    weight = float(BY_SEVERITY[str(f.severity)])
    place = s.place(f.rule, f.family) if s else None
    if s and place is not None:
        weight += BY_PLACE * (1 - place / len(s.rules))
    elif f.severity == "info":
        return None
    elif s:
        weight -= MISFIT
    return Cause(f.rule, f.message, f"lint: {f.severity} at {f.where}", ("rules", f.rule), weight, f)


def _whole(m: Model, hashes: bool) -> Iterator[tuple[Looked, Cause | None]]:
    """Size, truncation, shards; and the hash, where something says what it must be."""
    result, told, way = check(m), False, ("verify", "MODEL")
    why = "nothing beside the file, in a cache or in its keys says what it must be"
    if hashes and not is_remote(m.name):
        said = expectations(result.files)
        asked = Asked({}, ())
        if not any(said.values()):
            asked = ask(m, [report.path for report in result.files])
            said = {**said, **asked.said}
            if asked.why:
                why = f"{asked.why}: {gguftool('verify', path_word(m.name), '--against', asked.repositories[0])}"
        if told := any(said.values()):
            sources = {part.name: part.source for part in m.parts}
            [result], _ = with_hashes([result], said, sources=sources)
            way = (*way, *(("--against", asked.repositories[0]) if asked.said else ("--hash",)))
            why = next(x.source for statements in said.values() for x in statements)
    elif not hashes:
        why = "not looked at (--no-hash)"
    faults = [f for report in result.files for f in report.faults]
    if faults:
        f = faults[0]
        yield Looked("integrity", f.message, False), Cause(f.kind, f.message, f"verify: {f.where}", way, CERTAIN)
    else:
        yield Looked("integrity", "whole", True), None
    if not told:
        yield Looked("hash", f"not checked: {why}", None), None
    elif not faults:
        yield Looked("hash", f"as its source says ({why})", True), None


def _memory(m: Model, s: Symptom | None) -> Iterator[tuple[Looked, Cause | None]]:
    """Whether it fits here at the start, and later."""
    try:
        only_runnable(m)
        memory = plan(m).memory
    except GgufToolError as error:
        yield Looked("memory", f"not planned: {error}", None), None
        return
    short = [d for d in memory.devices if d.memory is not None and d.total + memory.grows(d.name) > d.memory]
    said = f"{human(memory.total)} at start, may grow by {human(memory.grows())}"
    if not short and memory.fits is not False:
        yield Looked("memory", said, True if memory.fits else None), None
        return
    names = ", ".join(f"{d.name} has {human(d.memory or 0)}" for d in short) or "there is less"
    about = s is not None and s.name in ("memory-later", "slow", "refuses")
    weight = LIKELY + BY_PLACE if about else POSSIBLE
    says = "it does not fit at the start" if memory.fits is False else "what grows in use does not fit"
    yield (
        Looked("memory", f"{said}; {names}", False),
        Cause("memory", says, f"{said}; {names}", ("plan", "MODEL"), weight),
    )


def _said(known: Known) -> Iterator[tuple[Looked, Cause | None]]:
    """What it knows, and whether a turn ends."""
    if known.verdict == BROKEN:
        says = "what it computes is wrong, whoever asks: weights, sizes, constants or tokens are not its own"
        cause = Cause("not-known", says, f"known text: {known.why}", ("verify", "MODEL", "--data"), LIKELY)
        yield Looked("known text", known.why, False), cause
        return
    said = known.summary if known.verdict == KNOWS else f"could not be judged: {known.why}"
    yield Looked("known text", said, True if known.verdict == KNOWS else None), None
    chat = known.chat
    if chat is None:
        return
    if chat.ok is False:
        cause = Cause("turn-never-ends", chat.why, "asked with its own template", ("render", "MODEL"), LIKELY)
        yield Looked("chat template", chat.why, False), cause
    else:
        said = f"a turn ends (probability {chat.ends:.2f})" if chat.ends is not None else chat.why
        yield Looked("chat template", said, chat.ok), None


def _surroundings(s: Symptom | None, seen: Sequence[FoundDevice]) -> Iterator[Cause]:
    """What of this machine explains a symptom."""
    if s is None:
        return
    if s.name in ("nonsense", "one-sign", "wrong-letters") and P2P in os.environ:
        says = "copies from GPU to GPU are switched on, whatever the value is; on many boards they lose data"
        yield Cause("peer-copies", says, f"{P2P} is set", ("doctor",), LIKELY, source="ggml-org/llama.cpp#21910")
    if s.name == "slow" and not seen:
        yield Cause("no-device", "everything runs on the processor", "no accelerator was found", ("doctor",), LIKELY)


def _common(s: Symptom | None, path: str, count: int) -> Iterator[Cause]:
    """Causes that cannot be seen from here; of a machine without the device that they need, none."""
    need = {"device": 1, "devices": 2}
    for u in s.common if s else ():
        if count >= need.get(u.when, 0) and not (u.name == "no-device" and not count):
            yield _at(_usual(u), path)
