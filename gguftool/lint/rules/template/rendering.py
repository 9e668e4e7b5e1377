"""What the template makes of standard conversations."""

from __future__ import annotations

from gguftool.chat.conversations import MORE, SYSTEM, USER
from gguftool.chat.markers import MARKER, SURE
from gguftool.chat.talk import PLAIN, chat
from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, not_evaluated, rule
from gguftool.lint.rules.template.code import unrendered
from gguftool.lint.rules.template.present import SET_FILE, WHERE
from gguftool.model import Model
from gguftool.model.vocab import NORMAL

_REPLACE = Fix("replace the template", command=SET_FILE)


@rule(Severity.ERROR, role="any")
def chat_template_fails(m: Model, ctx: Context) -> Drafts:
    """The template must render plain conversations.

    Why. llama-server tries one user message, three turns and a system message when it starts, and exits if one
    fails otherwise than by the template's own refusal. What is undefined llama.cpp takes for empty where jinja2
    stops: then only transformers, llama-cpp-python and the like fail, an info.
    Evidence. "Unable to generate parser for this template"; started with templates that fail: exit code 1.
    Example. the chat template fails on three turns: ZeroDivisionError: division by zero; llama-server exits
    Fix. `gguftool fix --chat-template FILE`.
    """
    talk = chat(m)
    if talk.source is None:
        return
    if why := unrendered(talk):
        yield not_evaluated(why)
        return
    for name in PLAIN:
        result = talk.render(name)
        if result.kind in ("", "limit") or (name == "system" and result.kind == "raised"):
            continue
        mild = talk.taken_for_empty(result)
        outcome = " in jinja2 (transformers, llama-cpp-python); llama.cpp takes it for empty" if mild else ""
        yield found(
            f"the chat template fails on {talk.title(name)}: {result.error}{outcome or '; llama-server exits'}",
            where=WHERE,
            severity=Severity.INFO if mild else None,
            fix=None if mild else _REPLACE,
            conversation=name,
            error=result.error,
        )
        return


@rule(Severity.INFO, role="any", chat=True)
def chat_template_refuses(m: Model, ctx: Context) -> Drafts:
    """Know which conversations the template does not take.

    Why. Some raise on purpose for a system message or for two user turns in a row; clients that send these get an error
    or, in some programs, another format. Shapes of tool calls differ between programs, so a failure there may be the
    program's.
    Evidence. llama.cpp issue 11402; Gemma 2 and Mistral templates refuse such conversations.
    Example. the chat template refuses a system message: System role not supported
    Fix. None needed when clients keep to it.
    """
    talk = chat(m)
    if talk.source is None:
        return
    if talk.unjudged:
        yield not_evaluated(talk.unjudged)
        return
    for name in ("system", "empty", "two-users", "tools"):
        result = talk.render(name)
        refuses = result.kind == "raised"
        if result.kind in ("", "limit") or (name == "system" and not refuses):
            continue
        yield found(
            f"the chat template {'refuses' if refuses else 'fails on'} {talk.title(name)}: {result.error}"
            + (" (llama-server puts it into the first user message)" if name == "system" else ""),
            where=WHERE,
            conversation=name,
            error=result.error,
        )


@rule(Severity.ERROR, role="any", chat=True)
def chat_template_ignores_messages(m: Model, ctx: Context) -> Drafts:
    """What the user says must stand in the prompt.

    Why. A template without its loop, plain text, or one that reads other variables loads and answers, but the
    model never sees the question.
    Evidence. Started with "plain text, no tags" and "{{ x }}": llama-server becomes ready.
    Example. the prompt does not hold what the user says: the chat template ignores the messages
    Fix. `gguftool fix --chat-template FILE`.
    """
    talk = chat(m)
    if talk.unjudged:
        yield not_evaluated(talk.unjudged)
        return
    if talk.source is None:
        return
    one = talk.render("user")
    if USER not in one.text:
        yield found(
            "the prompt does not hold what the user says: the chat template ignores the messages",
            where=WHERE,
            fix=_REPLACE,
        )
        return
    three = talk.render("turns")
    if not three.kind and MORE not in three.text:
        yield found(
            "the prompt of three turns does not hold the last message: the chat template reads only the first",
            where=WHERE,
            fix=_REPLACE,
        )


