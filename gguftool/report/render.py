"""Prompts for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from gguftool.report.text import Style, Styled, safe, safe_lines, table

if TYPE_CHECKING:
    from gguftool.api.render import Prompt
    from gguftool.chat.prompts import Apart, Segment
    from gguftool.chat.sandbox import Rendered

_SAYS = {
    "raised": "the chat template refuses this conversation",
    "request": "llama-server refuses this request",
    "limit": "the chat template wants more than it may",
}


def why_not(prompt: Prompt) -> str:
    """Why there is no prompt."""
    return f"{_SAYS.get(prompt.kind, 'the chat template fails on this conversation')}: {prompt.error}"


def marked(segments: Iterable[Segment], style: Style) -> str:
    """A prompt with its special tokens in colour, or in brackets where there is no colour."""
    return "".join(_mark(s.text, style) if s.token is not None else safe_lines(s.text) for s in segments)


def _mark(text: str, style: Style) -> str:
    return style.cyan(text) if style.enabled else f"⟦{safe(text)}⟧"


def prompt_text(prompt: Prompt, style: Style) -> str:
    """The prompt and, where they were asked for, its tokens."""
    out = marked(prompt.segments, style)
    if prompt.tokens is None:
        return out
    rows = [(i, str(token), Styled(repr_piece(piece))) for i, (token, piece) in enumerate(prompt.tokens)]
    return f"{out}\n\n{table(rows, ('', 'token', 'piece'), align='rrl', style=style)}"


def repr_piece(piece: str) -> str:
    """A token's text in quotes, with its blanks to be seen."""
    return f"'{safe(piece)}'"


def prompt_json(prompt: Prompt) -> dict[str, Any]:
    """The fields of ``gguftool render --format json``."""
    tokens = None if prompt.tokens is None else [{"id": i, "piece": piece} for i, piece in prompt.tokens]
    return {
        "prompt": None if prompt.kind else prompt.text,
        "template": prompt.template,
        "thinking": prompt.thinking,
        "failed": {"kind": prompt.kind, "message": prompt.error} if prompt.kind else None,
        "segments": [{"text": s.text, "token": s.token, "kind": s.kind} for s in prompt.segments],
        "tokens": tokens,
    }


def apart_text(found: Sequence[Apart], count: int, ours: str, theirs: str, style: Style) -> str:
    """Where two templates part, conversation by conversation."""
    if not found:
        return f"the same prompts for all {count} standard conversations"
    lines: list[str] = [style.dim(f"--- {safe(ours)}"), style.dim(f"+++ {safe(theirs)}")]
    for one in found:
        lines.append(f"{style.bold(one.title)} ({one.name})")
        lines += [style.red(f"- {_side(one.ours, one.at)}"), style.green(f"+ {_side(one.theirs, one.at)}")]
    return "\n".join([*lines, f"{len(found)} of {count} standard conversations become different prompts"])


def _side(result: Rendered, at: int | None) -> str:
    from gguftool.chat.prompts import excerpt

    return f"no prompt: {result.error}" if result.kind else safe(excerpt(result.text, at))


def apart_json(found: Sequence[Apart], count: int) -> dict[str, Any]:
    """The fields of ``gguftool render --diff --format json``."""
    return {
        "conversations": count,
        "differences": [
            {"name": a.name, "title": a.title, "at": a.at, "ours": _outcome(a.ours), "theirs": _outcome(a.theirs)}
            for a in found
        ],
    }


def _outcome(result: Rendered) -> dict[str, Any]:
    return {"prompt": None if result.kind else result.text, "error": result.error or None}
