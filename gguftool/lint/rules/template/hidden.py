"""Content of the template that a reader does not see or does not expect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gguftool.chat.talk import chat
from gguftool.lint.rule import Context, Draft, Drafts, Fix, Severity, found, not_evaluated, rule
from gguftool.lint.rules.template.present import SET_FILE, WHERE
from gguftool.model import Model

if TYPE_CHECKING:
    from gguftool.chat.scan import Hit

_MANY = 4


def _draft(what: str, hits: list[Hit]) -> Draft:
    shown = ", ".join(f"{h.what} (line {h.line})" for h in hits[:_MANY])
    more = f" and {len(hits) - _MANY} more" if len(hits) > _MANY else ""
    return found(
        f"the chat template {what}: {shown}{more}",
        where=WHERE,
        fix=Fix("look at it, and replace the template", command=SET_FILE),
        hits=[{"line": h.line, "what": h.what} for h in hits],
    )


def _of(m: Model, kind: str, what: str) -> Drafts:
    talk = chat(m)
    if talk.source is None:
        return
    if talk.template is None:
        yield not_evaluated(talk.why_not)
        return
    hits = [h for h in talk.hits("hidden") if h.kind == kind]
    if hits:
        yield _draft(what, hits)


@rule(Severity.WARNING, role="any")
def chat_template_invisible(m: Model, ctx: Context) -> Drafts:
    """A chat template should not hold characters nobody sees.

    Why. Zero-width, bidirectional, tag and control characters go into every prompt unseen, can carry instructions,
    or make a line read otherwise than it runs.
    Evidence. Unicode categories Cc, Cf and the tag block; none of 71 real templates has one.
    Example. the chat template holds invisible characters: U+200B ZERO WIDTH SPACE (line 4)
    Fix. `gguftool fix --chat-template FILE`, without them.
    """
    yield from _of(m, "invisible", "holds invisible characters")


@rule(Severity.WARNING, role="any")
def chat_template_padding(m: Model, ctx: Context) -> Drafts:
    """A chat template should not push content out of sight.

    Why. Hundreds of blanks or dozens of empty lines move what follows off the screen of whoever reviews it.
    Evidence. 200 blanks or 60 empty lines in a row; none of 71 real templates comes near.
    Example. the chat template has content behind a wall of blanks: 400 blanks in a row (line 2)
    Fix. `gguftool fix --chat-template FILE`.
    """
    yield from _of(m, "padding", "has content behind a wall of blanks")


@rule(Severity.WARNING, role="any")
def chat_template_blob(m: Model, ctx: Context) -> Drafts:
    """A chat template should not hold encoded data.

    Why. Nobody can review base64 or hexadecimal text, and no conversation format needs it.
    Evidence. Runs of 160 such characters; none of 71 real templates has one.
    Example. the chat template holds encoded data: aWdub3JlIGFsbCBwcmV2aW91cyBpbnN0... (line 2)
    Fix. `gguftool fix --chat-template FILE`.
    """
    yield from _of(m, "blob", "holds encoded data")


@rule(Severity.WARNING, role="any")
def chat_template_lookalike(m: Model, ctx: Context) -> Drafts:
    """Markers of the template should be written in one alphabet.

    Why. `<|im_end|>` with a Cyrillic letter looks right and is plain text to the model: turns then never end, or a
    check for the real marker is passed by.
    Evidence. Letters of Latin together with Cyrillic, Greek, Armenian, Cherokee or full-width ones.
    Example. the chat template has markers of mixed alphabets: <|im_еnd|> (line 3)
    Fix. `gguftool fix --chat-template FILE`.
    """
    yield from _of(m, "lookalike", "has markers of mixed alphabets")


@rule(Severity.WARNING, role="any")
def chat_template_content_condition(m: Model, ctx: Context) -> Drafts:
    """A chat template should not add words of its own when the user says certain words.

    Why. A template that looks for natural words in a message and then writes a sentence is a trigger: harmless in every
    test, and something else on the right topic.
    Evidence. Conditions on message content with a word, whose branch emits five words or more; and conversations in
    which the user says the words that the template compares with, one by one and all together: the prompt then holds
    two words or more that it does not hold otherwise, or lacks some. None of 71 real templates does so.
    Example. the chat template speaks up when a message holds certain words: 'invoice' (line 7)
    Fix. `gguftool fix --chat-template FILE`.
    """
    talk = chat(m)
    if talk.source is None or talk.template is None:
        yield from _of(m, "content", "")
        return
    read = [h for h in talk.hits("hidden") if h.kind == "content"]
    known = {h.what for h in read}
    hits = [*read, *(h for h in talk.triggers if h.what not in known)]
    if hits:
        yield _draft("speaks up when a message holds certain words", hits)
    elif not talk.may_render:
        yield not_evaluated(talk.why_not)


@rule(Severity.WARNING, role="any")
def chat_template_date_condition(m: Model, ctx: Context) -> Drafts:
    """A chat template should not behave otherwise from some day on.

    Why. Printing the date is usual, comparing with it is how a trigger waits.
    Evidence. Comparisons with `strftime_now` or a name that holds it; none of 71 real templates has one.
    Example. the chat template depends on the day: '2027-01-01' (line 5)
    Fix. `gguftool fix --chat-template FILE`.
    """
    yield from _of(m, "date", "depends on the day")


@rule(Severity.WARNING, role="any")
def chat_template_injection(m: Model, ctx: Context) -> Drafts:
    """A chat template should not tell the model to ignore instructions or to keep things from the user.

    Why. It stands in front of everything the user and the operator say, unseen by both.
    Evidence. Phrases such as "ignore all previous instructions", "without telling the user"; none of 71 real
    templates has one.
    Example. the chat template gives orders behind the user's back: ignore all previous instructions (line 2)
    Fix. `gguftool fix --chat-template FILE`.
    """
    yield from _of(m, "phrase", "gives orders behind the user's back")


@rule(Severity.INFO, role="any")
def chat_template_url(m: Model, ctx: Context) -> Drafts:
    """A chat template rarely needs addresses.

    Why. An address in every prompt can make a model link to it, or load pictures from it.
    Evidence. None of 71 real templates has one.
    Example. the chat template holds addresses: http://203.0.113.9/x.png (line 2)
    Fix. `gguftool fix --chat-template FILE`.
    """
    yield from _of(m, "url", "holds addresses")
