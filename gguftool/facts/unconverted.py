"""What a failure of llama.cpp's converter means, told by the last lines of its traceback.

Half of what its source raises has no words (``assert max(tokenizer.vocab.values()) < vocab_size``), and what has words
tells a developer what happened. `data/converter_errors.json` holds, by hand, what each comes to: a row counts when all
that it asks for is found, the first one wins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from gguftool.brief import short_repr
from gguftool.facts.data import load
from gguftool.records import dataclass
from gguftool.regex import regex

_PARTS = ("error", "said", "file", "function", "line")
_BEGIN = "Traceback (most recent call last):"
_FRAME = regex(r'^ *File "(?P<file>[^"]*)", line \d+, in (?P<function>\S+)')
_ERROR = regex(r"^(?P<error>[A-Za-z_][\w.]*)(?:: (?P<said>.*))?$")
_LOGGED = regex(r"^ERROR\b|^\S+: error: ")
_OWN = regex(r"(?:conversion/\w+|gguf/\w+|convert_hf_to_gguf)\.py$")
"""Files of the converter; frames below them are of libraries."""


@dataclass(frozen=True, slots=True)
class Fault:
    """How a run of the converter ended.

    Attributes:
        error: class of the exception, "" when there was none: then only ``said`` tells.
        said: its message, of several lines too; without an exception the last lines that were logged as errors.
        file: the converter's own file that was at work last, from ``conversion`` or ``gguf`` on.
        function: its function.
        line: the line of source.
    """

    error: str
    said: str
    file: str = ""
    function: str = ""
    line: str = ""

    __repr__ = short_repr

    @property
    def shown(self) -> str:
        """One line of it, with the place where nothing was said."""
        first = self.said.splitlines()[0].strip() if self.said.strip() else ""
        if first:
            return f"{self.error}: {first}" if self.error else first
        where = f" ({self.file}, {self.function})" if self.file else ""
        return f"{self.line or self.error}{where}" if self.error else ""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a fault comes to.

    Attributes:
        kind: stable name in kebab-case.
        cause: what is wrong.
        way: what helps.
    """

    kind: str
    cause: str
    way: str

    __repr__ = short_repr


def fault(lines: Sequence[str]) -> Fault:
    """The end of what the converter said.

    Args:
        lines: its last lines, stdout and stderr together.
    """
    begins = [i for i, line in enumerate(lines) if line.strip() == _BEGIN]
    if begins:
        found = _traced(lines[begins[-1] + 1 :])
        if found is not None:
            return found
    logged = [line.strip() for line in lines if _LOGGED.match(line.strip())]
    bare = next((m for line in reversed(lines) if (m := _ERROR.match(line)) and m["error"].endswith("Error")), None)
    if bare is not None and not logged:
        return Fault(bare["error"], bare["said"] or "")
    return Fault("", "\n".join(logged[-3:]) or (lines[-1].strip() if lines else ""))


def _traced(lines: Sequence[str]) -> Fault | None:
    """The innermost frame of the converter's own files, and what was raised."""
    own, frame, line = ("", "", ""), ("", "", ""), ""
    for at, text in enumerate(lines):
        if m := _FRAME.match(text):
            following = lines[at + 1] if at + 1 < len(lines) else ""
            line = following.strip() if following.startswith("    ") else ""
            frame = (_short(m["file"]), m["function"], line)
            own = frame if _OWN.search(m["file"].replace("\\", "/")) else own
        elif not text.startswith(" ") and (m := _ERROR.match(text)):
            said = "\n".join([m["said"] or "", *lines[at + 1 :]]).strip()
            return Fault(m["error"].rpartition(".")[2], said, *(own if own[0] else frame))
    return None


def _short(path: str) -> str:
    parts = path.replace("\\", "/").split("/")
    return "/".join(parts[-2:]) if parts[-2:-1] in (["conversion"], ["gguf"]) else parts[-1]


@dataclass(frozen=True, slots=True)
class _Row:
    asked: tuple[tuple[str, re.Pattern[str]], ...]
    meaning: Meaning
    beyond: bool


@cache
def _rows() -> tuple[_Row, ...]:
    return tuple(
        _Row(
            tuple(
                (part, re.compile(entry[part]))
                for part in ("error", "said", "file", "function", "line")
                if part in entry
            ),
            Meaning(entry["kind"], entry["cause"], entry["way"]),
            bool(entry.get("beyond")),
        )
        for entry in load("converter_errors.json")["rows"]
    )


def meaning(found: Fault, layers: int | None = None) -> Meaning | None:
    """What it comes to; None when no row knows it.

    Args:
        found: how the converter ended.
        layers: how many config.json counts: a row marked ``beyond`` is only of a layer behind them.
    """
    texts = {
        "error": found.error,
        "said": f"{found.error}: {found.said}" if found.error and found.said else found.said or found.error,
        "file": found.file,
        "function": found.function,
        "line": found.line,
    }
    for row in _rows():
        matches = [(part, pattern.search(texts[part])) for part, pattern in row.asked]
        if all(m for _, m in matches):
            named = [g for _, m in matches if m for g in m.groups() if g]
            if row.beyond and (layers is None or not named or int(named[0]) < layers):
                continue
            return Meaning(row.meaning.kind, _filled(row.meaning.cause, found, named), row.meaning.way)
    return None


def _filled(cause: str, found: Fault, named: Sequence[str]) -> str:
    """``{0}`` is what was said or the line, ``{line}`` the line, ``{1}`` what the row's pattern caught."""
    said = (found.said or found.line).splitlines()[0].strip()[:160] if (found.said or found.line) else found.error
    line = found.line.removeprefix("assert ") or said
    text = cause.replace("{0}", said).replace("{line}", line[:160])
    if named:
        return text.replace("{1}", named[0].strip()[:120])
    return text.replace(" ({1})", "").replace(": {1}", "").replace(" {1}", " something")
