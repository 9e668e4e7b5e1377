"""Prompts: what the chat template of a model makes of a conversation, as llama-server renders it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gguftool.brief import short_repr
from gguftool.chat.infolder import order
from gguftool.errors import MissingFile, ToolFailed, UsageError
from gguftool.hub import open_source, opened
from gguftool.records import dataclass, replace
from gguftool.shell import gguftool, path_word

if TYPE_CHECKING:
    from gguftool.chat.engine.request import Asked
    from gguftool.chat.engine.server import Server
    from gguftool.chat.prompts import Apart, Segment
    from gguftool.model import Model

    AnyModel = Model | str | os.PathLike[str]

"""Where a Hugging Face repository has its template, in the order of the converter."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a conversation becomes.

    Attributes:
        text: the prompt, to the character; "" when there is none.
        error: why there is none, "" when there is.
        kind: ``raised`` (the template refuses), ``request`` (llama-server refuses the request), ``error``, ``limit``;
            "" when there is a prompt.
        template: name of the template; "" for the ChatML that llama-server takes where a model has none.
        segments: the prompt cut at its special tokens.
        thinking: whether ``enable_thinking`` was true.
        tokens: its token ids and their pieces, where they were asked for.
    """

    text: str
    error: str
    kind: str
    template: str
    segments: tuple[Segment, ...]
    thinking: bool
    tokens: tuple[tuple[int, str], ...] | None = None

    __repr__ = short_repr


def render(
    model: AnyModel,
    messages: str | Sequence[Mapping[str, Any]] | Asked | None = None,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    template: str | os.PathLike[str] | None = None,
    template_name: str | None = None,
    kwargs: Mapping[str, Any] | None = None,
    generation_prompt: bool = True,
    tokens: bool = False,
    now: datetime | None = None,
) -> Prompt:
    """The exact prompt that llama-server makes of a conversation with the chat template of a model.

    Args:
        model: a path, an address, or an open model.
        messages: in OpenAI's shape; a text is what a user says; None: llama-server's own example.
        tools: functions declared, in OpenAI's shape.
        template: a file whose template is taken in place of the model's.
        template_name: the named template to take, ``tool_use`` for example.
        kwargs: further variables of the template (``chat_template_kwargs``), ``enable_thinking`` among them.
        generation_prompt: ask for the start of the assistant's turn.
        tokens: also the token ids, from llama.cpp's tokenizer (needs the extra ``server`` and a local file).
        now: what the template takes for the time.

    Raises:
        UsageError: there is no such template, or it does not parse.
        ToolFailed: the tokens were asked for and cannot be had.
    """
    from gguftool.chat.conversations import EXAMPLE
    from gguftool.chat.document import DEFAULT
    from gguftool.chat.engine.request import Asked
    from gguftool.chat.prompts import segments, server, templates
    from gguftool.model.vocab import vocabulary

    if isinstance(messages, Asked):
        asked = messages
    elif isinstance(messages, str):
        asked = Asked(({"role": "user", "content": messages},))
    else:
        asked = Asked(tuple(EXAMPLE.messages if messages is None else messages))
    asked = replace(
        asked,
        tools=tuple(tools) or asked.tools,
        kwargs={**asked.kwargs, **(kwargs or {})},
        open=asked.open and generation_prompt,
    )
    with opened(model) as m:
        named = templates(m) if template is None else _templates_of(os.fspath(template))
        made = server(m, named, template_name, now=now)
        result = made.prompt(asked)
        used = template_name or ("tool_use" if asked.tools and made.tool_use else DEFAULT if DEFAULT in named else "")
        thinking = asked.kwargs.get("enable_thinking")
        prompt = Prompt(
            text=result.text,
            error=result.error,
            kind=result.kind,
            template=used,
            segments=segments(result.text, vocabulary(m)),
            thinking=thinking if isinstance(thinking, bool) else made.thinks,
        )
        return replace(prompt, tokens=_tokens(m, result.text)) if tokens and not result.kind else prompt


def _tokens(m: Model, text: str) -> tuple[tuple[int, str], ...]:
    from gguftool.hub import on_this_machine
    from gguftool.run.tokens import tokenize

    made = tokenize(on_this_machine(m.parts[0].name), [text])
    return tuple((i, made.piece(i)) for i in made.ids[0])


def compare_templates(
    model: AnyModel,
    other: AnyModel,
    *,
    template: str | os.PathLike[str] | None = None,
    template_name: str | None = None,
    now: datetime | None = None,
) -> tuple[Apart, ...]:
    """The standard conversations of which two templates make different prompts, each with where it first differs.

    Args:
        model: a path, an address, or an open model.
        other: another model; a file with a template (Jinja, ``tokenizer_config.json``, ``chat_template.json``); a
            Hugging Face folder or ``hf://owner/repo``. A template without a model gets the tokens of ``model``.
        template: a file whose template is taken in place of the model's.
        template_name: the named template to take of both.
        now: what the templates take for the time.

    Raises:
        UsageError: one has no template, it does not parse, or all conversations together take too long.
    """
    from gguftool.chat.meter import LimitReached
    from gguftool.chat.prompts import apart, server, templates

    now = now or datetime.now()
    with opened(model) as m:
        mine = templates(m) if template is None else _templates_of(os.fspath(template))
        ours = server(m, mine, template_name, bos=False, now=now)
        theirs = _other(m, other, template_name, now)
        try:
            return apart(ours, theirs)
        except LimitReached as e:
            one = gguftool("render", "--conversation", "user", path_word(m.name))
            raise UsageError(f"{m.name}: not compared: {e}", f"one conversation: {one}") from None


def _other(m: Model, other: AnyModel, name: str | None, now: datetime) -> Server:
    from gguftool.chat.prompts import server, templates
    from gguftool.model import Model

    named = None if isinstance(other, Model) else _bare_templates(os.fspath(other))
    if named is not None:
        return server(m, named, name, bos=False, now=now)
    with opened(other) as o:
        return server(o, templates(o), name, bos=False, now=now)


def _bare_templates(spec: str) -> Mapping[str, str] | None:
    """The templates of something that is no model; None for a model."""
    if "://" in spec:
        return _of_address(spec)
    if os.path.isdir(spec):
        inside = os.listdir(spec)
        there = [name for name in order(inside) if os.path.isfile(os.path.join(spec, name))]
        has_model = any(name.endswith(".gguf") for name in inside)
        return None if has_model else _first([os.path.join(spec, name) for name in there], spec)
    if not os.path.exists(spec):
        return None
    with open(spec, "rb") as file:
        return None if file.read(4) in (b"GGUF", b"FUGG") else _templates_of(spec)


def _first(paths: Sequence[str], where: str) -> Mapping[str, str]:
    """The templates of the first of these files that has any."""
    for path in paths:
        try:
            return _templates_of(path)
        except UsageError:
            if path == paths[-1]:
                raise
    raise UsageError(f"{where}: holds no chat template", f"looked for {', '.join(order(()))}")


def _templates_of(path: str) -> Mapping[str, str]:
    from gguftool.edit.template import templates_in

    return templates_in(path)


def _of_address(spec: str) -> Mapping[str, str] | None:
    from gguftool.edit.template import templates_of_bytes

    if spec.endswith(".gguf") or not spec.startswith(("hf://", "http://", "https://")):
        return None
    single = spec.endswith((".jinja", ".json"))
    for name in [""] if single else order(()):
        where = f"{spec.rstrip('/')}/{name}" if name else spec
        try:
            source = open_source(where)
        except (MissingFile, ToolFailed):
            if single:
                raise
            continue
        try:
            return templates_of_bytes(where, source.read_at(0, source.size))
        except UsageError:
            if single:
                raise
        finally:
            source.close()
    return None
