"""A chat template out of a file: Jinja text, a tokenizer's configuration, or another model."""

from __future__ import annotations

import os

from gguftool.chat.document import DEFAULT, json_kind, templates_of
from gguftool.edit.fromfile import decode_text, read_file
from gguftool.edit.ops import Delete, Operation, Set
from gguftool.errors import FormatError, UsageError
from gguftool.model import Model, open_model
from gguftool.shell import path_word, shell

KEY, LIST = "tokenizer.chat_template", "tokenizer.chat_templates"
_AS_IT_IS = "to write a text as it is: --set-file tokenizer.chat_template=FILE"
_TAKES = "it takes Jinja text, tokenizer_config.json, chat_template.json or a .gguf file"
_MAGIC = b"GGUF"
_PAGES = ("<!doctype", "<html", "<?xml")


def template_operations(model: Model, path: str) -> tuple[list[Operation], list[str]]:
    """The edits that give a model the chat template of a file, and notes on it.

    Args:
        model: the model to edit.
        path: Jinja text; JSON with ``chat_template``, which may be one template or named ones; or a GGUF file, whose
            templates are copied, the named ones too.

    Raises:
        UsageError: the file is something else, or holds no template.
    """
    found = templates_in(path)
    notes = [note for name, text in found.items() if (note := _unparsed(path, name, text))]
    operations: list[Operation] = []
    if DEFAULT in found:
        operations.append(Set(KEY, found[DEFAULT], "str"))
    named = {name: text for name, text in found.items() if name != DEFAULT}
    operations += [Set(f"{KEY}.{name}", text, "str") for name, text in named.items()]
    if named:
        operations.append(Set(LIST, sorted(named), "[str]"))
        there = [k for k in model.fields if k.startswith(f"{KEY}.") and k.removeprefix(f"{KEY}.") not in named]
        operations += [Delete(k) for k in there]
    else:
        there = [k for k in model.fields if k.startswith(f"{KEY}.")]
        notes += [
            f"{k} stays, of the template before: llama-server takes tool_use for requests with tools" for k in there
        ]
    return operations, notes


def templates_in(path: str) -> dict[str, str]:
    """The chat templates of a file by name; ``default`` is the main one.

    Args:
        path: Jinja text, JSON with ``chat_template``, or a GGUF file.

    Raises:
        UsageError: it is something else, or holds no template.
    """
    if os.path.isdir(path):
        inside = [n for n in ("chat_template.jinja", "tokenizer_config.json") if os.path.isfile(os.path.join(path, n))]
        hint = (
            f"it takes a file: {shell(['--chat-template', path_word(os.path.join(path, inside[0]))])}"
            if inside
            else _TAKES
        )
        raise UsageError(f"{path}: is a folder", hint)
    data = read_file(path, unless=_MAGIC)
    return _of_gguf(path) if data == _MAGIC else templates_of_bytes(path, data)


def _of_gguf(path: str) -> dict[str, str]:
    try:
        with open_model(path, strict=False, whole_set=False) as other:
            keys = [k for k in other.fields if k == KEY or k.startswith(f"{KEY}.")]
            values = {k.removeprefix(KEY).removeprefix(".") or DEFAULT: other.get(k) for k in keys}
    except FormatError as e:
        raise UsageError(f"{path}: {e}", _TAKES) from None
    found = {name: text for name, text in values.items() if isinstance(text, str) and text.strip()}
    if not found:
        raise UsageError(f"{path}: has no {KEY}", _TAKES)
    if any(json_kind(text) for text in found.values()):
        raise UsageError(f"{path}: its {KEY} is a JSON document", _TAKES)
    return found


def templates_of_bytes(path: str, data: bytes) -> dict[str, str]:
    """As `templates_in`, of the bytes of a text; ``path`` is for messages."""
    if b"\0" in data:
        raise UsageError(f"{path}: is no text: it holds zero bytes", _TAKES)
    text = decode_text(data, path)
    if not text.strip():
        raise UsageError(f"{path}: is empty", "to remove the template: --delete tokenizer.chat_template")
    if json_kind(text):
        try:
            return templates_of(text)
        except ValueError as e:
            raise UsageError(f"{path}: {e}", f"{_TAKES}; {_AS_IT_IS}") from None
    if text.lstrip()[:9].lower().startswith(_PAGES):
        raise UsageError(f"{path}: is a page of the web, no template", _TAKES)
    if text.strip() != "chatml" and not any(sign in text for sign in ("{{", "{%")):
        raise UsageError(
            f"{path}: is no Jinja template: nothing in it is {{{{ … }}}} or {{% … %}}", f"{_TAKES}; {_AS_IT_IS}"
        )
    return {DEFAULT: text}


def _unparsed(path: str, name: str, text: str) -> str:
    """A note when Jinja cannot parse a template, else ""."""
    from jinja2 import Environment, TemplateSyntaxError

    from gguftool.chat.syntax import parsed

    try:
        parsed(Environment(extensions=["jinja2.ext.loopcontrols"], autoescape=True), text)
    except TemplateSyntaxError as e:
        what = "this template" if name == DEFAULT else f"the template {name}"
        return f"{path}, line {e.lineno}: Jinja cannot parse {what}: {e.message}"
    except RecursionError:
        return f"{path}: Jinja cannot parse this template: it is nested too deeply"
    return ""
