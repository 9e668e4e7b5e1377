"""What the chat template of a model makes of the conversations that lint tries."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from time import thread_time
from typing import TYPE_CHECKING, Any

from gguftool.chat.conversations import MORE, REPLY, STANDARD, SYSTEM, USER, Talk, says
from gguftool.chat.markers import MARKER, SURE
from gguftool.model.vocab import NORMAL, Vocabulary, vocabulary
from gguftool.regex import regex

if TYPE_CHECKING:
    from gguftool.chat.sandbox import Rendered, Template
    from gguftool.chat.scan import Hit
    from gguftool.model import Model

KEY = "tokenizer.chat_template"
LLAMA_TAGS = frozenset("set if macro for break continue call filter generation".split())
"""Statements of llama.cpp's own engine (`common/jinja/parser.cpp:parse_jinja_statement`, b11434)."""

TALKS: Mapping[str, Talk] = {
    name: STANDARD[name] for name in ("user", "closed", "turns", "system", "empty", "two-users", "tools")
}
"""The conversations that lint tries, by name, the plainest first."""
_PROBES: tuple[Callable[[str], Talk], ...] = (
    lambda text: Talk("one message", (says("user", text),)),
    lambda text: Talk(
        "the last message",
        (says("system", SYSTEM), says("user", USER), says("assistant", REPLY), says("user", text)),
    ),
    lambda text: Talk("the first message", (says("user", text), says("assistant", REPLY), says("user", MORE))),
)
"""Conversations with a place for what the user says."""
PLAIN = ("user", "turns", "system")
"""Conversations that llama-server tries when it starts."""


SECONDS = 1.0
"""Processor time for the conversations that lint renders of one template, and as much for its probes; of 71 real
ones none takes a tenth of it. A probe without time tells nothing, so probes make no template hostile."""


