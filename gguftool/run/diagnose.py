"""From an error line to its cause and remedy, by a table of patterns (`gguftool/facts/data/errors.json`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from gguftool.brief import short_repr
from gguftool.facts.data import load
from gguftool.facts.programs import architectures, program, tensor_types
from gguftool.format.types import TENSOR_TYPES
from gguftool.run.flags import explain_flag
from gguftool.run.log import Line, LogFacts, lines_of, read_log
from gguftool.run.loglines import Dull


@dataclass(frozen=True, slots=True)
class KnownError:
    """One row of the table.

    Attributes:
        kind: short kebab-case name.
        pattern: what the line looks like.
        cause, remedy: for people; ``{name}`` stands for a group of the pattern.
        fatal: the program ends with it.
        program: the program that says it, "" for llama.cpp's own.
        lookup: a table that knows more: ``flag`` of the group ``argument``, ``tensor-type``, ``architecture``.
        symptom: the reason stands in another line.
        undone: the program goes on without something that was asked for.
        after: what must have been said before, for it means nothing by itself; "": nothing.
    """

    kind: str
    pattern: re.Pattern[str]
    cause: str
    remedy: str
    fatal: bool
    program: str
    lookup: str = ""
    symptom: bool = False
    undone: bool = False
    after: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a line means.

    Attributes:
        kind, cause, remedy, fatal: as in the table, filled in.
        line: the line itself, ``number`` its place in the log.
        details: what the pattern found in it.
        level: of the line: I, W, E, D or "".
        undone: the program goes on without something that was asked for.
    """

    kind: str
    line: str
    number: int
    cause: str
    remedy: str
    fatal: bool
    details: Mapping[str, str]
    level: str = ""
    undone: bool = False

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Judgement:
    """A whole log.

    Attributes:
        status: ``ready``, ``failed``, ``starting`` (it ends in the middle), ``finished`` (another program than a
            server) or ``unknown`` (no log of llama.cpp).
        error: why it failed, None when it did not.
        notices: what is worth knowing although it runs.
        facts: what the log says.
    """

    status: str
    error: Diagnosis | None
    notices: tuple[Diagnosis, ...]
    facts: LogFacts

    __repr__ = short_repr

    @property
    def undone(self) -> tuple[Diagnosis, ...]:
        """Notices that speak against the start: errors on the way, and what the server goes on without."""
        ready = self.facts.ready_line
        return tuple(d for d in self.notices if d.undone or (d.fatal and d.level == "E" and ready and d.number < ready))


@cache
def table() -> tuple[KnownError, ...]:
    """All known errors, from the root cause to its consequences."""
    return tuple(
        KnownError(
            e["kind"],
            re.compile(e["pattern"], re.IGNORECASE if e.get("program") else 0),
            e["cause"],
            e["remedy"],
            e.get("fatal", True),
            e.get("program", ""),
            e.get("lookup", ""),
            e.get("symptom", False),
            e.get("undone", False),
            e.get("after", ""),
        )
        for e in load("errors.json")["errors"]
    )


def explain_line(text: str, number: int = 1) -> Diagnosis | None:
    """What one line means; None when it is not known."""
    return next((_diagnosis(e, m, text, number) for e in table() if (m := e.pattern.search(text))), None)


def explain_text(text: str) -> Diagnosis | None:
    """What a pasted message of several lines means: the root cause of all that is known in it."""
    found, _ = _all_known(lines_of(text))
    return min(found, key=lambda d: _rank(d.kind, d.line), default=None)


def judge(text: str) -> Judgement:
    """Status of a whole log, and the reason where it failed."""
    lines = [line for line in lines_of(text) if line.text.strip()]
    facts = read_log(lines)
    known, unknown = _all_known(lines)
    # What was said before the server was ready did not keep it from that.
    fatal = [d for d in known if d.fatal and not (facts.ready_line and d.number < facts.ready_line)]
    error = _reason(min(fatal, key=lambda d: _rank(d.kind, d.line), default=None), unknown)
    if error is None:
        error = _unnamed(lines, facts)
    others = [d for d in unknown[:MOST_UNKNOWN] if error is None or d.number != error.number]
    notices = (*_once(d for d in known if d not in fatal), *others)
    return Judgement(_status(facts, error), error, notices, facts)


def _reason(error: Diagnosis | None, unknown: list[Diagnosis]) -> Diagnosis | None:
    """Where the table knows no more than a consequence, the first error that it does not know may be the reason."""
    if error is None or not any(e.kind == error.kind and e.symptom for e in table()):
        return error
    first = next((d for d in unknown if d.number < error.number), None)
    return error if first is None else replace(first, fatal=True)


def _status(facts: LogFacts, error: Diagnosis | None) -> str:
    if error is not None:
        return "failed"
    if facts.ready:
        return "ready"
    if facts.program in ("", "llama-server"):
        return "starting" if facts.program or facts.hparams or facts.tensors else "unknown"
    return "finished"


