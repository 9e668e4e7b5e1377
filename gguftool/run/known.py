"""Does a model know what every language model knows? A page of a well-known book, and words that must come next.

Its own confidence says nothing: a broken model is often sure. So the truth is given, and what counts is how likely the
model finds it: the mean log-probability of the text, token by token, and where the known words stand among those it
would take. Where the limits lie was measured with sound and broken models: docs/smoke.md,
`benchmarks/broken_models.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from gguftool.brief import short_repr
from gguftool.facts.data import load

if TYPE_CHECKING:
    from gguftool.model import Model

KNOWS, BROKEN, UNJUDGED = "knows", "broken", "unjudged"
SOUND_TEXT = -3.6
"""Mean log-probability of a token of the text (nats) from which a model reads it; sound models of 135 and 270 million
parameters have -3.2 and more, larger ones more still."""
BROKEN_TEXT = -4.75
"""Below it the text means nothing to the model, where the known words do not either."""
HOPELESS_TEXT = -6.0
"""The same where nothing but the text was asked."""
NEAR = 3
"""A word is known when none of its tokens stands behind this place."""
FEW = 1 / 3
"""Share of the known words that even a broken model may hit, by going on with what it was given."""
ENOUGH_WORDS, ENOUGH_TOKENS = 6, 64
SMALL = 50_000_000
"""Parameters below which a model may know neither: models for tests, and for stories."""
ENGLISH = ("en", "eng", "english")
ENDS = 0.02
"""Least probability that a turn ends after at least one of some complete answers."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A text and what comes next in it; ``kind``: ``facts``, ``rows``, ``words``, ``code``, ``other`` languages."""

    kind: str
    text: str
    next: str


@dataclass(frozen=True, slots=True)
class Word:
    """How likely a known word was.

    Attributes:
        prompt: what was asked.
        logprob: of all its tokens together, in nats; at most this where ``rank`` is None. None: no number at all.
        rank: the worst place of its tokens, 1 is the first; None: not among those that were listed.
    """

    prompt: Prompt
    logprob: float | None
    rank: int | None

    @property
    def known(self) -> bool:
        """It is among the first."""
        return self.logprob is not None and self.rank is not None and self.rank <= NEAR


@dataclass(frozen=True, slots=True)
class Subject:
    """What is known of a model before it is asked.

    Attributes:
        parameters: how many, None where unknown.
        languages: those its file names, in lower case.
        ends: ids of the tokens that end a generation.
        chats: a chat template of its own is in use.
    """

    parameters: int | None = None
    languages: tuple[str, ...] = ()
    ends: frozenset[int] = frozenset()
    chats: bool = False

    __repr__ = short_repr

    @property
    def excuse(self) -> str:
        """Why it need not know what others know; "" where nothing speaks for that."""
        if self.parameters is not None and self.parameters < SMALL:
            return f"a model of {self.parameters / 1e6:.1f} million parameters need not know it"
        if self.languages and not any(one in ENGLISH for one in self.languages):
            return f"its file names other languages ({', '.join(self.languages[:3])})"
        return ""


def subject(model: Model, template: str | None = None) -> Subject:
    """What the header of a model says of it.

    Args:
        model: the model; only its header is read.
        template: the chat template to be used in place of its own, if any.
    """
    from gguftool.model.vocab import vocabulary

    sizes = [math.prod(t.shape) for t in model.tensors.values()]
    said = model.get("general.languages")
    languages = tuple(x.lower() for x in said if isinstance(x, str)) if isinstance(said, list | tuple) else ()
    own = model.get("tokenizer.chat_template")
    chats = bool(template or (isinstance(own, str) and own.strip()))
    return Subject(sum(sizes) if sizes else None, languages, vocabulary(model).eog, chats)


