"""Which text llama.cpp takes for the chat template of a model (`chat.cpp:common_chat_templates_init`, b11434)."""

from __future__ import annotations

CHATML = (
    "{%- for message in messages -%}\n"
    "  {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}\n"
    "  {{- '<|im_start|>assistant\n' -}}\n"
    "{%- endif -%}"
)
"""What llama.cpp takes where a model has no template."""
_SWITCHED_OFF = (
    (
        ("<|channel|>", "in message.content or"),
        '{%- if "<|channel|>analysis<|message|>" in message.content or '
        '"<|channel|>final<|message|>" in message.content %}',
    ),
    (
        ("[TOOL_CALLS]", "if (message['content'] is none or"),
        "{%- if (message['content'] is none or message['content'] == '' or message['content']|length == 0) and "
        "(message['tool_calls'] is not defined or message['tool_calls'] is none or "
        "message['tool_calls']|length == 0) %}",
    ),
)
"""Conditions of two templates that llama.cpp takes out: what they refuse is what a server needs."""


def main_source(template: str | None, tool_use: str | None = None) -> str:
    """The text of the main template, as the server uses it and as its ``/props`` shows it.

    Args:
        template: the main template; None, "" and ``chatml`` for none.
        tool_use: the template for requests with tools, which stands in for it.
    """
    source = template if template not in (None, "", "chatml") else tool_use or CHATML
    for words, condition in _SWITCHED_OFF:
        if all(word in source for word in words):
            source = source.replace(condition, "{%- if false %}")
    return source
