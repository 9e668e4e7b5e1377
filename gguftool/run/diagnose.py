"""From an error line to its cause and remedy, by a table of patterns (`gguftool/facts/data/errors.json`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from gguftool.brief import short_repr
from gguftool.facts.programs import architectures, program, tensor_types
from gguftool.facts.unconverted import fault, meaning
from gguftool.format.types import TENSOR_TYPES
from gguftool.programs import CONVERTER, RPC_SERVER, SERVER
from gguftool.records import dataclass, field, replace
from gguftool.regex import regex
from gguftool.run.lines import Line, lines_of
from gguftool.run.log import LogFacts, read_log
from gguftool.run.loglines import Dull
from gguftool.run.messages import Found, find, table
from gguftool.run.said import judged, reasons, row_of, where

MOST = 1 << 30
"""A place after all others."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a line means.

    Attributes:
        kind, cause, remedy, fatal: as in the table, filled in.
        line: the line itself, ``number`` its place in the log.
        details: what the pattern found in it.
        level: of the line: I, W, E, D or "".
        undone: the program goes on without something that was asked for.
        request: a request failed with it.
        symptom: the reason stands in another line.
        place: of the row in the table; after all of them when the table does not know the line.
        off: what it says is off.
        harmless: an error by its level alone.
        quiet: no notice.
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
    request: bool = False
    symptom: bool = False
    place: int = MOST
    off: str = ""
    harmless: bool = False
    quiet: bool = False

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Judgement:
    """A whole log.

    Attributes:
        status: ``ready``, ``failed``, ``starting`` (it ends while the model loads), ``finished`` (another program
            than a server, with the line that proves it), ``broke-off`` (without that line) or ``unknown`` (no log of
            llama.cpp).
        error: why it failed, None when it did not.
        notices: what is worth knowing although it runs.
        facts: what the log says.
        off: the lines that say that something is off, by what it is.
    """

    status: str
    error: Diagnosis | None
    notices: tuple[Diagnosis, ...]
    facts: LogFacts
    off: Mapping[str, Diagnosis] = field(default_factory=dict)

    __repr__ = short_repr

    @property
    def undone(self) -> tuple[Diagnosis, ...]:
        """Notices that speak against the start: errors on the way, and what the server goes on without.

        Every error counts but those that are known to be harmless. A log without levels has those of llama.cpp's
        sources; there a line that the table calls fatal counts, too. A quiet log does not say when it was ready.
        """
        ready = self.facts.ready_line
        end = ready if ready is not None else MOST if self.status == "ready" else 0
        loud = (d for d in self.notices if d.level == "E" or (d.fatal and not d.level))
        before = {d.number for d in loud if d.number < end and not d.harmless}
        return tuple(d for d in self.notices if d.undone or d.number in before)

    @property
    def failures(self) -> tuple[Diagnosis, ...]:
        """Errors of a server after it was ready: requests that failed, and what nobody knows."""
        ready = self.facts.ready_line
        if self.status != "ready" or ready is None:
            return ()
        return tuple(
            d
            for d in self.notices
            if d.number > ready and not d.harmless and (d.level == "E" or (d.request and d.level in ("", "W")))
        )


def explain_line(text: str, number: int = 1) -> Diagnosis | None:
    """What one line means; None when it is not known."""
    found = find(text)
    if found is None or found.row.symptom:
        return _by_source(text, number, found) or (None if found is None else _diagnosis(found, text, number))
    return _diagnosis(found, text, number)


def explain_text(text: str) -> Diagnosis | None:
    """What a pasted message of several lines means: the root cause of all that is known in it.

    Args:
        text: as it was copied; times and prefixes of a terminal or a log do not matter.

    Returns:
        None where nothing in it is known.
    """
    if (traced := _of_the_converter(text)) is not None:
        return traced
    lines = [line for line in lines_of(text) if line.text.strip()]
    known, _ = _all_known(lines)
    first = _first([d for d in known if d.fatal] or known)
    if first is None or first.symptom:
        told = [d for line in lines[:MOST_ASKED] if (d := explain_line(line.text, line.number))]
        first = _first(told) or first
    return first


def _of_the_converter(text: str) -> Diagnosis | None:
    """What a traceback of llama.cpp's converter means, whose last line may have no words."""
    lines = text.splitlines()
    found = fault(lines)
    told = meaning(found) if found.file.startswith(("conversion/", "gguf/", CONVERTER)) else None
    if told is None:
        return None
    way = told.way.replace("FOLDER", "the folder")
    return Diagnosis(f"convert-{told.kind}", found.shown, len(lines), told.cause, way, fatal=True, details={})


MOST_ASKED = 200
"""Lines of a pasted text that are looked for in llama.cpp's sources."""


def _by_source(text: str, number: int, known: Found | None = None) -> Diagnosis | None:
    """What is known of a line by the place in llama.cpp's sources where it stands.

    Where the table knows it as a consequence (``known``), the line must hold more than that.
    """
    said = where(text)
    if known is not None and said is not None and find(said.text.replace("{}", "7")):
        return None
    rule = None if said is None else judged(said)
    if said is None or rule is None:
        return None
    line = text.strip()
    if rule.kind:
        row = row_of(rule.kind)
        details = {"why": line, "what": line}
        return _diagnosis(Found(MOST - 1, row, details), text, number)
    return Diagnosis(
        "internal", line, number, f"llama.cpp prints this in {said.file}: {reasons()[rule.reason]}.",
        "what it was doing then stands in the lines around it; a newer build; else report it with the log", True, {},
        symptom=True,
    )  # fmt: skip