@dataclass(frozen=True, slots=True)
class Chat:
    """What became of conversations with the chat template.

    Attributes:
        ok: None: not asked, or not to be judged.
        why: the reason where it is not well.
        ends: the largest probability of an end after a complete answer.
    """

    ok: bool | None
    why: str = ""
    ends: float | None = None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Known:
    """What came of it.

    Attributes:
        verdict: ``knows``, ``broken``, or ``unjudged``: neither can be said.
        why: the reason for ``broken`` and ``unjudged``.
        text_logprob: mean over the tokens of the text, in nats; None: none were scored.
        tokens: of the text that were scored.
        words: the known words.
        chat: conversations with the chat template; None: not looked at.
    """

    verdict: str
    why: str = ""
    text_logprob: float | None = None
    tokens: int = 0
    words: tuple[Word, ...] = ()
    chat: Chat | None = None

    __repr__ = short_repr

    @property
    def hits(self) -> int:
        """Known words that are among the first."""
        return sum(w.known for w in self.words)

    @property
    def summary(self) -> str:
        """The numbers in one phrase."""
        parts = []
        if self.text_logprob is not None and self.tokens:
            parts.append(f"known text at {self.text_logprob:.2f} a token ({self.tokens} tokens)")
        if self.words:
            parts.append(f"{self.hits} of {len(self.words)} known words")
        return ", ".join(parts)


@cache
def prompts() -> tuple[Prompt, ...]:
    """The known words and what stands before them."""
    return tuple(Prompt(p["kind"], p["text"], p["next"]) for p in load("known.json")["prompts"])


@cache
def answers() -> tuple[tuple[str, str], ...]:
    """Questions and complete answers, after which a turn may end."""
    return tuple((question, answer) for question, answer in load("known.json")["answers"])


def judge(
    text: Sequence[float], words: Sequence[Word] = (), about: Subject | None = None, *, complete: bool = True
) -> Known:
    """The verdict.

    Args:
        text: log-probability of each token of the text; NaN: the program wrote no number.
        words: the known words.
        about: what is known of the model before it is asked.
        complete: all was asked for; False: the time was over, or a request failed.
    """
    finite = [p for p in text if math.isfinite(p)]
    mean = sum(finite) / len(finite) if finite else None
    asked = [w for w in words if w.logprob is not None]

    def said(verdict: str, why: str = "") -> Known:
        return Known(verdict, why, mean, len(finite), tuple(asked))

    if len(finite) < len(text) // 2:
        return said(BROKEN, "log-probabilities are not numbers: the computation went wrong")
    if len(finite) < ENOUGH_TOKENS and len(asked) < ENOUGH_WORDS:
        return said(UNJUDGED, "too little was scored" + ("" if complete else ": it took too long, or was not answered"))
    few = len(finite) < ENOUGH_TOKENS
    return said(*verdict(None if few else mean, sum(w.known for w in asked), len(asked), about or Subject()))


def verdict(mean: float | None, hits: int, asked: int, about: Subject) -> tuple[str, str]:
    """Verdict and reason, from the mean of the text and the count of words; either may be missing."""
    speaks = hits > FEW * asked if asked else None
    reads = mean is not None and mean >= SOUND_TEXT
    if (reads and speaks is not False) or (mean is None and speaks):
        return KNOWS, ""
    found = _found(mean, hits, asked)
    if about.excuse:
        return UNJUDGED, f"{found}; {about.excuse}"
    limit = HOPELESS_TEXT if speaks is None else BROKEN_TEXT
    if not speaks and (mean is None or mean < limit):
        return BROKEN, f"{found}: what every language model knows it does not; weights, sizes or tokens are wrong"
    return UNJUDGED, f"{found}: between what sound and broken models give"


def of_perplexity(perplexity: float, about: Subject | None = None, tokens: int = ENOUGH_TOKENS) -> Known:
    """The verdict from the perplexity of the packaged text alone, as `kv_test` measures it."""
    if not math.isfinite(perplexity) or perplexity <= 0:
        return Known(BROKEN, "its perplexity is no number: the computation went wrong")
    mean = -math.log(perplexity)
    return Known(*verdict(mean, 0, 0, about or Subject()), text_logprob=mean, tokens=tokens)


def _found(mean: float | None, hits: int, asked: int) -> str:
    parts = [] if mean is None else [f"perplexity {math.exp(min(-mean, 50.0)):,.0f} of a well-known text"]
    return ", ".join([*parts, *([f"{hits} of {asked} known words"] if asked else [])])
