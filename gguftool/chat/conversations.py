"""The standard conversations that chat templates are tried with: one home for lint, ``render`` and comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gguftool.records import dataclass, field, replace

SYSTEM, USER, REPLY, MORE = (
    "Be brief, said xsystemx.",
    "Hello, said xuserx.",
    "Hi, said xreplyx.",
    "Go on, said xmorex.",
)
"""Texts whose last word finds them again in a prompt."""
THOUGHT = "I should greet, said xthoughtx."
SPOKEN = {
    SYSTEM: "Answer in one sentence.",
    USER: "How cold is it in Oslo?",
    REPLY: "It is 4 degrees in Oslo.",
    MORE: "And in Rome?",
    THOUGHT: "The user asks for the weather in Oslo.",
}
"""The same as people would say it, where a conversation is shown and nothing is looked for."""
UNICODE = (
    "Grüße, naïve café — “quotes” 'single' \"double\" \\ / <b>&amp;</b>\n\ttabbed {{ braces }} {% raw %}\n"
    "日本語 العربية עברית हिन्दी 👩\u200d👧 e\u0301 \u00a0nbsp \u200bzero <|im_end|> [INST] </s>"
)
PIXEL = "data:image/png;base64," + (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""A picture of one pixel."""


def says(role: str, content: Any, **more: Any) -> dict[str, Any]:
    """A message."""
    return {"role": role, "content": content, **more}


def calls(*functions: tuple[str, Mapping[str, Any]], content: str = "", **more: Any) -> dict[str, Any]:
    """A message of the assistant that calls functions by name with arguments."""
    made = [
        {"id": f"call{i:05}", "type": "function", "function": {"name": name, "arguments": dict(arguments)}}
        for i, (name, arguments) in enumerate(functions, 1)
    ]
    return {"role": "assistant", "content": content, "tool_calls": made, **more}


def _result(content: str, number: int = 1, name: str = "weather") -> dict[str, Any]:
    return {"role": "tool", "name": name, "tool_call_id": f"call{number:05}", "content": content}


