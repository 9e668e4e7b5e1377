"""`messages.json`: every message that llama.cpp can print as an error, end with, or throw.

A message is the literal text of a call, with ``{}`` where a value is printed. What is no literal at all (a text that
was made elsewhere and is passed on) is left out: the place where it was made is listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from source import without_comments

FOLDERS = (
    "common", "src", "ggml/src", "tools/server", "tools/mtmd", "tools/quantize", "tools/gguf-split", "tools/imatrix",
    "tools/perplexity", "tools/llama-bench", "tools/rpc", "tools/fit-params", "tools/batched-bench", "tools/cli",
    "tools/completion", "tools/tokenize", "tools/tts", "tools/cvector-generator", "tools/export-lora",
)  # fmt: skip
ENDINGS = (".cpp", ".c", ".h", ".hpp", ".cu", ".cuh", ".m", ".mm", ".cc")
CALLS = (
    ("error", r"(?:LLAMA_LOG_ERROR|GGML_LOG_ERROR|LOG_ERRV?|SRV_ERR|SLT_ERR|QUE_ERR)\s*\("),
    ("abort", r"(?:GGML_ABORT|ggml_abort)\s*\("),
    ("assert", r"GGML_ASSERT\s*\("),
    ("throw", r"throw\s+(?:std::)?\w+\s*[({]"),
    ("stderr", r"(?:fprintf|fputs)\s*\((?:\s*stderr\s*,)?|std::cerr\s*<<"),
    ("answer", r"(?:send_error|format_error_response|set_error|json_error|add_error)\s*\("),
)
"""How loud, and how the call begins."""
CALL = re.compile("|".join(rf"(?P<{name}>\b{call})" for name, call in CALLS))
WRONG = re.compile(
    r"error|fail|invalid|unable|could ?n[o']t|cannot|can't|not (?:found|supported|allowed|enough|exist|a valid)|"
    r"unknown|missing|unsupported|must|exceed|too (?:long|large|small|many|few)|required?|mismatch|abort|refus|warn|"
    r"does not|unrecognized|no such|out of|expected",
    re.IGNORECASE,
)
"""What is printed on stderr is an error when it has one of these words; much is progress or help."""
LITERAL = re.compile(r'\bR"(\w*)\((.*?)\)\1"|"((?:\\.|[^"\\])*)"', re.S)
LETTER = re.compile(r"'(?:\\.|[^'\\])'")
NO_VALUES = re.compile(r"std::(?:string|runtime_error)|string_format|format|stderr|u8|L\b|R\b")
"""Words between the literals of a text that are no values."""
VALUE = re.compile(r"%(?:%|[-+#0]*(?:\*|\d+)?(?:\.(?:\*|\d+)?)?(?:hh|h|ll|l|z|j|t)?[diouxXeEfFgGaAcsp])")
MACROS = re.compile(r"\bPRI[a-zA-Z]+\d*\b|\bLOG_FILE_LINE\b|\bLU_FMT\b")
ESCAPES = {"n": " ", "t": " ", "r": " ", '"': '"', "\\": "\\", "'": "'", "0": "", "a": "", "e": ""}


def messages(root: Path, build: str) -> tuple[dict[str, Any], list[str]]:
    """The data file, and what could not be read."""
    out: dict[str, dict[str, list[str]]] = {}
    gaps = [f"messages: no folder {x}" for x in FOLDERS if not (root / x).is_dir()]
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in ENDINGS or "vendor" in path.parts:
                continue
            text = without_comments(path.read_text(encoding="utf-8", errors="replace"))
            found: dict[str, list[str]] = {}
            for level, message in _calls(text):
                if message not in found.setdefault(level, []):
                    found[level].append(message)
            found = {level: said for level, said in found.items() if said}
            if found:
                out[path.relative_to(root).as_posix()] = found
    return {"source": build, "files": out}, gaps


def _calls(text: str) -> Iterator[tuple[str, str]]:
    for match in CALL.finditer(text):
        level = match.lastgroup or ""
        begin = text.rfind("\n", 0, match.start()) + 1
        if text[begin : match.start()].lstrip().startswith("#"):
            continue  # the definition of a macro
        stream = "cerr" in match[0]
        argument = text[match.end() : text.find(";", match.end())] if stream else _argument(text, match.end())
        said = _said(argument.replace("<<", "+") if stream else argument)
        if level == "assert":
            said = said.removeprefix("{}")
        if level == "stderr" and not ((stream or "stderr" in match[0] + argument) and WRONG.search(said)):
            continue
        if len(re.sub(r"\{\}|\W", "", said)) >= 3:
            yield level, said


def _argument(text: str, start: int) -> str:
    """What stands in the brackets that are open at that place."""
    depth, at = 1, start
    while at < len(text) and depth:
        if literal := (LITERAL.match(text, at) if text[at] in 'R"' else None):
            at = literal.end()
            continue
        if text[at] == "'" and (letter := LETTER.match(text, at)):
            at = letter.end()
            continue
        depth += (text[at] in "({[") - (text[at] in ")}]")
        at += 1
    return text[start : at - 1]


def _said(argument: str) -> str:
    """The literals of an argument, with ``{}`` for values between them; "" where there is none.

    Of a formatted text only the format counts; its arguments are values.
    """
    pieces: list[str] = []
    at = 0
    argument = MACROS.sub('"d"', argument)
    for match in LITERAL.finditer(argument):
        between = argument[at : match.start()]
        if pieces and _ends(between):
            break
        if re.search(r"\w", NO_VALUES.sub("", between)):
            pieces.append("{}")
        pieces.append(match[2] if match[1] is not None else _plain(match[3]))
        at = match.end()
    if not pieces:
        return ""
    if re.match(r"\s*\+\s*\w", argument[at:]):
        pieces.append("{}")
    said = VALUE.sub(lambda m: "%" if m[0] == "%%" else "{}", "".join(pieces))
    said = re.sub(r"(?:\{\}\s*){2,}", lambda m: "{} " if m[0].endswith(" ") else "{}", said)
    return " ".join(said.split())


def _ends(between: str) -> bool:
    """True where the text ends: what follows a comma is a value of the format (a literal among them too)."""
    depth = 0
    for letter in between:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth <= 0:
            return True
    return False


def _plain(text: str) -> str:
    return re.sub(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", lambda m: ESCAPES.get(m[1], ""), text, flags=re.S)
