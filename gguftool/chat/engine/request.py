"""What a client asks of llama-server, and how the server takes it in (`tools/server/server-common.cpp`, b11434)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gguftool.chat.conversations import Talk
from gguftool.chat.engine.families import Messages
from gguftool.records import dataclass, field

MEDIA = "<__media__>"
"""Stands for a picture; a running server takes another one each time (``LLAMA_MEDIA_MARKER`` sets it)."""
_MEDIA_TYPES = ("image_url", "input_audio", "input_video", "video_url")


class BadRequest(ValueError):
    """llama-server answers such a request with an error."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for a completion.

    Attributes:
        messages: in OpenAI's shape.
        tools: in OpenAI's shape.
        kwargs: further variables of the template (``chat_template_kwargs``).
        open: ask for the start of the assistant's turn.
        resume: continue the last message: ``content``, ``reasoning_content``, ``auto``; "" when it is not asked for.
        prefill: continue a last message of the assistant unasked, as the server does.
        schema: of ``response_format``.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    open: bool = True
    resume: str = ""
    prefill: bool = True
    schema: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, talk: Talk) -> Asked:
        """A standard conversation as a request."""
        return cls(talk.messages, talk.tools, talk.kwargs, talk.open)


def message(given: Mapping[str, Any]) -> dict[str, Any]:
    """A message as the server takes it in; raises `BadRequest`."""
    if not isinstance(given, Mapping) or not isinstance(given.get("role"), str):
        raise BadRequest("a message is an object with a role")
    role, content, calls = given["role"], given.get("content"), given.get("tool_calls") or []
    if role != "assistant" and "content" not in given:
        raise BadRequest("All non-assistant messages must contain 'content'")
    if "content" not in given and "tool_calls" not in given:
        raise BadRequest("Assistant message must contain either 'content' or 'tool_calls'!")
    if isinstance(content, list):
        content = [_part(part) for part in content]
    elif not (content is None or isinstance(content, str)):
        raise BadRequest("Expected 'content' to be a string or an array")
    out: dict[str, Any] = {"role": role, "content": content or ""}
    for key in ("reasoning_content", "name", "tool_call_id"):
        value = given.get(key)
        if not (value is None or isinstance(value, str)):
            raise BadRequest(f"{key} of a message must be a string")
        if value:
            out[key] = value
    if calls:
        out["tool_calls"] = [_call(call) for call in calls]
    return out


def _part(part: Any) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind in _MEDIA_TYPES:
        return {"type": "media_marker", "text": MEDIA}
    if kind != "text" or not isinstance(part.get("text"), str):
        raise BadRequest("unsupported content[].type")
    return {"type": "text", "text": part["text"]}


def _call(call: Any) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or call.get("type") != "function":
        raise BadRequest("a tool call needs the type 'function' and a function")
    if not isinstance(function.get("name"), str) or "arguments" not in function:
        raise BadRequest("a tool call needs a name and arguments")
    arguments = function["arguments"]
    made = arguments if isinstance(arguments, str) else _dumped(arguments)
    out: dict[str, Any] = {"type": "function", "function": {"name": function["name"], "arguments": made}}
    return {**out, "id": call["id"]} if call.get("id") else out


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def tool(given: Mapping[str, Any]) -> dict[str, Any]:
    """A declared function as the server hands it on; raises `BadRequest`."""
    function = given.get("function") if isinstance(given, Mapping) else None
    if (
        not isinstance(function, Mapping)
        or given.get("type") != "function"
        or not isinstance(function.get("name"), str)
    ):
        raise BadRequest("a tool needs the type 'function' and a function with a name")
    return {
        "type": "function",
        "function": {
            "name": function["name"],
            "description": function.get("description", ""),
            "parameters": function.get("parameters", {}),
        },
    }


def resumed(asked: Asked, messages: Messages) -> tuple[str, bool]:
    """How the last message is continued ("": not at all), and whether the assistant's turn is opened."""
    resume, opened = asked.resume, asked.open
    if not resume and asked.prefill and messages and messages[-1]["role"] == "assistant":
        if len(messages) > 1 and messages[-2]["role"] == "assistant":
            raise BadRequest("Cannot have 2 or more assistant messages at the end of the list.")
        resume, opened = "auto", False
    if resume and opened:
        raise BadRequest("Cannot set both add_generation_prompt and continue_final_message to true.")
    if resume and messages and messages[-1]["role"] == "assistant" and messages[-1].get("tool_calls"):
        raise BadRequest("Cannot continue an assistant message that contains tool calls.")
    if resume == "auto" and messages:
        thoughts = messages[-1].get("reasoning_content") and not messages[-1]["content"]
        resume = "reasoning_content" if thoughts else "content"
    return resume, opened
