"""``gguftool render``: the exact prompt that a chat template makes of a conversation."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from gguftool.cli.options import Session, command, format_option, model_argument, option, pass_session
from gguftool.cli.values import MODEL
from gguftool.errors import UsageError
from gguftool.reading import Malformed, from_json
from gguftool.records import replace

if TYPE_CHECKING:
    from gguftool.chat.engine.request import Asked

_STDIN = "-"


@command(
    examples="""
    gguftool render model.gguf                            llama-server's own example
    gguftool render --messages chat.json model.gguf       OpenAI's messages, a whole request, or plain text
    gguftool render --messages chat.json --tools tools.json --no-thinking model.gguf
    echo 'Hello' | gguftool render --messages - --raw model.gguf
    gguftool render --tokens model.gguf                   with token ids, by llama.cpp's tokenizer
    gguftool render --chat-template new.jinja model.gguf  another template with this model's tokens
    gguftool render --diff new.jinja model.gguf           where two templates part
    gguftool render --diff hf://owner/repo model.gguf     … and the one that the Hub has now
    """
)
@model_argument
@option("--messages", type=click.Path(), metavar="FILE", help="The conversation: JSON or plain text; - for stdin.")
@option("--tools", type=click.Path(), metavar="FILE", help="Functions declared, as JSON in OpenAI's shape.")
@option("--conversation", metavar="NAME", help="One of the standard conversations, for example tools or thinking.")
@option("--system", metavar="TEXT", help="A system message in front.")
@option("--thinking/--no-thinking", "thinking", default=None, help="Set enable_thinking.")
@option(
    "--chat-template-kwargs", "kwargs", metavar="JSON", help="Further variables of the template, as an object.",
    aliases=("--kwargs",),
)  # fmt: skip
@option("--no-generation-prompt", is_flag=True, help="Do not open the assistant's turn.")
@option(
    "--chat-template", type=click.Path(), metavar="FILE", aliases=("--template",),
    help="Take the template of this file: Jinja, tokenizer_config.json, another model.",
)  # fmt: skip
@option("--template-name", metavar="NAME", help="Take the template of this name, tool_use for example.")
@option("--raw", is_flag=True, help="Write the prompt as it is, byte for byte.")
@option("--tokens", is_flag=True, help="Show token ids too; needs the extra server.")
@option("--diff", "other", type=MODEL, metavar="OTHER", help="Compare with another template or model.")
@format_option("text", "json")
@pass_session
def render(session: Session, /, model: str, other: str | None, **options: Any) -> int:
    """Show the exact prompt that llama-server makes of a conversation with the chat template of a model.

    Special tokens are coloured, or in brackets. A picture is <__media__>; llama-server takes another marker each
    time. With --diff the standard conversations are rendered with both templates; exit code 1 when they part. Exit
    code 1, too, when the template refuses the conversation.
    """
    from gguftool.cli.opened import open_for

    with open_for(session, model) as m:
        if other is not None:
            return _compare(session, m, other, options)
        return _show(session, m, options)


def _compare(session: Session, m: Any, other: str, options: Mapping[str, Any]) -> int:
    from gguftool.api.render import compare_templates
    from gguftool.chat.conversations import STANDARD
    from gguftool.report import render as report

    alone = {"messages", "tools", "conversation", "system", "kwargs", "thinking", "raw", "tokens"}
    if given := sorted(name for name in alone if options[name] not in (None, False)):
        word = {"kwargs": "chat-template-kwargs"}.get(given[0], given[0])
        raise UsageError(f"--diff compares all standard conversations; --{word} says nothing there")
    names = {"template": options["chat_template"], "template_name": options["template_name"]}
    found = compare_templates(m, other, **names)
    if session.format == "json":
        body = report.apart_json(found, len(STANDARD))
        session.write_json(ok=not found, body={"path": m.name, "other": other, **body})
    else:
        ours = options["chat_template"] or m.name
        session.out(report.apart_text(found, len(STANDARD), ours, other, session.style))
    return 1 if found else 0


def _show(session: Session, m: Any, options: Mapping[str, Any]) -> int:
    from gguftool.api.render import render as make
    from gguftool.report import render as report

    prompt = make(
        m,
        _asked(session, options),
        template=options["chat_template"],
        template_name=options["template_name"],
        kwargs=_kwargs(options),
        generation_prompt=not options["no_generation_prompt"],
        tokens=options["tokens"],
    )
    if session.format == "json":
        session.write_json(ok=not prompt.kind, body={"path": m.name, **report.prompt_json(prompt)})
    elif prompt.kind:
        session.warn(report.why_not(prompt))
    elif options["raw"]:
        sys.stdout.flush()
        sys.stdout.buffer.write(prompt.text.encode("utf-8", "surrogateescape"))
    else:
        session.out(report.prompt_text(prompt, session.style), whole=True)
        if not prompt.template:
            session.note("note: the model has no chat template; llama-server takes ChatML")
    return 1 if prompt.kind else 0


def _asked(session: Session, options: Mapping[str, Any]) -> Asked:
    from gguftool.chat.ask import asked, unread
    from gguftool.chat.conversations import EXAMPLE, STANDARD
    from gguftool.chat.engine.request import Asked
    from gguftool.near import near_names

    if options["conversation"] is not None and options["messages"] is not None:
        raise UsageError("--conversation and --messages contradict each other")
    tools = _read(options["tools"]) if options["tools"] is not None else None
    if options["messages"] is not None:
        text = _read(options["messages"])
        made = _told(options["messages"], lambda: asked(text))
        if ignored := unread(text):
            session.note(f"note: {', '.join(ignored[:6])}: changes no prompt")
    else:
        name = options["conversation"]
        if name is not None and name not in STANDARD:
            near = near_names(name, list(STANDARD), 3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(STANDARD)}"
            raise UsageError(f"there is no standard conversation {name!r}", hint)
        made = Asked.of(EXAMPLE if name is None else STANDARD[name])
    if tools is not None:
        made = replace(made, tools=_told(options["tools"], lambda: asked("", tools)).tools)
    if options["system"] is not None:
        system = {"role": "system", "content": options["system"]}
        rest = made.messages[1:] if made.messages and made.messages[0].get("role") == "system" else made.messages
        made = replace(made, messages=(system, *rest))
    return made


def _told(path: str, read: Any) -> Asked:
    try:
        made: Asked = read()
    except ValueError as e:
        raise UsageError(f"{'stdin' if path == _STDIN else path}: {e}") from None
    return made


def _read(path: str) -> str:
    from gguftool.cli.streams import stdin_bytes
    from gguftool.edit.fromfile import decode_text, read_file

    if path == _STDIN:
        return decode_text(stdin_bytes(), "stdin")
    return decode_text(read_file(path), path)


def _kwargs(options: Mapping[str, Any]) -> dict[str, Any]:
    kwargs: dict[str, Any] = {}
    if options["kwargs"] is not None:
        try:
            kwargs = from_json(options["kwargs"])
        except Malformed:
            kwargs = None  # type: ignore[assignment]
        if not isinstance(kwargs, dict):
            raise UsageError(
                "--chat-template-kwargs: must be a JSON object", "for example '{\"enable_thinking\": false}'"
            )
    return kwargs if options["thinking"] is None else {**kwargs, "enable_thinking": options["thinking"]}
