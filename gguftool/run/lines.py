"""The lines of a log without what others put before them: service managers, containers, applications, `--log-jsonl`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gguftool.quantity import LONGEST
from gguftool.reading import Malformed, from_json
from gguftool.records import dataclass
from gguftool.regex import regex

MAX_LINE = 4096
"""Longer lines are cut: only dumps of tokens and templates are that long."""
FIRST, LAST = 600_000, 200_000
"""Lines that are read of a longer log: it is decided at its beginning and its end."""

_SGR = regex(r"\x1b\[[0-9;?]*[A-Za-z]")
_OWN = regex(r"(?:^|(?<=[\s|]))\d+\.\d{2}\.\d{3}\.\d{3} (?P<level>[IWED]) ")
"""What llama.cpp puts before a line (`common/log.cpp:common_log_entry::print`)."""
_BARE = regex(r"(?P<level>[IWED]) (?=\S)")
_COLOUR = r"\x1b\[[0-9;]{0,9}m"
_IS_BARE = regex(
    rf"(?:^|[\s|:\]]|{_COLOUR})[IWED] (?:{_COLOUR})?"
    r"(?:(?:srv|cmn|slot) +\w+: |llama_model_loader: |(?:print_info|load_tensors): )",
    re.M,
)
"""Of ``--no-log-timestamps``, whose letters alone could be words: lines that no other program begins like that."""
_DAY = r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_WEEK = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )"
_UNIT = r"(?![IWED] )[\w.-]+ [\w./@:-]+?(?:\[\d+\])?"
_SECONDS = r"(?:\d{9,10}\.\d{6}|\[ *\d+\.\d{6}\])"
_NAME = "[a-z][a-z0-9-]{0,62}"
_HASH = "[bcdfghjklmnpqrstvwxz2456789]"
"""What Kubernetes makes names of pods of (`k8s.io/apimachinery/pkg/util/rand`)."""
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?"
_LEVEL = r"(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)"
FRONT = regex(
    "|".join(
        (
            rf"{_DAY} (?:stdout|stderr) [FP] ",  # Kubernetes' files (CRI)
            # journald in each of its short forms (-o short-full, short-unix, short-monotonic), syslog
            rf"(?:<\d+>)?(?:{_WEEK}?{_DAY}(?: [A-Z]{{2,5}})?|{_MONTH}|{_SECONDS}) {_UNIT}: ",
            rf"<\d+>1 {_DAY} \S+ \S+ \S+ \S+ (?:-|\[[^\]\n]{{0,200}}\]) ",  # syslog of RFC 5424
            rf"\[{_DAY} {_LEVEL} +[\w:.-]{{1,80}}\] ",  # env_logger
            rf"\[?(?:{_DAY}|{_MONTH})\]?(?:\s|$|(?=\[))\s*",  # docker -t, ts, GitHub
            r"[A-Za-z][\w.-]{0,80} +\| ",  # docker compose
            r"\[pod/[\w./-]+\] ",  # kubectl --prefix
            rf"(?:{_NAME} )?{_NAME}-{_HASH}{{8,10}}-{_HASH}{{5}} {_NAME} ",  # stern
            r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [\w.-]+:\d+\] ",  # Kubernetes' own programs
            r"#\d+ \d+\.\d+ ",  # docker build
            r"\[?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]?(?:\s|$)\s*",  # ts, --time
            rf"[-|] (?:[\w.]{{1,80}} - )?{_LEVEL} *(?:-|\|[^|\n]{{0,80}} -) ",  # Python's logging, loguru
            r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):llama[\w.-]*: ?",  # logging of llama-cpp-python
            r"\[(?:stdout|stderr)\] |(?:stdout|stderr): ",
            rf"\[{_LEVEL}\](?:\[[^\]\n]{{0,80}}\])?(?:\s|$)\s*",  # LM Studio
            r"\[(?:LM STUDIO SERVER|llama-swap|llama\.cpp|llama-server(?: std\w+)?)\]\s*",
            # LocalAI
            r"\d\d?:\d\d(?::\d\d)?(?:AM|PM)? (?:DBG|INF|WRN|ERR) (?:GRPC\([^)\n]{0,200}\): std\w+ )?",
            r"llama-[\w-]+\.exe : ",  # PowerShell
        )
    )
)
"""What stands before a line; several of them may."""
_SLOG = regex(r'time=\S+ level=(?P<level>\w+) source=\S+ msg=(?P<msg>"(?:[^"\\]|\\.)*"|\S+)(?P<rest>.*)')
_RUN = regex(rf"[0-9]{{{LONGEST},}}")
_LEVELS = {"error": "E", "err": "E", "fatal": "E", "warn": "W", "warning": "W", "info": "I", "trace": "I", "debug": "D"}
_TEXTS = ("msg", "log", "MESSAGE", "message")
"""Where a line stands in an object: ``--log-jsonl``, Docker's files, ``journalctl -o json``, others."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its prefix.

    Attributes:
        number: counts from 1.
        level: I, W, E, D or "".
        text: the rest.
        own: the level is llama.cpp's, not that of a program around it.
    """

    number: int
    level: str
    text: str
    own: bool = True


def lines_of(text: str) -> Iterator[Line]:
    """The lines without colours and prefixes; of a huge log the first and the last."""
    bare = _IS_BARE.search(text) is not None
    for number, raw in _numbered(text):
        yield _line(number, raw, 3, bare)


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    count = text.count("\n")
    if count <= FIRST + LAST:
        yield from enumerate(text.splitlines(), 1)
        return
    head = text.split("\n", FIRST)
    yield from enumerate(head[:-1], 1)
    tail = head[-1].rsplit("\n", LAST)
    yield from enumerate(tail[1:], count - LAST + 2)


def _line(number: int, raw: str, depth: int, bare: bool) -> Line:
    cut = _SGR.sub("", raw[:MAX_LINE])
    if len(cut) > LONGEST:
        # No number of a log is longer, and int() takes none of 4,300 digits.
        cut = _RUN.sub(lambda m: m[0][:LONGEST], cut)
    level = ""
    for _ in range(4):
        if own := _OWN.search(cut):
            # What counts begins after llama.cpp's own prefix, whatever stands before it.
            return Line(number, own["level"], cut[own.end() :])
        if bare and (own := _BARE.match(cut)):
            return Line(number, own["level"], cut[own.end() :])
        front = FRONT.match(cut)
        if front is None:
            break
        cut = cut[front.end() :]
    if depth and cut.startswith("{") and (inner := _object(cut)):
        line = _line(number, inner[1], depth - 1, bare)
        return Line(number, line.level or inner[0], line.text)
    if slog := _SLOG.match(cut):
        level = _LEVELS.get(slog["level"].lower(), "")
        return Line(number, level, _unquoted(slog["msg"]) + slog["rest"], own=False)
    return Line(number, level, cut)


def _object(text: str) -> tuple[str, str] | None:
    """Level and text of a line that is a JSON object."""
    try:
        entry: Any = from_json(text)
    except Malformed:
        return None
    if not isinstance(entry, dict):
        return None
    said = next((entry[name] for name in _TEXTS if isinstance(entry.get(name), str)), None)
    if said is None:
        return None
    return _LEVELS.get(str(entry.get("level", "")).lower(), ""), said.rstrip("\n")


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        return text
    try:
        return str(from_json(text))
    except Malformed:
        return text[1:-1]
