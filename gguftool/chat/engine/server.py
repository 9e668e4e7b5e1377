"""A conversation on its way through llama-server to a prompt (`tools/server/server-common.cpp`, `common/chat.cpp`).

The same steps in the same order as build b11434: the request is checked, messages are brought into the shape that the
template takes, its family has its say, and it is rendered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

from gguftool.chat.engine.families import Messages, continued, family
from gguftool.chat.engine.program import EFFORT, Program, preserve
from gguftool.chat.engine.reasoning import Reasoning, reasoning
from gguftool.chat.engine.request import Asked, BadRequest, message, resumed, tool
from gguftool.chat.engine.values import BLANKS
from gguftool.chat.sandbox import Rendered
from gguftool.chat.sources import main_source
from gguftool.near import same_beginning
from gguftool.reading import Malformed, from_json


class Server:
    """What llama-server makes of a model's templates.

    Args:
        template: the main template; None, "" and ``chatml`` for none.
        tool_use: the template for requests with tools.
        bos: text of the token that begins a text; ``add_bos``: the tokenizer adds it, so the prompt goes without.
        eos: of the one that ends it.
        add_bos: see ``bos``.
        add_eos: see ``eos``.
        now: what the template takes for the time.

    Raises:
        jinja2.TemplateSyntaxError: the main template does not parse.
        LimitReached: it is too large to be looked at.
    """

    def __init__(
        self,
        template: str | None,
        tool_use: str | None = None,
        *,
        bos: str = "",
        eos: str = "",
        add_bos: bool = False,
        add_eos: bool = False,
        now: datetime | None = None,
    ) -> None:
        import jinja2

        self._bos, self._eos, self._add_bos, self._add_eos = bos, eos, add_bos, add_eos
        self._now = now or datetime.now()
        self.main = Program(main_source(template, tool_use))
        self.tool_use: Program | None = None
        if tool_use:
            try:
                self.tool_use = Program(tool_use)
            except jinja2.TemplateSyntaxError:
                pass  # the server logs it and goes on with the main one

    def within(self, seconds: float) -> None:
        """What the renderings from now on take together of the processor; those behind it end at once."""
        for program in (self.main, self.tool_use):
            if program is not None:
                program.left = seconds

    @property
    def late(self) -> bool:
        """Whether that time is over."""
        return any(program is not None and program.left <= 0 for program in (self.main, self.tool_use))

    @cached_property
    def thinks(self) -> bool:
        """Whether ``enable_thinking`` is true where nobody says anything."""
        row = family(self.main.source)
        return row.thinks if row is not None else self.reasoning(self.main).known

    def reasoning(self, program: Program) -> Reasoning:
        """How a template writes thoughts."""

        def prompt(messages: Messages, *, tools: Any = None, opened: bool = False, thinking: bool = True) -> str | None:
            more = {"enable_thinking": thinking}
            result = self._rendered(program, messages, tools, more, thinking, opened, trial=True)
            return None if result.kind else result.text

        return reasoning(program.source, prompt, tool_calls=program.caps.tool_calls)

    def prompt(self, asked: Asked) -> Rendered:
        """The prompt; kind ``request`` when the server refuses the request itself."""
        try:
            return self._prompt(asked)
        except BadRequest as e:
            return Rendered("", str(e), "request")

    def _prompt(self, asked: Asked) -> Rendered:
        messages, tools = [message(m) for m in asked.messages], [tool(t) for t in asked.tools]
        resume, opened = resumed(asked, messages)
        program = self.tool_use if tools and self.tool_use is not None else self.main
        source, caps = program.source, program.caps
        last: dict[str, Any] = messages.pop() if resume and messages else {}
        if "You have access to the following functions in JSONSchema format" in source:
            messages = [_trimmed(m) for m in messages]
        messages = self._shaped(messages, program)
        kwargs = {"preserve_reasoning": True, **asked.kwargs}
        thinking = self.thinks
        if "enable_thinking" in kwargs:
            if isinstance(kwargs["enable_thinking"], str):
                raise BadRequest('invalid type for "enable_thinking" (expected boolean, got string)')
            if isinstance(kwargs["enable_thinking"], bool):
                thinking = kwargs["enable_thinking"]
        more = {
            "datetime": self._now.strftime("%b %d %Y"),
            "date_string": self._now.strftime("%d %b %Y"),
            **kwargs,
        }
        if caps.object_arguments:
            _objects(messages)
        row = family(source)
        if row is not None and row.rewrite is not None:
            messages = row.rewrite(source, messages)
        if asked.schema is not None and row is not None and row.name == "DeepSeek V4":
            more["response_format"] = dict(asked.schema)
        # A family's messages are taken as they are.
        rewritten = row is not None and row.rewrite is not None
        given = len(json.dumps([list(asked.messages), list(asked.tools)], default=str))

        def render(turn: bool) -> Rendered:
            return self._rendered(program, messages, tools, more, thinking, turn, plain=rewritten, given=given)

        result = render(opened)
        if result.kind:
            return result
        text = row.ending(result.text, opened) if row is not None and row.ending is not None else result.text
        if resume and any(last.get(k) for k in ("content", "reasoning_content", "name", "tool_call_id", "tool_calls")):
            closed, turn = render(False), render(True)
            opening = turn.text[same_beginning(closed.text, turn.text) :]
            text += self._continued(program, text, opening, last, resume)
        return Rendered(text)

    def _continued(self, program: Program, text: str, opening: str, last: Mapping[str, Any], resume: str) -> str:
        thoughts, answer = last.get("reasoning_content", ""), _plain(last.get("content", ""))
        begun = answer if resume == "content" else None
        row = family(program.source)
        if row is not None:
            return continued(row, text, opening, thoughts, answer if row.only_text else begun)
        start, end, _ = self.reasoning(program)
        if start:
            opening = opening.partition(start)[0] + start + thoughts + (end if begun is not None else "")
        return opening + (begun or "")

    def _shaped(self, messages: Messages, program: Program) -> Messages:
        """In the shape the template takes."""
        caps = program.caps
        out = [_content(_with_media(m), as_text=caps.string_content, as_parts=caps.typed_content) for m in messages]
        if "<|channel|>" not in program.source:
            for m in out:
                m["role"] = "system" if m["role"] == "developer" else m["role"]
        if not caps.system_role and out and out[0]["role"] == "system":
            first = out.pop(0)
            if out:
                if not isinstance(first["content"], str) or not isinstance(out[0]["content"], str):
                    raise BadRequest("the system message cannot be put into the next one: its content is in parts")
                out[0]["content"] = f"{first['content']}\n{out[0]['content']}"
        return out

    def _rendered(
        self,
        program: Program,
        messages: Messages,
        tools: Any,
        more: Mapping[str, Any],
        thinking: bool,
        opened: bool,
        *,
        plain: bool = False,
        given: int = 0,
        trial: bool = False,
    ) -> Rendered:
        caps = program.caps
        if not plain:
            messages = [_content(m, as_text=caps.string_content, as_parts=caps.typed_content) for m in messages]
        variables: dict[str, Any] = {
            "messages": messages,
            "bos_token": self._bos,
            "eos_token": self._eos,
            "enable_thinking": thinking,
            **({"tools": tools} if tools else {}),
            **more,
        }
        if opened:
            # llama.cpp leaves the variable out rather than passing false.
            variables["add_generation_prompt"] = True
        if isinstance(variables.get("preserve_reasoning"), bool):
            variables = {**preserve(variables["preserve_reasoning"]), **variables}
        if isinstance(effort := variables.get("reasoning_effort"), str):
            variables = {**dict.fromkeys(EFFORT, effort), **variables}
        # The template may change what it is given: every rendering has its own.
        result = program.render(json.loads(json.dumps(variables)), self._now, given, trial=trial)
        if result.kind:
            return result
        text = result.text
        text = text.removeprefix(self._bos) if self._add_bos else text
        return Rendered(text.removesuffix(self._eos) if self._add_eos else text)


def _trimmed(m: dict[str, Any]) -> dict[str, Any]:
    out = dict(m)
    if isinstance(m["content"], str):
        out["content"] = m["content"].strip(BLANKS)
    else:
        out["content"] = [{**p, "text": p["text"].strip(BLANKS)} if p["type"] == "text" else p for p in m["content"]]
    if thoughts := m.get("reasoning_content", "").strip(BLANKS):
        out["reasoning_content"] = thoughts
    else:
        out.pop("reasoning_content", None)
    return out


def _content(m: Mapping[str, Any], *, as_text: bool, as_parts: bool) -> dict[str, Any]:
    """A message whose content is of the only kind that the template takes."""
    content = m.get("content")
    if as_parts and not as_text and isinstance(content, str):
        return {**m, "content": [{"type": "text", "text": content}]}
    if as_text and not as_parts and isinstance(content, list):
        return {**m, "content": _joined(content)}
    return dict(m)


def _with_media(m: dict[str, Any]) -> dict[str, Any]:
    """A message with a picture has one text as content, whatever the template takes."""
    content = m["content"]
    pictures = isinstance(content, list) and any(part["type"] == "media_marker" for part in content)
    return {**m, "content": _joined(content)} if pictures else m


def _joined(parts: Messages) -> str:
    """Parts as one text: a line each, a picture where it stands."""
    text, media = "", False
    for part in parts:
        if part["type"] == "text":
            text += "\n" if text and not media else ""
        media = part["type"] != "text"
        text += part["text"]
    return text


def _plain(content: Any) -> str:
    """Content as a text that is continued."""
    if isinstance(content, str):
        return content
    text = ""
    for part in content:
        if part["type"] == "text":
            text += ("\n\n" if text else "") + part["text"]
    return text


def _objects(messages: Messages) -> None:
    """Arguments of calls as objects."""
    for m in messages:
        for call in m.get("tool_calls", ()):
            if isinstance(call["function"]["arguments"], str):
                try:
                    call["function"]["arguments"] = from_json(call["function"]["arguments"])
                except Malformed as e:
                    raise BadRequest(f"Failed to parse tool call arguments as JSON: {e}") from None
