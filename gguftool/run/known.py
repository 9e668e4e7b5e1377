"""Does a model know what every language model knows? A page of a well-known book, and words that must come next.

Its own confidence says nothing: a broken model is often sure. So the truth is given, and what counts is how likely the
model finds it: the mean log-probability of the text, token by token, and where the known words stand among those it
would take. Where the limits lie was measured with sound and broken models: docs/smoke.md,
`benchmarks/broken_models.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from gguftool.brief import short_repr
from gguftool.facts.data import load
from gguftool.facts.machine.hparams import recurrent
from gguftool.model.vocab import CONTROL, USER_DEFINED, vocabulary
from gguftool.records import dataclass, replace
from gguftool.run.cuts import Own, lost, own_tokens

if TYPE_CHECKING:
    from gguftool.model import Model
    from gguftool.model.vocab import Vocabulary

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
FAR_TOKENS = 64
"""Tokens that are scored after a long text and after a short one."""
SAYS = {
    "repeats": "repeats what it has read", "far text": "uses 1,000 tokens", "ends inside": "ends nowhere inside a text",
    "own tokens": "cuts texts as its vocabulary was made",
}  # fmt: skip
"""What is said where it is well."""
SMALL = 50_000_000
"""Parameters below which a model may know neither: models for tests, and for stories."""
ENGLISH = ("en", "eng", "english")
ENDS = 0.02
"""Least probability that a turn ends after at least one of some complete answers."""
INSIDE = 0.01
"""Mean probability of an end within the text above which an ordinary word ends answers."""
REPEATED, HARDLY_REPEATED = -1.1, -1.5
"""Mean log-probability of a token of a list that is told a third time: from the first on the model goes by what it has
read, below the second it does not. Sound models down to 2 bits of a weight have -0.8 and more, broken ones -2.0."""
NEARER, LOST_FAR = -0.2, -0.4
"""What the same tokens gain where 1,000 tokens stand before them in place of 160: from the first on a long text does
not harm, below the second it does. Sound models have -0.12 and more, broken ones -0.5."""
DOUBTS = (
    "epsilon-odd", "constant-odd", "rope-freq-base-odd", "rope-factor-odd", "pre-tokenizer-missing",
    "pre-tokenizer-unknown", "pre-tokenizer-mismatch", "eos-not-control",
)  # fmt: skip
"""Rules of lint for values that no model has: what they say is not proven by a text that reads well all the same."""


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
        attends: it looks back at what it has read; one that only keeps a state need not repeat it.
        own: tokens of its vocabulary whose texts must come back whole.
        native: a question in the turns for which the vocabulary has tokens, ``{}`` for its text; "": none.
        marks: the tokens that such turns are made of.
        doubts: what its header says that no model has.
    """

    parameters: int | None = None
    languages: tuple[str, ...] = ()
    ends: frozenset[int] = frozenset()
    chats: bool = False
    attends: bool = True
    own: tuple[Own, ...] = ()
    native: str = ""
    marks: frozenset[int] = frozenset()
    doubts: tuple[str, ...] = ()

    __repr__ = short_repr

    @property
    def excuse(self) -> str:
        """Why it need not know what others know; "" where nothing speaks for that."""
        if self.parameters is not None and self.parameters < SMALL:
            return f"a model of {self.parameters / 1e6:.1f} million parameters need not know it"
        if self.languages and not any(one in ENGLISH for one in self.languages):
            return f"its file names other languages ({', '.join(self.languages[:3])})"
        return ""


def subject(model: Model, template: str | None = None, *, asked: bool = True) -> Subject:
    """What the header of a model says of it.

    Args:
        model: the model; only its header is read.
        template: the chat template to be used in place of its own, if any.
        asked: it will be asked what it knows; False: what takes time is left out.
    """
    v = vocabulary(model)
    sizes = [math.prod(t.shape) for t in model.tensors.values()]
    said = model.get("general.languages")
    languages = tuple(x.lower() for x in said if isinstance(x, str)) if isinstance(said, list | tuple) else ()
    own = model.get("tokenizer.chat_template")
    chats = bool(template or (isinstance(own, str) and own.strip()))
    about = Subject(sum(sizes) if sizes else None, languages, v.eog, chats, not recurrent(model.architecture))
    if not asked:
        return about
    from gguftool.lint.call import lint

    native, marks = _native(v)
    found = lint(model, select=DOUBTS, load=False)
    return replace(
        about, own=own_tokens(model), native=native, marks=marks, doubts=tuple(f.message for f in found)
    )  # fmt: skip


def _native(v: Vocabulary) -> tuple[str, frozenset[int]]:
    """The turns for which a vocabulary has control tokens, and those tokens."""
    for way in load("known.json")["turns"]:
        ids = [v.id_of(mark) for mark in way["marks"]]
        if all(i is not None and v.type_of(i) in (CONTROL, USER_DEFINED) for i in ids):
            return str(way["prompt"]), frozenset(i for i in ids if i is not None)
    return "", frozenset()