def judge(text: str) -> Judgement:
    """Status of a whole log, and the reason where it failed.

    Args:
        text: the log of a llama-server or another program of llama.cpp.
    """
    lines = [line for line in lines_of(text) if line.text.strip()]
    facts = read_log(lines)
    known, unknown = _all_known(lines)
    off = {d.off: d for d in reversed(known) if d.off}
    known = [d for d in known if not d.quiet]
    # What was said before the server was ready did not keep it from that.
    fatal = [d for d in known if d.fatal and not d.request and not (facts.ready_line and d.number < facts.ready_line)]
    error = _reason(_first(fatal), unknown)
    if error is None:
        error = _unnamed(lines, facts, {d.number for d in known})
    others = [d for d in unknown[:MOST_UNKNOWN] if error is None or d.number != error.number]
    notices = (*_once(d for d in known if d not in fatal), *others)
    return Judgement(_status(facts, error), error, notices, facts, off)


def _first(found: Sequence[Diagnosis]) -> Diagnosis | None:
    """The line that names a cause: of those that do, the one that stands first in the table, which knows what follows
    from what; where none does, a consequence.
    """
    return min(found, key=lambda d: (d.symptom, d.place, d.number), default=None)


def _reason(error: Diagnosis | None, unknown: list[Diagnosis]) -> Diagnosis | None:
    """Where the table knows no more than a consequence, the first error that it does not know may be the reason."""
    if error is None or not error.symptom:
        return error
    first = next((d for d in unknown if d.number < error.number), None)
    return error if first is None else replace(first, fatal=True)


def _status(facts: LogFacts, error: Diagnosis | None) -> str:
    if error is not None:
        return "failed"
    if facts.ready or (facts.program == RPC_SERVER and facts.end_line):
        return "ready"
    if facts.program in ("", SERVER):
        return "starting" if facts.program or facts.from_llama_cpp else "unknown"
    return "finished" if facts.end_line else "broke-off"


def _unnamed(lines: list[Line], facts: LogFacts, known: set[int]) -> Diagnosis | None:
    """The first line of level E of a program that did not get ready, or ended: better than nothing.

    Not one that is ``known`` to end nothing.
    """
    if facts.ready or facts.end_line:
        return None
    loud = (x for x in lines if x.number not in known and (x.level == "E" or _ERROR.match(x.text)))
    first = next((x for x in loud if not ((hit := find(x.text)) and not hit.row.fatal)), None)
    return None if first is None else _not_known(first)


MOST_UNKNOWN = 5
"""Errors that the table does not know, of a log that may hold thousands."""
_ERROR = regex(r"(?:error|fatal)\b", re.IGNORECASE)


def _all_known(lines: Sequence[Line]) -> tuple[list[Diagnosis], list[Diagnosis]]:
    """What the table knows, and what is said to be an error without it knowing (each shape of a line once)."""
    found: list[Diagnosis] = []
    unknown: list[Diagnosis] = []
    dull = Dull()
    waiting = {row.after for row in table() if row.after}
    heard: set[str] = set()
    lettered = any(line.level and line.own for line in lines)
    for line in lines:
        heard.update(after for after in waiting - heard if after in line.text)
        shape = dull.shape(line.text)
        if shape is None or not _worth(line):
            continue
        hit = find(line.text, heard)
        if hit is not None and hit.row.fatal and line.level in ("I", "D"):
            hit = None  # prompts and answers are printed there, and may hold any words
        if hit is None or hit.row.quiet or len(found) > MOST_KNOWN:
            dull.add(shape)
        level = line.level if lettered or line.level else _level(line.text)
        if hit is not None and (not hit.row.quiet or hit.row.off):
            found.append(replace(_diagnosis(hit, line.text, line.number), level=level))
        elif hit is None and level == "E":
            unknown.append(replace(_not_known(line), level=level))
    return found, unknown


def _level(text: str) -> str:
    """The level of a line of a log without levels, where llama.cpp's sources tell that it is an error."""
    said = where(text)
    return "E" if said is not None and said.level == "error" else ""


MOST_KNOWN = 1000
"""Lines that the table knows which are looked at one by one; of later ones each shape once."""


def _not_known(line: Line) -> Diagnosis:
    if known := _by_source(line.text, line.number):
        return replace(known, level=line.level, fatal=True)
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
    seen: set[tuple[str, bool]] = set()
    for d in found:
        if (d.kind, d.level == "E") not in seen and (d.kind, True) not in seen:
            seen.add((d.kind, d.level == "E"))
            yield d


class _Groups(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return key.upper()


def _diagnosis(found: Found, text: str, number: int) -> Diagnosis:
    row = found.row
    filled = _Groups(found.details)
    cause, remedy = row.cause.format_map(filled), row.remedy.format_map(filled)
    if row.lookup:
        cause, remedy = _LOOKUPS[row.lookup](filled, cause, remedy)
    return Diagnosis(
        row.kind, text.strip(), number, cause, remedy, row.fatal, found.details, undone=row.undone,
        request=row.request, symptom=row.symptom, place=found.place, off=row.off, harmless=row.harmless,
        quiet=row.quiet,
    )  # fmt: skip


def _with_flag(details: Mapping[str, str], cause: str, remedy: str) -> tuple[str, str]:
    """What the option was meant to be, where that is known."""
    # It knows all options of llama-server, with the memory that they are about: half of what a log needs.
    from gguftool.run.explained import explain_flag

    answer = explain_flag(details["argument"])
    if answer.exists and SERVER in answer.programs:
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