def _tool(name: str, description: str, properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": dict(properties), "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


WEATHER = _tool("weather", "Weather of a city.", {"city": {"type": "string", "description": "Name."}}, ["city"])
CLOCK = _tool(
    "clock",
    'The time "now" — in a zone.',
    {
        "zone": {"type": "string", "enum": ["utc", "local"], "description": "Zone."},
        "days": {"type": "array", "items": {"type": "integer"}},
        "exact": {"type": "boolean", "default": False},
    },
    [],
)
_CALL = calls(("weather", {"city": "Oslo"}))


@dataclass(frozen=True, slots=True)
class Talk:
    """One conversation.

    Attributes:
        title: for messages: ``a system message``.
        messages: as a client sends them (OpenAI's shape; the arguments of calls as objects).
        tools: functions declared, in the same shape.
        kwargs: further variables of the template (``chat_template_kwargs``).
        open: ask for the start of the assistant's turn.
    """

    title: str
    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    open: bool = True


def spoken(talk: Talk) -> Talk:
    """A conversation in the words of people."""
    return replace(talk, messages=tuple(_spoken(m) for m in talk.messages))


def _spoken(value: Any) -> Any:
    if isinstance(value, str):
        for probe, words in SPOKEN.items():
            value = value.replace(probe, words)
        return value
    if isinstance(value, Mapping):
        return {key: _spoken(item) for key, item in value.items()}
    return [_spoken(item) for item in value] if isinstance(value, list) else value


_ASKED = says("user", USER)
STANDARD: Mapping[str, Talk] = {
    "user": Talk("one user message", (_ASKED,)),
    "closed": Talk("one user message without generation prompt", (_ASKED,), open=False),
    "turns": Talk("three turns", (_ASKED, says("assistant", REPLY), says("user", MORE))),
    "system": Talk("a system message", (says("system", SYSTEM), _ASKED)),
    "empty": Talk("an empty user message", (says("user", ""),)),
    "two-users": Talk("two user turns in a row", (_ASKED, says("user", MORE))),
    "tools": Talk(
        "a tool call and its result",
        (_ASKED, _CALL, _result("4 degrees"), says("assistant", REPLY), says("user", MORE)),
        (WEATHER,),
    ),
    "tools-declared": Talk("tools, none called", (_ASKED,), (WEATHER, CLOCK)),
    "tools-system": Talk("tools and a system message", (says("system", SYSTEM), _ASKED), (WEATHER, CLOCK)),
    "tool-result": Talk("a tool's result to be answered", (_ASKED, _CALL, _result("4 degrees")), (WEATHER,)),
    "tool-closed": Talk("a tool's result, no generation prompt", (_ASKED, _CALL, _result("4")), (WEATHER,), open=False),
    "tool-json": Talk("a tool's result in JSON", (_ASKED, _CALL, _result('{"degrees": 4, "ok": true}')), (WEATHER,)),
    "tool-text": Talk(
        "a tool call with text before it",
        (_ASKED, calls(("weather", {"city": "Oslo"}), content=REPLY), _result("4 degrees")),
        (WEATHER,),
    ),
    "tool-parallel": Talk(
        "two tool calls at once",
        (
            _ASKED,
            calls(("weather", {"city": "Oslo"}), ("clock", {"zone": "utc", "days": [1, 2], "exact": True})),
            _result("noon", 2, "clock"),
            _result("4 degrees", 1),
        ),
        (WEATHER, CLOCK),
    ),
    "tool-arguments": Talk(
        "a tool call with odd arguments",
        (
            _ASKED,
            calls(
                ("clock", {"zone": 'a "b" \\ é 😀\n', "n": -2, "x": 1.5, "none": None, "no": False, "of": {"a": []}})
            ),
            _result("noon", 1, "clock"),
        ),
        (CLOCK,),
    ),
    "thinking": Talk(
        "an earlier turn with thoughts",
        (_ASKED, says("assistant", REPLY, reasoning_content=THOUGHT), says("user", MORE)),
    ),
    "thinking-off": Talk("thinking turned off", (_ASKED,), kwargs={"enable_thinking": False}),
    "thinking-low": Talk("little reasoning effort", (_ASKED,), kwargs={"reasoning_effort": "low"}),
    "thinking-tools": Talk(
        "thoughts before a tool call",
        (_ASKED, calls(("weather", {"city": "Oslo"}), reasoning_content=THOUGHT), _result("4 degrees")),
        (WEATHER,),
    ),
    "image": Talk(
        "a picture",
        (
            says(
                "user",
                [
                    {"type": "text", "text": USER},
                    {"type": "image_url", "image_url": {"url": PIXEL}},
                    {"type": "text", "text": MORE},
                ],
            ),
        ),
    ),
    "parts": Talk(
        "content in parts",
        (
            says("system", [{"type": "text", "text": SYSTEM}]),
            says("user", [{"type": "text", "text": USER}, {"type": "text", "text": MORE}]),
        ),
    ),
    "prefill": Talk("the beginning of an answer", (_ASKED, says("assistant", REPLY))),
    "prefill-thinking": Talk(
        "the beginning of an answer after thoughts", (_ASKED, says("assistant", REPLY, reasoning_content=THOUGHT))
    ),
    "developer": Talk("a developer message", (says("developer", SYSTEM), _ASKED)),
    "late-system": Talk("a system message in the middle", (_ASKED, says("system", SYSTEM), says("user", MORE))),
    "unicode": Talk("text in many scripts", (says("user", UNICODE), says("assistant", UNICODE), says("user", UNICODE))),
    "spaces": Talk(
        "blanks around texts",
        (says("system", f" \n{SYSTEM}\n "), says("user", f"\t{USER}\n\n"), says("assistant", f"\n {REPLY} "), _ASKED),
    ),
}
"""By name, the plainest first."""
EXAMPLE = Talk(
    "the example that llama-server logs when it starts",
    (
        says("system", "You are a helpful assistant"),
        says("user", "Hello"),
        says("assistant", "Hi there"),
        says("user", "How are you?"),
    ),
)
