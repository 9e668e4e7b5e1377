"""Prompts of one model: its templates, its special tokens, and what a conversation becomes.

This module imports jinja2; import it only when a prompt is wanted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

import jinja2

from gguftool.brief import short_repr
from gguftool.chat.conversations import STANDARD, Talk
from gguftool.chat.document import DEFAULT
from gguftool.chat.engine.request import Asked
from gguftool.chat.engine.server import Server
from gguftool.chat.hf import applied
from gguftool.chat.meter import LimitReached
from gguftool.chat.sandbox import Rendered, Template
from gguftool.chat.talk import KEY
from gguftool.errors import UsageError
from gguftool.model import Model
from gguftool.model.role import ROLES, role
from gguftool.model.vocab import Vocabulary, vocabulary
from gguftool.near import same_beginning
from gguftool.records import dataclass, replace
from gguftool.shell import gguftool, path_word

_MARKED = {3: "control", 4: "user-defined"}
"""Token types that llama.cpp finds in a prompt before it looks at the text between them."""


WIDTH = 60
"""Characters shown behind a difference; half as many in front of it."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a prompt.

    Attributes:
        text: its characters.
        token: the id, for a special token; None for text.
        kind: ``text``, ``control`` or ``user-defined``.
    """

    text: str
    token: int | None = None
    kind: str = "text"

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Apart:
    """A standard conversation of which two templates make different prompts.

    Attributes:
        name: of the conversation.
        title: what it is.
        ours: the prompt of the first, with its error where there is none.
        theirs: that of the second.
        at: the first character that differs; None where one of them fails.
    """

    name: str
    title: str
    ours: Rendered
    theirs: Rendered
    at: int | None

    __repr__ = short_repr


def templates(model: Model) -> dict[str, str]:
    """The templates of a file by name; ``default`` is the main one. A number stands for its digits, as in llama.cpp."""
    out: dict[str, str] = {}
    for key in model.fields:
        if key != KEY and not key.startswith(f"{KEY}."):
            continue
        value = model.get(key)
        if isinstance(value, bool):
            value = str(value).lower()
        elif isinstance(value, int | float):
            value = str(value)
        if isinstance(value, str):
            out[key.removeprefix(KEY).removeprefix(".") or DEFAULT] = value
    return out


def server(
    model: Model, named: Mapping[str, str], name: str | None = None, *, bos: bool = True, now: datetime | None = None
) -> Server:
    """What llama-server makes of templates with the special tokens of a model.

    Args:
        model: whose tokens they write.
        named: templates by name.
        name: the one to take for everything; None: ``default``, and ``tool_use`` for requests with tools.
        bos: leave a BOS that the tokenizer adds out of the prompt, as the server does.
        now: what they take for the time.

    Raises:
        UsageError: no template of that name, or it does not parse.
    """
    if name is not None and name not in named:
        there = ", ".join(sorted(named)) or "none"
        raise UsageError(f"there is no template {name!r}", f"there is: {there}")
    if not named and not ROLES[role(model)].loads:
        raise UsageError(f"{model.name}: is {ROLES[role(model)].what}; it has no chat template")
    vocab = vocabulary(model)
    main, tool_use = (named[name], None) if name else (named.get(DEFAULT), named.get("tool_use"))
    try:
        return Server(
            main,
            tool_use,
            bos=_token(vocab, "bos"),
            eos=_token(vocab, "eos"),
            add_bos=bos and vocab.add_bos,
            add_eos=bos and vocab.add_eos,
            now=now,
        )
    except jinja2.TemplateSyntaxError as e:
        text = f"the chat template does not parse: line {e.lineno}: {e.message}"
        raise UsageError(text, gguftool("lint", "--select", "template", path_word(model.name))) from None
    except LimitReached as e:
        raise UsageError(f"the chat template is not rendered: {e}") from None


def _token(vocab: Vocabulary, role: str) -> str:
    i = vocab.special(role)
    return "" if i is None else vocab.text(i)


def segments(text: str, vocab: Vocabulary) -> tuple[Segment, ...]:
    """A prompt cut at the special tokens in it, the longest first where several begin."""
    marks = {t: (i, kind) for t, i, kind in _specials(vocab) if t in text}
    if not marks:
        return (Segment(text),) if text else ()
    pattern = re.compile("|".join(map(re.escape, sorted(marks, key=len, reverse=True))))
    out, at = [], 0
    for match in pattern.finditer(text):
        if at < match.start():
            out.append(Segment(text[at : match.start()]))
        token, kind = marks[match[0]]
        out.append(Segment(match[0], token, kind))
        at = match.end()
    return (*out, Segment(text[at:])) if at < len(text) else tuple(out)


def _specials(vocab: Vocabulary) -> Iterator[tuple[str, int, str]]:
    for number, kind in _MARKED.items():
        for i in vocab.ids_of_type(number):
            # Runs of blanks are tokens of some vocabularies; nobody takes them for marks.
            if (text := vocab.text(i)).strip():
                yield text, i, kind


TOGETHER = 2.0
"""Seconds of the processor for all conversations of a comparison, on each side; real templates take a tenth."""


def apart(ours: Server, theirs: Server) -> tuple[Apart, ...]:
    """The standard conversations of which two make different prompts.

    Raises:
        LimitReached: all together take too long.
    """
    sides = (_timed(ours), _timed(theirs))
    return _differing(STANDARD, *(lambda talk, side=side: side(Asked.of(talk)) for side in sides))


def _timed(server: Server) -> Callable[[Asked], Rendered]:
    """Prompts of one side; what takes too long ends all."""
    server.within(TOGETHER)

    def prompt(asked: Asked) -> Rendered:
        out = server.prompt(asked)
        if server.late:
            raise LimitReached(_LATE)
        return out

    return prompt


_LATE = f"the conversations take more than {TOGETHER:g} seconds of the processor together"


COMPARABLE = tuple(
    name for name in STANDARD if name not in ("image", "parts", "developer", "prefill", "prefill-thinking")
)
"""Conversations that mean the same to both: llama-server makes a text of parts and a marker of a picture, takes a
developer for the system, and continues an answer that has begun, where transformers closes it."""


def engines_apart(ours: Server, theirs: Template, specials: Mapping[str, str]) -> tuple[Apart, ...]:
    """The conversations of which llama-server makes another prompt (``ours``) than transformers (``theirs``).

    Raises:
        LimitReached: all together take too long.
    """
    talks = {name: STANDARD[name] for name in COMPARABLE}
    prompt, left = _timed(ours), TOGETHER

    def their(talk: Talk) -> Rendered:
        nonlocal left
        begun = time.thread_time()
        out = applied(theirs, Asked.of(talk), specials, left)
        left -= time.thread_time() - begun
        if left <= 0:
            raise LimitReached(_LATE)
        return out

    return _differing(talks, lambda talk: prompt(replace(Asked.of(talk), prefill=False)), their)


def _differing(
    talks: Mapping[str, Talk], one: Callable[[Talk], Rendered], other: Callable[[Talk], Rendered]
) -> tuple[Apart, ...]:
    out = []
    for name, talk in talks.items():
        a, b = one(talk), other(talk)
        if a.kind and b.kind:
            continue
        if a.kind or b.kind or a.text != b.text:
            at = None if a.kind or b.kind else same_beginning(a.text, b.text)
            out.append(Apart(name, talk.title, a, b, at))
    return tuple(out)


def excerpt(text: str, at: int | None) -> str:
    """A stretch of a text around a place, its end for None; what was cut off is an ellipsis. Not escaped."""
    place = max(len(text) - WIDTH, 0) if at is None else at
    start, end = max(place - WIDTH // 2, 0), place + WIDTH
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