def _unnamed(lines: list[Line], facts: LogFacts) -> Diagnosis | None:
    """The first line of level E of a program that did not get ready, or ended: better than nothing."""
    if facts.ready:
        return None
    first = next((x for x in lines if x.level == "E" or re.match(r"(?:error|fatal)\b", x.text, re.IGNORECASE)), None)
    if first is None:
        return None
    return _not_known(first)


MOST_UNKNOWN = 5
"""Errors that the table does not know, of a log that may hold thousands."""


def _all_known(lines: Iterable[Line]) -> tuple[list[Diagnosis], list[Diagnosis]]:
    """What the table knows, and what is said to be an error without it knowing (each shape of a line once)."""
    found: list[Diagnosis] = []
    unknown: list[Diagnosis] = []
    dull = Dull()
    waiting = {e.kind: e.after for e in table() if e.after}
    for line in lines:
        for kind in [k for k, after in waiting.items() if after in line.text]:
            del waiting[kind]
        shape = dull.shape(line.text)
        if shape is None or not _worth(line):
            continue
        known = explain_line(line.text, line.number)
        if known is not None:
            if known.kind not in waiting:
                found.append(replace(known, level=line.level))
            continue
        dull.add(shape)
        if line.level == "E":
            unknown.append(_not_known(line))
    return found, unknown


def _not_known(line: Line) -> Diagnosis:
    return Diagnosis(
        "unknown", line.text.strip(), line.number, "This message is not in our table.",
        "look at the lines around it; `gguftool lint` knows what is wrong with a model", True, {}, line.level,
    )  # fmt: skip


def _worth(line: Line) -> bool:
    """Values of metadata are printed too, and may hold any words; of some errors llama.cpp itself says they are none.

    What drafts with the help of its target cannot be measured without it, which happens before it is loaded.
    """
    if any(text in line.text for text in _NO_ERRORS):
        return False
    return " - kv " not in line.text and not line.text.startswith("llama_model_loader: - ")


_NO_ERRORS = ("this warning is normal during memory fitting", "failed to measure the memory of the extra model")


def _once(found: Iterable[Diagnosis]) -> Iterable[Diagnosis]:
    seen: set[str] = set()
    for d in found:
        if d.kind not in seen:
            seen.add(d.kind)
            yield d


def _rank(kind: str, line: str) -> int:
    return next((i for i, e in enumerate(table()) if e.kind == kind and e.pattern.search(line)), len(table()))


class _Groups(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return key.upper()


def _diagnosis(error: KnownError, match: re.Match[str], text: str, number: int) -> Diagnosis:
    details = {k: v.strip() for k, v in match.groupdict().items() if v is not None}
    filled = _Groups(details)
    line = text.strip()
    cause, remedy = error.cause.format_map(filled), error.remedy.format_map(filled)
    if error.lookup:
        cause, remedy = _LOOKUPS[error.lookup](filled, cause, remedy)
    return Diagnosis(error.kind, line, number, cause, remedy, error.fatal, details, undone=error.undone)


def _with_flag(details: Mapping[str, str], cause: str, remedy: str) -> tuple[str, str]:
    """What the option was meant to be, where that is known."""
    answer = explain_flag(details["argument"])
    if answer.exists:
        return f"{cause} Other builds have it.", remedy
    if answer.becomes:
        return f"{cause} {answer.why}", f"write {answer.becomes}"
    if answer.near:
        return cause, f"did you mean {' or '.join(answer.near)}?"
    return f"{cause} {answer.why}", "leave it out"


def _with_type(details: Mapping[str, str], cause: str, remedy: str) -> tuple[str, str]:
    """Which fork has a type of that number: no newer llama.cpp will."""
    number = int(details["type"])
    kinds = tensor_types().get(number, {})
    if not kinds or number in TENSOR_TYPES:
        return cause, remedy
    makers = [(kind.name, program(key)) for key, kind in kinds.items()]
    named = " or ".join(f"{name} of {made.name}" for name, made in makers)
    way = makers[0][1].way if len(makers) == 1 else "gguftool dump MODEL says which it is, and what runs it"
    return f"{cause} The number is that of {named}; no llama.cpp has it.", way


def _with_architecture(details: Mapping[str, str], cause: str, remedy: str) -> tuple[str, str]:
    """Which program has an architecture of that name."""
    found = architectures().get(details["arch"])
    if found is None:
        return cause, remedy
    made = program(found[1])
    return f"{details['arch']} is an architecture of {made.name}; no llama.cpp has it.", made.way


_LOOKUPS: dict[str, Callable[[Mapping[str, str], str, str], tuple[str, str]]] = {
    "flag": _with_flag,
    "tensor-type": _with_type,
    "architecture": _with_architecture,
}
"""What is asked where the table has ``lookup``: from the groups of the pattern, the cause and the remedy."""
