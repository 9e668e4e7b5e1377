"""Templates that reach for code or files. Judged by the syntax tree; such a template is never rendered."""

from __future__ import annotations

from gguftool.chat.talk import Chat, chat
from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, not_evaluated, rule
from gguftool.lint.rules.template.present import SET_FILE, WHERE
from gguftool.model import Model

_MANY = 5


@rule(Severity.ERROR, role="any")
def chat_template_code(m: Model, ctx: Context) -> Drafts:
    """A chat template must not reach for Python's insides.

    Why. Programs that render templates without a sandbox run what stands there: reading files, starting programs.
    No chat template needs names like `__class__`, `|attr`, `os` or `popen`, also not put together from pieces.
    llama.cpp's own engine is no Python and loads such a file in silence; the next program may not be that lucky.
    Evidence. CVE-2024-34359 (llama-cpp-python), CVE-2026-5760 (SGLang).
    Example. the chat template reaches for code: .__class__ (line 3), .__globals__ (line 3)
    Fix. None that keeps the template: do not use the file before you know where it comes from.
    """
    hits = [h for h in chat(m).hits("code") if h.kind == "code"]
    if hits:
        shown = ", ".join(f"{h.what} (line {h.line})" for h in hits[:_MANY])
        more = f" and {len(hits) - _MANY} more" if len(hits) > _MANY else ""
        yield found(
            f"the chat template reaches for code: {shown}{more}",
            where=WHERE,
            fix=Fix("replace the template", command=SET_FILE),
            hits=[{"line": h.line, "what": h.what} for h in hits],
        )


@rule(Severity.ERROR, role="any")
def chat_template_loads_files(m: Model, ctx: Context) -> Drafts:
    """A chat template must stand alone.

    Why. `{% import %}`, `{% include %}` and `{% extends %}` want other files. llama.cpp does not know the
    statements and llama-server exits; a program with a loader reads whatever the path says.
    Evidence. "Unknown statement: include".
    Example. the chat template wants other files: include (line 1)
    Fix. `gguftool fix --chat-template FILE`, with a template that needs none.
    """
    hits = [h for h in chat(m).hits("code") if h.kind == "loads"]
    if hits:
        yield found(
            "the chat template wants other files: " + ", ".join(f"{h.what} (line {h.line})" for h in hits[:_MANY]),
            where=WHERE,
            fix=Fix("replace the template", command=SET_FILE),
        )


@rule(Severity.WARNING, role="any")
def chat_template_too_large(m: Model, ctx: Context) -> Drafts:
    """A chat template should not be larger or deeper than any real one.

    Why. Engines parse it at every start; deep nesting and great length make some crash. Above the limits gguftool
    does not look into it.
    Evidence. 64,000 characters end llama.cpp b4798 and b7551 with a segmentation fault at the load, 32,000 do not,
    and b8672 takes them. Limits: 131,072 characters, 12,000 syntax nodes, 150 levels; the largest of 71 real
    templates has 18,096, 1,287 and 29.
    Example. the chat template is not looked at: 6004 levels of nesting, more than 150
    Fix. `gguftool fix --chat-template FILE`.
    """
    talk = chat(m)
    if talk.source is not None and talk.template is None and talk.refused:
        yield found(f"the chat template is not looked at: {talk.refused}", where=WHERE)
    elif talk.source is not None and len(talk.source) > OLD_BUILDS_DIE:
        yield found(
            f"the chat template has {len(talk.source):,} characters: from {OLD_BUILDS_DIE:,} on it can "
            "kill builds of llama.cpp up to b7551, and some after it, at the load",
            where=WHERE,
            characters=len(talk.source),
        )


OLD_BUILDS_DIE = 40_000
"""Characters of a template that builds before b8672 may not survive: somewhere between 32,000 and 64,000."""


@rule(Severity.ERROR, role="any")
def chat_template_runaway(m: Model, ctx: Context) -> Drafts:
    """Rendering a short conversation must not take endless work or memory.

    Why. A template with loops in loops, or a text doubled sixty times, stops every server that renders it.
    Evidence. Limits of one rendering: 100,000 steps, 1,048,576 characters; the hungriest of 71 real templates takes 900
    steps and 26,000 characters.
    Example. the chat template runs away on one user message: more than 100,000 steps
    Fix. `gguftool fix --chat-template FILE`.
    """
    talk = chat(m)
    if talk.source is None:
        return
    if not talk.may_render:
        yield not_evaluated(talk.why_not)
        return
    for name, title in talk.titles():
        result = talk.render(name)
        if result.kind == "limit":
            yield found(
                f"the chat template runs away on {title}: {result.error}",
                where=WHERE,
                fix=Fix("replace the template", command=SET_FILE),
            )
            return


def unrendered(talk: Chat) -> str:
    """Why a template that is there is not rendered, or ""."""
    return talk.why_not if talk.source is not None and not talk.may_render else ""
