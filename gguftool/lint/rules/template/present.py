"""Whether there is a template, and whether it is text that llama.cpp reads."""

from __future__ import annotations

import os
import re

from gguftool.chat.document import json_kind, templates_of
from gguftool.chat.talk import KEY
from gguftool.edit.ops import Delete, Set
from gguftool.lint.rule import Context, Drafts, Fix, Severity, edit, found, rule, to_choose
from gguftool.model import Model
from gguftool.model.filename import stem
from gguftool.model.vocab import vocabulary
from gguftool.regex import regex
from gguftool.shell import FILE, blank

WHERE = f"field:{KEY}"
SET_FILE = edit("--chat-template", blank())

_INSTRUCT = regex(r"(?:^|[\W_])(?:instruct(?:ion|ed)?|chat|it|assistant|dpo|rlhf|sft|tuned)(?:$|[\W_])", re.I)
_TURNS = (
    "<|im_start|>",
    "<start_of_turn>",
    "<|start_header_id|>",
    "<|turn>",
    "[INST]",
    "<|START_OF_TURN_TOKEN|>",
    "<|user|>",
)


def _is_instruct(m: Model) -> str:
    """What in the file says that it is made for conversations, or ""."""
    for key in ("general.finetune", "general.name", "general.basename"):
        value = m.get(key)
        if isinstance(value, str) and _INSTRUCT.search(value):
            return f"{key} is {value!r}"
    name = os.path.basename(m.name)
    return f"the file is named {name}" if _INSTRUCT.search(stem(name)) else ""


@rule(Severity.WARNING, chat=True)
def chat_template_missing(m: Model, ctx: Context) -> Drafts:
    """An instruct model should carry its chat template.

    Why. llama-server takes ChatML when the file has none. A model that learnt other markers answers badly, or
    talks to itself. Judged only for models that a key or the file's name calls instruct, chat or it; the message says
    whether ChatML fits.
    Evidence. `common/chat.cpp:common_chat_templates_init` (b11434).
    Example. no tokenizer.chat_template, though general.name is 'Foo 7B Instruct': llama-server takes ChatML, whose
    markers are not in the vocabulary
    Fix. `gguftool fix --chat-template FILE`, with the template of the source model.
    """
    if KEY in m:
        return
    said = _is_instruct(m)
    vocab = vocabulary(m)
    if not said or not vocab.count:
        return
    there = [t for t in _TURNS if vocab.id_of(t) is not None]
    if "<|im_start|>" in there:
        outcome = "llama-server takes ChatML, whose markers are in the vocabulary"
    elif there:
        outcome = f"llama-server takes ChatML, but the vocabulary has {there[0]}"
    else:
        outcome = "llama-server takes ChatML, whose markers are not in the vocabulary"
    yield found(
        f"no {KEY}, though {said}: {outcome}",
        where=WHERE,
        severity=Severity.INFO if "<|im_start|>" in there else None,
        fix=Fix("add the template of the source model", command=SET_FILE),
    )


@rule(Severity.ERROR, role="any")
def chat_template_not_text(m: Model, ctx: Context) -> Drafts:
    """The chat template must be a string.

    Why. llama-server takes a number or a boolean for the text of the template: every prompt is then that number.
    An array it ignores without a word and takes ChatML, a warning.
    Evidence. Started with u32, bool and array values: the prompts are "7", "true", and ChatML's.
    Example. tokenizer.chat_template is u32, must be str: every prompt of llama-server is '7'
    Fix. `gguftool fix --chat-template FILE`.
    """
    f = m.fields.get(KEY)
    if f is None or f.type_name == "str":
        return
    array = f.type_name.startswith("arr")
    value = m.get(KEY)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    outcome = "llama-server ignores it and takes ChatML" if array else f"every prompt of llama-server is {text!r}"
    yield found(
        f"{KEY} is {f.type_name}, must be str: {outcome}",
        where=WHERE,
        severity=Severity.WARNING if array else None,
        fix=Fix("write the template as text", command=SET_FILE),
    )


