"""The standard conversations as the chat template of a model writes them, also where it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gguftool.brief import short_repr
from gguftool.errors import UsageError
from gguftool.model import Model
from gguftool.model.embedder import no_chat
from gguftool.model.role import ROLES, role
from gguftool.records import dataclass

if TYPE_CHECKING:
    from gguftool.chat.prompts import Segment

LONGEST = 6000
"""Characters of a prompt that are kept."""


@dataclass(frozen=True, slots=True)
class Preview:
    """One conversation.

    Attributes:
        name: of the conversation (`gguftool.chat.conversations.STANDARD`).
        title: what it is.
        segments: the prompt, cut at its special tokens; () where there is none.
        error: why there is none; "": there is.
        kind: ``raised``, ``request``, ``error``, ``limit``, as in `gguftool.api.render.Prompt`.
        left: characters that are left out at the end.
    """

    name: str
    title: str
    segments: tuple[Segment, ...]
    error: str = ""
    kind: str = ""
    left: int = 0

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Templates:
    """What is to be said of the templates of a model.

    Attributes:
        names: of the templates in the file; () where llama-server takes ChatML in their place.
        previews: the standard conversations.
        why: why nothing was rendered; "": it was.
    """

    names: tuple[str, ...]
    previews: tuple[Preview, ...]
    why: str = ""

    __repr__ = short_repr


def previews(m: Model) -> Templates:
    """The standard conversations, in people's words, as llama-server renders them; as many as there is time for."""
    from gguftool.chat.conversations import STANDARD, spoken
    from gguftool.chat.engine.request import Asked
    from gguftool.chat.prompts import TOGETHER, segments, server, templates
    from gguftool.model.vocab import vocabulary

    if not ROLES[role(m)].runs or no_chat(m):
        return Templates((), (), f"{ROLES[role(m)].what} has no conversations")
    named = templates(m)
    try:
        made = server(m, named)
    except UsageError as error:
        return Templates(tuple(named), (), str(error))
    made.within(TOGETHER)
    vocab = vocabulary(m)
    out = []
    for name, talk in STANDARD.items():
        if made.late:
            out.append(Preview(name, talk.title, (), "not rendered: those before took too long together", "limit"))
            continue
        one = made.prompt(Asked.of(spoken(talk)))
        text = one.text[:LONGEST]
        cut = segments(text, vocab) if not one.kind else ()
        out.append(Preview(name, talk.title, cut, one.error, one.kind, 0 if one.kind else len(one.text) - len(text)))
    return Templates(tuple(named), tuple(out))