class Chat:
    """The chat template of a model: parsed when first asked for, every conversation rendered once.

    Attributes:
        source: the template, None when the file has none or it is no string.
        vocab: the model's vocabulary.
        failed: why it could not be parsed, "" when it could.
        line: line of the syntax error, 0 when there is none.
        refused: why it is not rendered although it parses (too large, too deep), "" when it is.
    """

    def __init__(self, source: str | None, vocab: Vocabulary) -> None:
        self.source = source if source is not None and source not in ("", "chatml") else None
        self.vocab = vocab
        self.failed, self.line, self.refused = "", 0, ""
        self._left = {"conversations": SECONDS, "probes": SECONDS}
        self._done: dict[str, Rendered] = {}
        self._hits: dict[str, list[Hit]] = {}

    @cached_property
    def template(self) -> Template | None:
        """The parsed template; None when there is none or it does not parse."""
        if self.source is None:
            return None
        import jinja2

        from gguftool.chat.meter import LimitReached
        from gguftool.chat.sandbox import Template

        try:
            return Template(self.source)
        except jinja2.TemplateSyntaxError as e:
            self.failed, self.line = e.message or "syntax error", e.lineno
        except LimitReached as e:
            self.refused = str(e)
        return None

    @cached_property
    def tags(self) -> dict[str, int]:
        """Opening statements of the template with their lines, also when it does not parse."""
        from gguftool.chat.sandbox import MAX_SOURCE
        from gguftool.chat.scan import tags

        if self.source is None or len(self.source) > MAX_SOURCE:
            return {}

        closing = re.compile("end|el(?:se|if)$")
        return {name: line for name, line in tags(self.source).items() if not closing.match(name)}

    def hits(self, group: str) -> list[Hit]:
        """What `gguftool.chat.scan` finds: ``code``, ``hidden`` or ``dialect``."""
        if group not in self._hits:
            if self.template is None or self.source is None:
                return []
            from gguftool.chat import scan

            tree = self.template.tree
            self._hits[group] = scan.hidden(self.source, tree) if group == "hidden" else getattr(scan, group)(tree)
        return self._hits[group]

    @staticmethod
    def engines(hit: Hit) -> tuple[bool, bool]:
        """Whether jinja2, and whether llama.cpp b11434, know a filter, test or function."""
        from gguftool.chat import sandbox, scan

        if hit.kind == "filter":
            return hit.what in sandbox.FILTERS, hit.what in scan.LLAMA_FILTERS
        if hit.kind == "test":
            return hit.what in sandbox.tests(), hit.what in scan.LLAMA_TESTS
        return False, False

    @property
    def why_not(self) -> str:
        """Why the template is not rendered, "" when it is."""
        if self.template is None:
            return self.refused or (f"the chat template does not parse: {self.failed}" if self.failed else "")
        return "the chat template reaches for code or files, so it is not rendered" if self.hits("code") else ""

    @property
    def may_render(self) -> bool:
        """True when the template parses and reaches for nothing outside."""
        return self.template is not None and not self.why_not

    @property
    def unjudged(self) -> str:
        """Why nothing can be said about its prompts, "" when it can or when there is no template."""
        if self.source is None:
            return ""
        if not self.may_render:
            return self.why_not
        result = self.render("user")
        return f"the chat template fails on {self.title('user')}: {result.error}" if result.kind else ""

    def taken_for_empty(self, result: Rendered) -> bool:
        """True when llama.cpp goes on where jinja2 stops: it takes what is undefined for empty, unless it is called."""
        if result.kind != "undefined" or _PLAIN_TYPE.match(result.error):
            return False
        name = _NAME.match(result.error)
        return name is None or name[1] not in {h.what for h in self.hits("dialect") if h.kind == "function"}

    @cached_property
    def plain_filters(self) -> frozenset[str]:
        """Filters that plain conversations need: those that llama-server applies when it starts."""
        if not self.may_render:
            return frozenset()
        return frozenset().union(*(self.render(name).filters for name in PLAIN))

    @staticmethod
    def title(name: str) -> str:
        """What a conversation is, for messages."""
        return TALKS[name].title

    @staticmethod
    def titles() -> list[tuple[str, str]]:
        """Name and title of every conversation."""
        return [(name, talk.title) for name, talk in TALKS.items()]

    def token(self, role: str) -> str:
        """Text of a special token as llama.cpp hands it to the template: "" when there is none."""
        i = self.vocab.special(role)
        return "" if i is None else self.vocab.text(i)

    def render(self, name: str) -> Rendered:
        """What a conversation of `TALKS` becomes. Call it only when it `may_render`."""
        if name not in self._done:
            talk, template = TALKS[name], self.template
            if template is None or self.hits("code"):
                raise ValueError("there is no template to render")
            self._done[name] = self._rendered(template, talk, "conversations")
        return self._done[name]

    def _rendered(self, template: Template, talk: Talk, purpose: str) -> Rendered:
        """Within the time that all of one purpose have together."""
        begun = thread_time()
        out = template.render(self._variables(talk), max(self._left[purpose], 0.0))
        self._left[purpose] -= thread_time() - begun
        return out

    def _variables(self, talk: Talk) -> dict[str, Any]:
        """What llama-server hands to a template (`common/chat.cpp`, b11434)."""
        from gguftool.chat import sandbox

        variables = {
            "messages": [dict(m) for m in talk.messages],
            "bos_token": self.token("bos"),
            "eos_token": self.token("eos"),
            "enable_thinking": True,
            "date_string": sandbox.TODAY.strftime("%d %b %Y"),
            "datetime": sandbox.TODAY.strftime("%b %d %Y"),
            **talk.kwargs,
        }
        # llama.cpp leaves variables out rather than passing nothing and false.
        if talk.tools:
            variables["tools"] = list(talk.tools)
        if talk.open:
            variables["add_generation_prompt"] = True
        return variables

    @cached_property
    def triggers(self) -> list[Hit]:
        """Words of the user's message that change what the template itself says."""
        template = self.template
        if template is None or not self.may_render:
            return []
        from gguftool.chat import probe

        def said(talk: Callable[[str], Talk]) -> Callable[[str], str | None]:
            def prompt(text: str) -> str | None:
                result = self._rendered(template, talk(text), "probes")
                return None if result.kind else result.text

            return prompt

        return probe.content_dependence(template.tree, [said(talk) for talk in _PROBES])

    @cached_property
    def end_of_turn(self) -> int | None:
        """Token with which the template ends what the assistant said; None when there is no such token.

        Without an end marker it is the marker that opens the next turn: there a model stops, too. Where the first
        marker is no token of this vocabulary (another model's template), nothing is known.
        """
        if not self.may_render or not self.vocab.count:
            return None
        text = self.render("turns").text
        for m in MARKER.finditer(text.partition(REPLY)[2].partition(MORE)[0]):
            i = self.vocab.id_of(m[0])
            if i is None and SURE.fullmatch(m[0]):
                return None
            if i is not None and (self.vocab.type_of(i) != NORMAL or i in self.vocab.eog):
                return i
        return None

    def markers(self, text: str) -> list[tuple[str, int]]:
        """Markers in a prompt that are tokens of the vocabulary, in order."""
        found = ((m[0], self.vocab.id_of(m[0])) for m in MARKER.finditer(text))
        return [(t, i) for t, i in found if i is not None]


_PLAIN_TYPE = regex(r"'(?:str|int|float|bool|list|tuple) object' has no attribute")
_NAME = regex(r"'(\w+)' is undefined")


def chat(m: Model) -> Chat:
    """The chat template of a model, kept on it."""
    found: Chat | None = m.kept.get("chat")
    if found is None:
        value = m.get(KEY)
        found = m.kept["chat"] = Chat(value if isinstance(value, str) else None, vocabulary(m))
    return found
