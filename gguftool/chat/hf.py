"""Prompts as Hugging Face's ``transformers`` makes them (`utils/chat_template_utils.py`, 5.24).

Its engine is jinja2 with the settings of `gguftool.chat.sandbox`; what it hands to the template differs from what
llama-server does: the messages as they are given, ``tools`` and ``documents`` even when there are none,
``add_generation_prompt`` even when it is false, no ``enable_thinking`` and no date.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gguftool.chat.engine.request import Asked

if TYPE_CHECKING:
    from gguftool.chat.sandbox import Rendered, Template

_THOUGHTS = ("reasoning_content", "thinking", "reasoning")
"""Names under which messages carry thoughts; the template finds them under the first two."""


def applied(template: Template, asked: Asked, specials: Mapping[str, str], seconds: float | None = None) -> Rendered:
    """What ``apply_chat_template`` makes of a conversation.

    Args:
        template: parsed.
        asked: the conversation; a last message of the assistant is a message like any other.
        specials: texts of special tokens by name: ``bos_token``, ``eos_token`` …
        seconds: of the processor that it may take; None: `Meter.SECONDS`.
    """
    variables: dict[str, Any] = {
        **specials,
        **asked.kwargs,
        "messages": _with_thoughts(asked.messages),
        "tools": list(asked.tools) or None,
        "documents": None,
        "add_generation_prompt": asked.open,
    }
    return template.render(variables, seconds)


def _with_thoughts(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    out = []
    for message in messages:
        thoughts = next((message[name] for name in _THOUGHTS if message.get(name) is not None), None)
        named = {} if thoughts is None else {"reasoning_content": thoughts}
        first = {} if thoughts is None else {"thinking": thoughts}
        out.append({**first, **message, **named})
    return out