@rule(Severity.ERROR, role="any")
def chat_template_is_json(m: Model, ctx: Context) -> Drafts:
    """The chat template must be a template, not the document that holds it.

    Why. A tokenizer_config.json written as the template parses as Jinja, and becomes every prompt: the model reads a
    configuration file and never the question.
    Evidence. Seen with `fix --chat-template tokenizer_config.json` of gguftool 0.1; `gguf-new-metadata` has
    --chat-template-config for such files.
    Example. tokenizer.chat_template is a JSON document with a chat_template in it, not the template
    Fix. Takes the template out of the document, where there is one.
    """
    for key in [k for k in m.fields if k == KEY or k.startswith(KEY + ".")]:
        value = m.get(key)
        if not isinstance(value, str) or not (kind := json_kind(value)):
            continue
        try:
            inside = templates_of(value).get("default", "") if kind in ("object", "list") else ""
        except ValueError:
            inside = ""
        if inside:
            what = "a JSON document with a chat_template in it, not the template"
            how = ("gguftool", "lint", FILE, "--select", "chat-template-is-json", "--fix-unsafe")
            fix = Fix("take the template out of it", (Set(key, inside, "str"),), command=how)
        else:
            what = {"broken": "the beginning of a JSON document", "text": "a text quoted as JSON"}.get(
                kind, "a JSON document"
            )
            fix = Fix("write the template", command=SET_FILE)
        yield found(f"{key} is {what}: every prompt is that text", where=f"field:{key}", fix=fix)


@rule(Severity.WARNING, role="any", chat=True)
def chat_template_empty(m: Model, ctx: Context) -> Drafts:
    """An empty chat template says nothing.

    Why. llama-server treats it as absent and takes ChatML.
    Evidence. Started with "": llama-server becomes ready and uses ChatML.
    Example. tokenizer.chat_template is empty
    Fix. Removes the key; `gguftool fix --chat-template FILE` writes a real one.
    """
    value = m.get(KEY)
    if isinstance(value, str) and not value.strip():
        yield found(
            f"{KEY} holds only blanks: every prompt is empty"
            if value
            else f"{KEY} is empty: llama-server takes ChatML",
            where=WHERE,
            fix=Fix("remove it", (Delete(KEY),), safe=not value),
        )


@rule(Severity.WARNING, role="any")
def chat_template_variants(m: Model, ctx: Context) -> Drafts:
    """Named templates must parse, and the list must name those that are there.

    Why. `tokenizer.chat_template.tool_use` replaces the main template for requests with tools. llama.cpp logs a
    broken one and ignores it; then tools go through the main template. Without a main template tool_use takes its
    place, and llama-server exits when it is broken.
    Evidence. "failed to parse tool use chat template (ignoring it)".
    Example. tokenizer.chat_template.tool_use does not parse: line 3: unexpected '}'
    Fix. `gguftool fix --set-file tokenizer.chat_template.tool_use=FILE`.
    """
    prefix = KEY + "."
    for key in [k for k in m.fields if k.startswith(prefix)]:
        value = m.get(key)
        if not isinstance(value, str):
            yield found(f"{key} is {m.fields[key].type_name}, must be str", where=f"field:{key}")
            continue
        why = _syntax_error(value)
        if why:
            alone = key == prefix + "tool_use" and m.get(KEY) in (None, "", "chatml")
            yield found(
                f"{key} does not parse: {why}" + ("; it is the only template, llama-server exits" if alone else ""),
                where=f"field:{key}",
                severity=Severity.ERROR if alone else None,
                fix=to_choose("write another", "--set-file", key),
            )
    listed = m.get("tokenizer.chat_templates")
    if isinstance(listed, list):
        absent = [n for n in listed if isinstance(n, str) and prefix + n not in m]
        if absent:
            yield found(
                f"tokenizer.chat_templates names {', '.join(absent)}, but there is no {prefix}{absent[0]}",
                where="field:tokenizer.chat_templates",
                severity=Severity.INFO,
            )


def _syntax_error(source: str) -> str:
    import jinja2

    from gguftool.chat.meter import LimitReached
    from gguftool.chat.sandbox import Template

    try:
        Template(source)
    except jinja2.TemplateSyntaxError as e:
        return f"line {e.lineno}: {e.message}"
    except LimitReached as e:
        return str(e)
    return ""
