"""What an engine's failure means: of the source, of the disk, or of the engine itself; and what helps."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import IO, Any

from gguftool import errors
from gguftool.build.process import Ended
from gguftool.errors import FormatError, GgufToolError, NoRoom, ToolFailed
from gguftool.regex import regex
from gguftool.shell import gguftool, path_word

_AT = regex(r"^\[\s*\d+/\s*\d+\]\s+(\S+)(?:.* converting to (\w+) \.\.)?")
"""A line about one tensor (`llama-quant.cpp:llama_model_quantize_impl`, b11434)."""
_ASSERTION = regex(r"\bGGML_ASSERT\(.*?\) failed|\bfatal error\b|Oops: found point \d+ not on grid")


_REFUSED = regex(
    r"key not found in model: \S+|key \S+ has wrong type .*|(?:invalid|corrupted) model: .*|gguf_init_from_file\w*: .*"
    r"|illegal split file .*|tensor '.+?' (?:not found|is duplicated)"
)
"""What llama.cpp says of a model that it does not load."""


def way_on(kind: str, source: str) -> str | None:
    """What helps where data is not what it should be.

    Args:
        kind: ``invalid-data``: of the source; ``invalid-result``: what was made of it.
        source: the file.
    """
    if kind == "invalid-data":
        look = gguftool("verify", "--data", path_word(source))
        return f"{look} names every place; convert or download the model again"
    if kind == "invalid-result":
        return "its numbers do not fit into that type: BF16 or F32 hold them, or mend the source"
    return None


def stopped(place: str, words: str, new: str | None) -> ToolFailed:
    """An assertion of ggml, with the tensor it was at."""
    what = " ".join(words.split("\n")[0].split())
    return ToolFailed(
        f"{place or 'a tensor'}: ggml gave up" + (f" making {new}" if new else "") + f": {what[:200]}",
        "its numbers, or their importances, are none that this type can hold: look at both (gguftool verify --data "
        "MODEL, gguftool lint IMATRIX), or name another type for the tensor with --tensor-type NAME=TYPE",
    )


_TAIL = 4096
"""Bytes of what a child said that are looked at when it ends."""


def again(words: Mapping[str, Any], label: str, source: str | None = None) -> Exception:
    """The error that a child of ours told of (`gguftool.build.parent.failure`).

    Args:
        words: what it said.
        label: what to call it.
        source: the file that its words about data mean, for the hint.
    """
    kind, text, hint = words["class"], words["text"], words.get("hint")
    if kind == "OSError":
        return OSError(words["errno"], text)
    if kind == "FormatError":
        helps = hint if source is None else hint or way_on(words["kind"], source)
        return FormatError(text, helps, key=words["key"], kind=words["kind"])
    found = getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, GgufToolError):
        return found(text, hint)
    return MemoryError(text) if kind == "MemoryError" else ToolFailed(f"{label} failed: {kind}: {text}")


def died(label: str, code: int, said: IO[bytes], at: Sequence[str], less: str) -> ToolFailed:
    """A child of ours ended without a word.

    Args:
        label: what to call it.
        code: its exit code; negative: the signal.
        said: what it wrote to stderr.
        at: the tensors that it was at.
        less: what makes it take less memory.
    """
    size = os.fstat(said.fileno()).st_size
    tail = os.pread(said.fileno(), _TAIL, max(0, size - _TAIL)) if said.readable() else b""
    last = next((line for line in reversed(tail.decode("utf-8", "replace").splitlines()) if line.strip()), "")
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    where = f" at {' or '.join(at)}" if at else ""
    if code == -9:
        return ToolFailed(f"{label} was killed{where}", f"most likely for lack of memory: {less}")
    return ToolFailed(f"{label} ended{where} ({how})" + (f": {last.strip()[:200]}" if last else ""))


_KNOWN = (
    ("requantizing from type", "the source is quantised already", "--allow-requantize"),
    ("requires an imatrix", "this quantisation needs an importance matrix", "--imatrix FILE"),
    ("Missing importance matrix", "the importance matrix lacks a tensor", "a complete imatrix, or --tensor-type"),
    ("this library is too old", "the library is too old for these options", "--engine builtin"),
    ("unknown model architecture", "this llama.cpp does not know the architecture", "a newer llama.cpp"),
)
_BY_OTHERS = "--engine builtin does without it"


def failure(label: str, source: str, ended: Ended) -> GgufToolError:
    """The error for an engine that ended badly.

    Args:
        label: what to call the engine.
        source: the file it read.
        ended: how it ended.

    Returns:
        FormatError where the data of the source is at fault, which no other engine takes either.
    """
    text = "\n".join(ended.tail)
    if "basic_ios::clear" in text or "No space left" in text:
        return NoRoom(f"{label}: the disk is full", "free some space, or write to another disk")
    at = next((m for line in reversed(ended.tail) if (m := _AT.match(line))), None)
    name, new = (at[1], at[2]) if at else ("", None)
    bad = re.search(r"tensor '(.+?)' has invalid data", text)
    if bad:
        said, kind = f"{bad[1]}: the source data holds NaN or infinity", "invalid-data"
        return FormatError(said, way_on(kind, source), key=bad[1], kind=kind)
    if "quantized data validation failed" in text:
        said, kind = (
            f"{name or source}: quantising{f' to {new.upper()}' if new else ''} gave invalid values",
            "invalid-result",
        )
        return FormatError(said, way_on(kind, source), key=name or None, kind=kind)
    assertion = _ASSERTION.search(text)
    if assertion and name:
        return stopped(name, assertion[0], new.upper() if new else None)
    for mark, meaning, remedy in _KNOWN:
        if mark in text:
            return ToolFailed(f"{label}: {meaning}", f"what helps: {remedy}")
    refused = _REFUSED.search(text)
    if refused:
        return FormatError(f"{source}: {label} does not take it: {refused[0]}", gguftool("lint", path_word(source)))
    words = [line.strip() for line in ended.tail if re.search(r"error|fail|assert|unknown|invalid", line, re.I)]
    last = (words or list(ended.tail) or ["it said nothing"])[-1].strip()
    # What ends the process is done by the same functions of ggml in every engine.
    return ToolFailed(f"{label} failed ({ended.reason}): {last[:300]}", _BY_OTHERS if ended.code > 0 else None)