@rule(Severity.INFO, role="any", chat=True)
def chat_template_drops_system(m: Model, ctx: Context) -> Drafts:
    """Know that the template leaves out the system message.

    Why. It raises no error, so instructions of the operator vanish.
    Evidence. llama-server probes the same and notes `supports_system_role` (`common/jinja/caps.cpp`, b11434).
    Example. the chat template leaves out the system message
    Fix. Put instructions into the first user message, or use another template.
    """
    talk = chat(m)
    if talk.unjudged:
        yield not_evaluated(talk.unjudged)
        return
    if talk.source is None:
        return
    result = talk.render("system")
    if not result.kind and SYSTEM not in result.text and USER in result.text:
        yield found("the chat template leaves out the system message", where=WHERE)


@rule(Severity.INFO, role="any", chat=True)
def chat_template_no_generation_prompt(m: Model, ctx: Context) -> Drafts:
    """A template usually opens the assistant's turn when asked to.

    Why. Without the opening the model must write the marker itself and may continue the user's text instead.
    Formats whose user turn ends with its own marker, as [/INST], need none.
    Evidence. Rendered with and without `add_generation_prompt`: the same text.
    Example. the prompt ends the same with and without add_generation_prompt: '…said xuserx.'
    Fix. `gguftool fix --chat-template FILE`.
    """
    talk = chat(m)
    if talk.unjudged:
        yield not_evaluated(talk.unjudged)
        return
    if talk.source is None:
        return
    opened, closed = talk.render("user"), talk.render("closed")
    if opened.kind or closed.kind or opened.text != closed.text or USER not in opened.text:
        return
    tail = opened.text.rpartition(USER)[2]
    # A marker of its own behind the message opens the answer; only a marker that ends a turn, or none, is a fault.
    last = [i for _, i in talk.markers(tail)]
    if "[/INST]" in tail or ":" in tail or (last and last[-1] not in talk.vocab.eog):
        return
    yield found(f"the prompt ends the same with and without add_generation_prompt: {opened.text[-30:]!r}", where=WHERE)


@rule(Severity.WARNING, role="any", chat=True)
def chat_template_unknown_markers(m: Model, ctx: Context) -> Drafts:
    """Markers the template writes must be tokens of the vocabulary.

    Why. A marker that is no token is cut into pieces of plain text: the model sees something it never learnt, and
    the end of a turn is not recognised. Usual causes: the template of another model, or a vocabulary without its
    added tokens.
    Evidence. `<|…|>` and `<…_of_turn>` in the prompts of plain conversations.
    Example. the chat template writes markers that are no tokens: <|im_start|>, <|im_end|>
    Fix. `gguftool fix --chat-template FILE`, with the template of this model.
    """
    talk = chat(m)
    if talk.source is None or not talk.vocab.count:
        return
    if talk.unjudged:
        yield not_evaluated(talk.unjudged)
        return
    plain = talk.render("turns").text + talk.render("system").text
    absent = [
        t
        for t in dict.fromkeys(x[0] for x in MARKER.finditer(plain))
        if SURE.fullmatch(t) and talk.vocab.id_of(t) is None
    ]
    if absent:
        shown = ", ".join(absent[:6]) + (", …" if len(absent) > 6 else "")
        yield found(
            f"the chat template writes markers that are no tokens: {shown}", where=WHERE, fix=_REPLACE, markers=absent
        )
    normal = [
        t
        for t, i in dict.fromkeys(talk.markers(plain))
        if t.startswith("[") and t in ("[INST]", "[/INST]") and talk.vocab.type_of(i) == NORMAL and talk.vocab.types
    ]
    if normal:
        yield found(
            f"{', '.join(normal)} are tokens, but typed as normal text: llama.cpp cuts them into pieces",
            where="field:tokenizer.ggml.token_type",
        )