@dataclass(frozen=True, slots=True)
class Look:
    """One more thing that was looked at.

    Attributes:
        what: ``repeats``, ``far text``, ``ends inside``, ``own tokens`` or ``header``.
        ok: None: it could not be judged, or was not asked; ``why`` says which.
        why: the reason where it is not well.
        value: what was measured, None where nothing was.
    """

    what: str
    ok: bool | None
    why: str = ""
    value: float | None = None

    __repr__ = short_repr


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
        looks: what else was looked at.
        excused: nothing is held against it: it need not know, or was not asked everything.
    """

    verdict: str
    why: str = ""
    text_logprob: float | None = None
    tokens: int = 0
    words: tuple[Word, ...] = ()
    chat: Chat | None = None
    looks: tuple[Look, ...] = ()
    excused: bool = False

    __repr__ = short_repr

    @property
    def unseen(self) -> tuple[str, ...]:
        """What was not looked at, or could not be judged, with the reason."""
        return tuple(f"{x.what}: {x.why}" for x in self.looks if x.ok is None)

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
        parts += [SAYS[x.what] for x in self.looks if x.ok and x.what in SAYS]
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
        excused = not complete or bool(about and about.excuse)
        return Known(verdict, why, mean, len(finite), tuple(asked), excused=verdict == UNJUDGED and excused)

    if len(finite) < len(text) // 2:
        return said(BROKEN, "log-probabilities are not numbers: the computation went wrong")
    if len(finite) < ENOUGH_TOKENS and len(asked) < ENOUGH_WORDS:
        return said(UNJUDGED, "too little was scored" + ("" if complete else ": it took too long, or was not answered"))
    few = len(finite) < ENOUGH_TOKENS
    return said(*verdict(None if few else mean, sum(w.known for w in asked), len(asked), about or Subject()))


def with_looks(known: Known, looks: Sequence[Look], about: Subject) -> Known:
    """The verdict with what else was looked at; one thing that is not well is enough, whatever the text reads like."""
    doubts = [Look("header", False, message) for message in about.doubts]
    known = replace(known, looks=(*looks, *doubts))
    if known.verdict == BROKEN:
        return known
    wrong = [x for x in looks if x.ok is False]
    if wrong:
        return replace(known, verdict=BROKEN, why="; ".join(x.why for x in wrong), excused=False)
    if about.excuse:
        return known
    reasons = "; ".join(about.doubts)
    if known.verdict != KNOWS:
        return replace(known, verdict=BROKEN, why=f"{reasons}; {known.why}", excused=False) if reasons else known
    unsure = [x.why for x in known.looks if x.what == "header" or (x.ok is None and x.value is not None)]
    return replace(known, verdict=UNJUDGED, why=f"it reads well, but {'; '.join(unsure)}") if unsure else known


def repeats(mean: float | None, about: Subject, why: str = "") -> Look:
    """A list told a third time: whether the model goes by what it has read."""
    if mean is None or not math.isfinite(mean):
        return Look("repeats", None, why or "not asked")
    if mean >= REPEATED:
        return Look("repeats", True, value=mean)
    said = f"a list that it has read twice it does not go on with ({mean:.2f} a token)"
    if not about.attends or about.excuse:
        return Look("repeats", True, said + "; a model of this kind need not", mean)
    return Look(
        "repeats", False if mean < HARDLY_REPEATED else None, said + ": it does not find what it has read", mean
    )


def far(near: Sequence[float], late: Sequence[float], about: Subject, why: str = "") -> Look:
    """The same tokens after a short text and after a long one: whether the model reads what is far away as it must.

    Args:
        near: log-probabilities after the last 160 tokens alone.
        late: after all that stands before.
        about: the model.
        why: why there is nothing of either.
    """
    pairs = [(a, b) for a, b in zip(near, late, strict=False) if math.isfinite(a) and math.isfinite(b)]
    if len(pairs) < FAR_TOKENS // 2:
        return Look("far text", None, why or "too little was scored")
    gain = sum(b - a for a, b in pairs) / len(pairs)
    if gain >= NEARER or about.excuse:
        return Look("far text", True, value=gain)
    said = f"after 1,000 tokens it finds a text less likely than after 160 (by {-gain:.2f} a token)"
    return Look("far text", False if gain < LOST_FAR else None, said + ": its positions are wrong", gain)


def inside(masses: Sequence[float]) -> Look:
    """The probability of an end within the text, which has none."""
    if len(masses) < ENOUGH_TOKENS:
        return Look("ends inside", None, "too little was scored")
    mean = sum(masses) / len(masses)
    why = "" if mean <= INSIDE else f"answers end in the middle: an end has a probability of {mean:.2f} within a text"
    return Look("ends inside", not why, why, mean)


def cuts(own: tuple[Own, ...], whole: Mapping[int, bool]) -> Look:
    """Whether tokens of the vocabulary come back whole from their texts."""
    if not own:
        return Look("own tokens", None, "only byte-level BPE is judged")
    if len(whole) < len(own):
        return Look("own tokens", None, "the server did not tell the tokens of all texts")
    share = 1 - sum(whole.values()) / len(whole)
    found = "; ".join(f"{missing} of {asked} {sort}" for sort, missing, asked in lost(own, whole))
    why = f"the pre-tokenizer is another model's: tokens of its own vocabulary never come ({found})" if found else ""
    return Look("own tokens", not why, why, share)


def verdict(mean: float | None, hits: int, asked: int, about: Subject) -> tuple[str, str]:
    """Verdict and reason, from the mean of the text and the count of words; either may be missing."""
    speaks = hits > FEW * asked if asked else None
    reads = mean is not None and mean >= SOUND_TEXT
    if (reads and speaks is not False) or (mean is None and speaks):
        return KNOWS, ""
    found = _found(mean, hits, asked)
    if about.excuse:
        return UNJUDGED, f"{found}; {about.excuse}"
    limit = BROKEN_TEXT if speaks is False else HOPELESS_TEXT
    if (mean is None and not speaks) or (mean is not None and mean < limit):
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
