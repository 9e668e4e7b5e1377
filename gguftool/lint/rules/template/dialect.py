"""Whether the template parses, and which engines lack something it uses."""

from __future__ import annotations

import re

from gguftool.chat.talk import LLAMA_TAGS, Chat, chat
from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, not_evaluated, rule
from gguftool.lint.rules.template.present import SET_FILE, WHERE
from gguftool.model import Model
from gguftool.regex import regex

_GO = regex(r"\{\{-?\s*(?:\.|if |range |end\b|else\b|template )")


@rule(Severity.ERROR, role="any")
def chat_template_syntax(m: Model, ctx: Context) -> Drafts:
    """The chat template must parse.

    Why. llama-server exits at start, other programs fail at the first chat. `--no-jinja` and `--chat-template-file` get
    around it. A template in Go's syntax (`{{ .Prompt }}`) is one of Ollama's and belongs in a Modelfile.
    Evidence. "chat template parsing error"; started with escapes that llama.cpp does not know (a backslash and u), with
    the operators `//` and `**`, with unclosed tags, brackets and blocks: exit code 1.
    Example. the chat template does not parse: line 1: unexpected end of template
    Fix. `gguftool fix --chat-template FILE`.
    """
    talk = chat(m)
    if talk.source is not None and talk.template is not None and not set(talk.tags) - LLAMA_TAGS:
        yield from _only_there(talk.source)
    if talk.source is None or talk.template is not None or not talk.failed:
        return
    if _tag(talk):
        return  # `chat_template_tag` says it better
    go = " (this is Go's syntax, as Ollama uses it)" if _GO.search(talk.source) else ""
    yield found(
        f"the chat template does not parse: line {talk.line}: {talk.failed}{go}; llama-server exits",
        where=WHERE,
        fix=Fix("replace the template", command=SET_FILE),
        line=talk.line,
        error=talk.failed,
    )


def _only_there(source: str) -> Drafts:
    """What jinja2 parses and llama.cpp does not: escapes in texts, operators."""
    import jinja2

    from gguftool.chat.engine.program import Program

    try:
        Program(source)
    except jinja2.TemplateSyntaxError as e:
        yield found(
            f"llama.cpp does not parse the chat template (jinja2 does): line {e.lineno}: {e.message}; "
            "llama-server exits",
            where=WHERE,
            fix=Fix("replace the template", command=SET_FILE),
            line=e.lineno,
            error=e.message,
        )


def _tag(talk: Chat) -> str:
    """Name of the unknown statement the parser stopped at, or ""."""
    m = re.match(r"Encountered unknown tag '(\w+)'", talk.failed)
    return m[1] if m else ""


@rule(Severity.ERROR, role="any")
def chat_template_tag(m: Model, ctx: Context) -> Drafts:
    """Statements of the template should be known to the engines that render it.

    Why. Engines differ: llama.cpp knows set, if, for, macro, call, filter, break, continue and generation, and
    exits on others; stock jinja2, as in llama-cpp-python, knows neither generation nor break and continue unless
    it is told to.
    Evidence. `common/jinja/parser.cpp:parse_jinja_statement` (b11434); llama-cpp-python issue 2225.
    Example. the chat template uses {% generation %} (line 5): llama.cpp takes it; stock jinja2 (llama-cpp-python)
    does not
    Fix. `gguftool fix --chat-template FILE`.
    """
    talk = chat(m)
    if talk.source is None:
        return
    stopped = _tag(talk) if talk.template is None else ""
    for name, line in talk.tags.items():
        shown = f"{{% {name} %}} (line {line})"
        if name == stopped or (name not in LLAMA_TAGS and name not in _LOADING):
            yield found(
                f"the chat template uses {shown}, which llama.cpp does not know: llama-server exits",
                where=WHERE,
                fix=Fix("replace the template", command=SET_FILE),
                tag=name,
                line=line,
            )
        elif name == "generation":
            yield found(
                f"the chat template uses {shown}: llama.cpp and transformers take it, stock jinja2 (older "
                "llama-cpp-python) does not",
                where=WHERE,
                severity=Severity.INFO,
                tag=name,
                line=line,
            )


_LOADING = frozenset({"import", "from", "include", "extends"})


@rule(Severity.ERROR, role="any")
def chat_template_unknown_name(m: Model, ctx: Context) -> Drafts:
    """Filters, tests and functions of the template should exist.

    Why. llama-server exits when the plain conversations it tries at start need one it does not know; otherwise a
    request fails that does. A name no plain conversation needs is an info.
    Evidence. "Unknown (built-in) filter 'nosuchfilter' for type String"; started with unknown filters and
    functions.
    Example. the chat template uses the filter 'from_json' (line 90), which neither llama.cpp nor jinja2 has
    Fix. `gguftool fix --chat-template FILE`.
    """
    talk = chat(m)
    if talk.template is None:
        if talk.source is not None:
            yield not_evaluated(talk.why_not)
        return
    for hit in talk.hits("dialect"):
        here, there = talk.engines(hit)
        if here and there:
            continue
        if here:
            needed, lacking = hit.what in talk.plain_filters, "which llama.cpp does not have"
        elif there:
            needed, lacking = False, "which jinja2 does not have, llama.cpp does"
        else:
            # jinja2 stops at what it does not know: a plain conversation that fails needed it.
            needed, lacking = bool(talk.unjudged), "which neither llama.cpp nor jinja2 has"
        yield found(
            f"the chat template uses the {hit.kind} {hit.what!r} (line {hit.line}), {lacking}"
            + ("; plain conversations need it, llama-server exits" if needed else ""),
            where=WHERE,
            severity=None if needed else Severity.INFO,
            kind=hit.kind,
            name=hit.what,
            line=hit.line,
        )
