"""Whether llama-server builds prompts as the source's program does; asked with ``--against FOLDER --tokenizer``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gguftool.chat.talk import PLAIN
from gguftool.errors import UsageError
from gguftool.lint.rule import Context, Drafts, Scope, Severity, found, not_evaluated, rule
from gguftool.lint.rules.template.present import WHERE
from gguftool.model import Model
from gguftool.model.vocab import vocabulary

if TYPE_CHECKING:
    from gguftool.lint.against import HfFolder

SHOWN = 2
"""Conversations that a finding shows."""


@rule(Severity.INFO, scope=Scope.SOURCE, role="any")
def chat_template_prompts_differ(m: Model, ctx: Context) -> Drafts:
    """Know where llama-server builds another prompt than transformers does from the source's template.

    Why. A model is trained with the prompts of transformers. Another template in the file changes them, and so does
    llama.cpp itself: it has an engine of its own, hands arguments over as objects, leaves out what is empty, states the
    date, turns thinking on, and treats some families in a way of its own. A warning where plain conversations differ
    and the templates are not the same text; else each engine's ways, an info.
    Evidence. 22 standard conversations (system, tools, thinking, many scripts), rendered by both sets of rules; each
    equal to its program on 71 templates (llama.cpp b11434, transformers 5.24). Only with --against FOLDER --tokenizer.
    Example. llama-server makes other prompts than transformers of 2 of 22 conversations (a tool call and its result,
    two tool calls at once); first, a tool call and its result: transformers '…"Oslo"}…', llama-server '…Oslo…'
    Fix. `gguftool fix --chat-template FILE` where the templates differ; `gguftool render --diff` shows the rest.
    """
    source = ctx.against
    if ctx.tokenized is None or source is None or source.chat_template is None or not vocabulary(m).count:
        return
    import jinja2

    from gguftool.chat.meter import LimitReached
    from gguftool.chat.prompts import COMPARABLE, engines_apart, excerpt, server, templates
    from gguftool.chat.sandbox import TODAY, Template

    there = source.chat_template
    try:
        theirs = Template(there)
        ours = server(m, templates(m), bos=False, now=TODAY)
    except (jinja2.TemplateSyntaxError, LimitReached) as e:
        yield not_evaluated(f"the chat template of {source.name} is not rendered: {e}")
        return
    except UsageError as e:
        yield not_evaluated(str(e))
        return
    try:
        apart = engines_apart(ours, theirs, _specials(m, source))
    except LimitReached as e:
        yield not_evaluated(f"the chat templates are not compared: {e}")
        return
    if not apart:
        return

    def shown(result: object, at: int | None) -> str:
        kind, text, error = (getattr(result, name) for name in ("kind", "text", "error"))
        return f"fails ({error})" if kind else repr(excerpt(text, at))

    names = ", ".join(a.title for a in apart[:6]) + (", …" if len(apart) > 6 else "")
    first = "; ".join(
        f"{a.title}: transformers {shown(a.theirs, a.at)}, llama-server {shown(a.ours, a.at)}" for a in apart[:SHOWN]
    )
    plain = any(a.name in PLAIN for a in apart)
    yield found(
        f"llama-server makes other prompts than transformers of {len(apart)} of {len(COMPARABLE)} conversations "
        f"({names}); first, {first}",
        where=WHERE,
        severity=Severity.WARNING if plain and templates(m).get("default") != there else None,
        conversations=len(COMPARABLE),
        differ=[a.name for a in apart],
        first=[
            {
                "name": a.name,
                "at": a.at,
                "source": None if a.theirs.kind else a.theirs.text,
                "file": None if a.ours.kind else a.ours.text,
            }
            for a in apart[:SHOWN]
        ],
    )


def _specials(m: Model, source: HfFolder) -> dict[str, str]:
    """Special tokens as transformers hands them to the template: those that the source names, else the file's."""
    vocab, out = vocabulary(m), {}
    for role in ("bos", "eos", "unk", "pad"):
        text = source.special_text(role)
        if text is None and role in ("bos", "eos") and (i := vocab.special(role)) is not None:
            text = vocab.text(i)
        if text is not None:
            out[f"{role}_token"] = text
    return out
