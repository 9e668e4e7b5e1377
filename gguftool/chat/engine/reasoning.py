"""How a template writes thoughts, found by comparing prompts (`common/chat-diff-analyzer.cpp`, b11434).

llama-server decides by it whether thinking is on where the client says nothing, and how an answer is continued.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gguftool.chat.engine.values import BLANKS
from gguftool.near import same_beginning
from gguftool.regex import regex

_MARKER = r"(?:<[^>]*>|\[[^\]]*\])"
_SPACE = f"[{BLANKS}]*"
_USER = "U_USER_MSG Hello END_U"
_ANSWER = "A_ASST_MSG I can help END_A"
_THOUGHT = "REASON_PART I am thinking END_R"
_BEHIND = regex(f"(){re.escape(_THOUGHT)}{_SPACE}({_MARKER}{_SPACE})?")
_NEXT = regex(f"{_SPACE}{_MARKER}{_SPACE}")
_TRIES = 64
"""Places of the thought in a prompt that are looked at."""


class Reasoning(NamedTuple):
    """What stands around thoughts, and whether the template knows any."""

    start: str = ""
    end: str = ""
    known: bool = False


Prompt = Callable[..., "str | None"]
"""From messages, tools, ``opened`` and ``thinking`` to a prompt; None when the template fails."""


def reasoning(source: str, prompt: Prompt, *, tool_calls: bool) -> Reasoning:
    """What llama.cpp finds.

    Args:
        source: the template.
        prompt: renders a conversation.
        tool_calls: whether the template reads calls.
    """
    found = _switched(prompt, _written(prompt))
    if tool_calls:
        found = _only_with_tools(prompt, found)
    return _patched(source, found)


def _messages(*more: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": _USER}, *more]


def _assistant(**more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": _ANSWER, **more}


def _written(prompt: Prompt) -> Reasoning:
    """From a conversation with and without thoughts."""
    without = prompt(_messages(_assistant()), thinking=True)
    with_it = prompt(_messages(_assistant(reasoning_content=_THOUGHT)), thinking=True)
    if without is None or with_it is None or _THOUGHT not in difference(without, with_it)[1]:
        return Reasoning()
    if (around := _around(with_it)) is not None:
        return Reasoning(*around, True)
    match = _BEHIND.search(with_it)
    return Reasoning(match[1], match[2], True) if match is not None and match[2] else Reasoning()


def _around(text: str) -> tuple[str, str] | None:
    """The markers directly before and behind the thought, with the blanks beside them, where both are there."""
    at = -1
    for _ in range(_TRIES):
        at = text.find(_THOUGHT, at + 1)
        if at < 0:
            return None
        end = at
        while end and text[end - 1] in BLANKS:
            end -= 1
        opening = {">": "<", "]": "["}.get(text[end - 1 : end], "")
        if not opening:
            continue
        # The marker holds no closing bracket but its last character, and begins as far left as it can.
        begin = text.find(opening, text.rfind(text[end - 1], 0, end - 1) + 1, end - 1)
        if begin >= 0 and (behind := _NEXT.match(text, at + len(_THOUGHT))):
            return text[begin:at], behind[0]
    return None


def _switched(prompt: Prompt, found: Reasoning) -> Reasoning:
    """From the same conversation with thinking off and on."""
    off = prompt(_messages(), opened=True, thinking=False)
    on = prompt(_messages(), opened=True, thinking=True)
    if off is None or on is None:
        return found
    start, end, known = found
    left, right = difference(off, on)
    less, more = left.strip(BLANKS), right.strip(BLANKS)
    if not less and right:
        if more and on.endswith(more) and not start:
            start, known = right, True
    elif not more and left:
        if less and off.endswith(less) and not end:
            parts = [p for p in segments(off) if p.strip(BLANKS)]
            if len(parts) >= 2 and parts[-1] == less and _is_marker(parts[-2]):
                start = parts[-2]
            end, known = left, True
    elif less and more:
        for base, extended in ((on, off), (off, on)):
            tail = base.encode()[-64:].decode(errors="surrogateescape")
            _, mark, extra = extended.rpartition(tail)
            extra = extra.strip(BLANKS)
            parts = [p for p in segments(extra) if p.strip(BLANKS)] if mark and extra else []
            if len(parts) == 2 and all(map(_is_marker, parts)):
                return Reasoning(start or parts[0], end or parts[1], True)
    return Reasoning(start, end, known or (not start and bool(end)))


def _only_with_tools(prompt: Prompt, found: Reasoning) -> Reasoning:
    """Templates that write thoughts only in front of a call."""
    call = {"name": "FFF_FIRST_FUN_F", "arguments": {"AA_ARG_FST_AA": "VVVV", "BB_ARG_SND_BB": "XXXX"}}
    calls = [{"id": "call00001", "type": "function", "function": call}]
    plain = prompt(_messages(_assistant(reasoning_content=_THOUGHT)), tools=_TOOLS, thinking=True)
    called = {"role": "assistant", "content": None, "reasoning_content": _THOUGHT, "tool_calls": calls}
    with_call = prompt(_messages(called), tools=_TOOLS, thinking=True)
    if plain is None or with_call is None or _THOUGHT in plain or _THOUGHT not in with_call:
        return found
    if (around := _around(with_call)) is not None:
        return Reasoning(around[0], around[1].lstrip(BLANKS), True)
    match = _BEHIND.search(with_call)
    return found._replace(end=(match[2] or "") if match else found.end, known=match is not None)


_SCHEMA = {
    "type": "object",
    "properties": {
        "AA_ARG_FST_AA": {"type": "string", "description": "First argument"},
        "BB_ARG_SND_BB": {"type": "string", "description": "Second argument"},
    },
    "required": [],
}
_TOOLS = [
    {"type": "function", "function": {"name": name, "description": f"Test function {about}", "parameters": _SCHEMA}}
    for name, about in (("FFF_FIRST_FUN_F", "foo"), ("SSS_SECOND_FUN_S", "bar"))
]


def _patched(source: str, found: Reasoning) -> Reasoning:
    """What llama.cpp knows of single templates."""
    tags = Reasoning("<think>", "</think>", True)
    if (
        "content.split('</think>')" in source
        and not found.known
        and not any(word in source for word in ("reasoning_content", "<SPECIAL_12>"))
    ):
        found = tags
    if "Write your thoughts between <think></think> and write your response between <response></response>" in source:
        found = tags
    if all(word in source for word in ("<SPECIAL_10>", "<SPECIAL_11>", "<SPECIAL_12>", "<TOOL_RESPONSE>")):
        found = Reasoning("<think>\n", "</think>", True)
    if "laguna_glm_thinking" in source:
        found = found._replace(start=found.start.strip(BLANKS), end=found.end.strip(BLANKS))
    return found


_SEGMENT = regex(r"<[^>]*>|\[[^\]]*\]")
_OPENING = regex(r"[<\[]")
_CLOSING = {"<": ">", "[": "]"}


def _markers(text: str) -> Iterator[tuple[int, int]]:
    """Where the markers of a text begin and end, from left to right; an end that is not there is looked for once."""
    at, lacking = 0, ""
    while opening := _OPENING.search(text, at):
        begin, closing = opening.start(), _CLOSING[opening[0]]
        end = -1 if closing in lacking else text.find(closing, begin)
        at = (begin if end < 0 else end) + 1
        if end >= 0:
            yield begin, at
        elif closing not in lacking:
            lacking += closing


def segments(text: str) -> list[str]:
    """A text cut at its markers."""
    out, at = [], 0
    for begin, end in _markers(text):
        out += [text[at:begin]] if at < begin else []
        out.append(text[begin:end])
        at = end
    rest = text[at:]
    # What opens like a marker and is never closed stands alone.
    cut = next((i for i, c in enumerate(rest) if c in "<["), 0)
    return out + [part for part in (rest[:cut], rest[cut:]) if part]


def _is_marker(segment: str) -> bool:
    return bool(_SEGMENT.fullmatch(segment))


def difference(left: str, right: str) -> tuple[str, str]:
    """What only one of two texts has, as llama.cpp cuts it: whole markers, then single characters."""
    a, b = segments(left), segments(right)
    if not a or not b:
        return (left if a else "", right if b else "")
    i = j = 0
    m, n = len(a) - 1, len(b) - 1
    prefix, done_a, done_b = "", False, False
    while i != m and j != n:
        moved = False
        if a[i] == b[j]:
            prefix += a[i]
            i, j, moved = i + 1, j + 1, True
        if a[m] == b[n]:
            moved = True
            if i != m:
                m -= 1
            else:
                done_a = True
            if j != n:
                n -= 1
            else:
                done_b = True
        if not moved:
            break
    if i == m and j != n:
        if a[i] == b[n]:
            n, done_a = n - 1, True
        elif a[i] == b[j]:
            j, done_a = j + 1, True
    elif j == n and i != m:
        if a[m] == b[j]:
            m, done_b = m - 1, True
        elif a[i] == b[j]:
            i, done_b = i + 1, True
    elif i == m and j == n and a[i] == b[j] and _is_marker(a[i]):
        done_a = done_b = True
    texts_behind = not _is_marker(a[m]) and not _is_marker(b[n])
    texts_before = not _is_marker(a[i]) and not _is_marker(b[j])
    rest_a = "".join(a[i : m if done_a else m + 1])
    rest_b = "".join(b[j : n if done_b else n + 1])
    behind = same_beginning(rest_a[::-1], rest_b[::-1]) if texts_behind else 0
    before = same_beginning(rest_a[: len(rest_a) - behind], rest_b[: len(rest_b) - behind]) if texts_before else 0
    out_a, out_b = rest_a[before : len(rest_a) - behind], rest_b[before : len(rest_b) - behind]
    if not out_a and out_b and right.startswith(left):
        out_b = right[len(left) :]
    return out_a, out_b
