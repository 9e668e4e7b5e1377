"""A conversation as people write it down: OpenAI's JSON, or plain text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gguftool.chat.document import begins
from gguftool.chat.engine.request import Asked
from gguftool.reading import Malformed, from_json
from gguftool.regex import regex

_SURROGATE = regex("[\ud800-\udfff]")
_KNOWN = frozenset(
    "messages tools chat_template_kwargs add_generation_prompt continue_final_message reasoning_effort "
    "response_format json_schema".split()
)


def asked(text: str, tools: str | None = None) -> Asked:
    """The request that a text describes.

    Args:
        text: a list of messages, an object with ``messages`` (a whole request), or anything else: what a user says.
        tools: a list of tools, or an object with ``tools``; in place of those of ``text``.

    Raises:
        ValueError: it is JSON of another shape.
    """
    value = _json(text)
    if _SURROGATE.search(json.dumps(value, ensure_ascii=False)):
        raise ValueError("holds half of a surrogate pair, which llama-server's reader of JSON refuses")
    if isinstance(value, str):
        return Asked(({"role": "user", "content": value},), _tools(tools, None))
    body: Mapping[str, Any] = {"messages": value} if isinstance(value, list) else value
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise ValueError("is JSON without messages: it takes a list of them, or an object with messages")
    if not all(isinstance(m, dict) for m in messages):
        raise ValueError("holds messages that are no objects")
    kwargs = _object(body, "chat_template_kwargs")
    effort = body.get("reasoning_effort")
    if effort == "none":
        kwargs = {k: v for k, v in kwargs.items() if k != "reasoning_effort"} | {"enable_thinking": False}
    elif isinstance(effort, str) and effort:
        kwargs = {**kwargs, "reasoning_effort": effort}
    resume = body.get("continue_final_message")
    return Asked(
        messages=tuple(messages),
        tools=_tools(tools, body.get("tools")),
        kwargs=kwargs,
        open=body.get("add_generation_prompt") is not False,
        resume="auto" if resume is True else resume if resume in ("content", "reasoning_content") else "",
        schema=_schema(body),
    )


def unread(text: str) -> tuple[str, ...]:
    """Fields of a request that change no prompt."""
    value = _json(text)
    return tuple(k for k in value if k not in _KNOWN) if isinstance(value, dict) else ()


def _json(text: str) -> Any:
    """Lists and objects; whatever else there is counts as what a user says."""
    if text.lstrip()[:1] not in ("[", "{"):
        return text
    try:
        value = from_json(text)
    except Malformed as e:
        if text.lstrip()[:1] == "[" and text.lstrip()[1:].lstrip()[:1] not in ("{", "]"):
            return text
        raise ValueError(begins(e)) from None
    return value if isinstance(value, (list, dict)) else text


def _tools(text: str | None, own: Any) -> tuple[Mapping[str, Any], ...]:
    value = own
    if text is not None:
        try:
            value = from_json(text)
        except Malformed as e:
            raise ValueError(str(e)) from None
        value = value.get("tools") if isinstance(value, dict) else value
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(t, dict) for t in value):
        raise ValueError("holds tools that are no list of objects")
    # A bare function, as some write it, stands for a tool of that type.
    return tuple(t if "function" in t else {"type": "function", "function": t} for t in value)


def _object(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = body.get(name) or {}
    if not isinstance(value, dict):
        raise ValueError(f"holds {name} that is no object")
    return value


def _schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    wanted, schema = _object(body, "response_format"), body.get("json_schema")
    if wanted.get("type") == "json_object":
        schema = wanted.get("schema", schema or {})
    elif wanted.get("type") == "json_schema":
        schema = _object(wanted, "json_schema").get("schema", {})
    if not isinstance(schema, dict):
        return None
    return schema or {"type": "object"}
