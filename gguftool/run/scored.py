"""Known text and known words, scored by a server that runs: one step at a time, with the truth given."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence

from gguftool.facts import data
from gguftool.records import dataclass, field, replace
from gguftool.run import known as limits
from gguftool.run.known import KNOWS, Known, Look, Prompt, Subject, Word, judge, prompts, with_looks
from gguftool.run.server import Running
from gguftool.run.stepping import Asker, Row, Unanswered
from gguftool.run.turned import chat

BEFORE, SCORED = 160, 96
"""Tokens of the text that are read first, and those that are scored then."""
FAR = 1080
"""Tokens of the text before those that are scored after a long text."""
TEXT_BYTES = 9000
SECONDS = 300.0
"""What all of it may take; a slow model is judged by what it came to."""
SHARE = 0.25
"""Share of the time after which what takes long is not begun."""


@dataclass(slots=True)
class _Read:
    """What one pass over tokens came to: of each its log-probability, and the probability of an end in its place."""

    logprobs: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)


def score(running: Running, about: Subject | None = None, seconds: float = SECONDS) -> Known:
    """Ask a server for what is known, and judge it.

    Args:
        running: a server that is ready and writes.
        about: what is known of the model.
        seconds: after so many no new step is begun.
    """
    asker = Asker(running, time.monotonic() + seconds)
    about = about or Subject()
    words: list[Word] = []
    text = _Read()
    complete = True
    ids: list[int] = []
    try:
        with open(data.path("alice.txt"), encoding="utf-8") as file:
            ids = asker.tokens(file.read(TEXT_BYTES))
        _through(asker, ids[:BEFORE], ids[BEFORE : BEFORE + SCORED], text, about)
        words += (_word(asker, prompt) for prompt in prompts())
    except Unanswered:
        complete = False
    known = judge(text.logprobs, words, about, complete=complete)
    if known.verdict == limits.BROKEN or not complete:
        return known
    known = with_looks(known, [*_looks(asker, ids, text, about, seconds)], about)
    if known.verdict != KNOWS or not about.chats:
        return known
    return replace(known, chat=chat(asker.at_least(10.0), about))


def _looks(asker: Asker, ids: Sequence[int], text: _Read, about: Subject, seconds: float) -> Iterable[Look]:
    yield limits.inside(text.ends)
    whole = {}
    try:
        for one in about.own:
            whole[one.token] = asker.tokens(one.text, begin=False) == [one.token]
    except Unanswered:
        pass
    yield limits.cuts(about.own, whole)
    mean, why = None, ""
    try:
        mean = _list_again(asker, about)
    except Unanswered:
        why = "the time was over, or it was not answered"
    yield limits.repeats(mean, about, why)
    yield _far(asker, ids, about, asker.left > (1 - SHARE) * seconds)


def _list_again(asker: Asker, about: Subject) -> float | None:
    """Mean log-probability of a list of words that stands there twice already, from its second word on."""
    words = str(data.load("known.json")["list"])
    before, whole = (asker.tokens(f"{words}.\n" * 2 + said) for said in (words.split(",", 1)[0] + ",", words))
    same = next((i for i, (a, b) in enumerate(zip(before, whole, strict=False)) if a != b), len(before))
    read = _Read()
    _through(asker, whole[:same], whole[same:], read, about)
    return sum(read.logprobs) / len(read.logprobs) if read.logprobs else None


def _far(asker: Asker, ids: Sequence[int], about: Subject, time_for_it: bool) -> Look:
    """The same tokens after a long text and after a short one."""
    ends = FAR + limits.FAR_TOKENS
    if len(ids) < ends:
        return limits.far((), (), about, "the text is too short in this vocabulary")
    if not time_for_it:
        return limits.far((), (), about, "the model is too slow for a long text")
    there = asker.context()
    if there is not None and there <= ends:
        return limits.far((), (), about, f"a slot holds {there:,} tokens, and {ends:,} are needed")
    late, near = _Read(), _Read()
    start = ids[:1] if asker.begins(ids) else ids[:0]
    try:
        _through(asker, ids[:FAR], ids[FAR:ends], late, about)
        _through(asker, [*start, *ids[FAR - BEFORE : FAR]], ids[FAR:ends], near, about)
    except Unanswered:
        return limits.far((), (), about, "the time was over, or it was not answered")
    return limits.far(near.logprobs, late.logprobs, about)


def _through(asker: Asker, before: Sequence[int], following: Sequence[int], into: _Read, about: Subject) -> None:
    """Score tokens one after the other, each after those that truly stand before it."""
    read = list(before)
    for token in following:
        rows = asker.listed(read)
        logprob, _ = _found(rows, token)
        if logprob is not None:
            into.logprobs.append(logprob)
            into.ends.append(sum(math.exp(r.logprob) for r in rows if r.token in about.ends))
        read.append(token)


def _word(asker: Asker, prompt: Prompt) -> Word:
    """All tokens in which the text with the word differs from the text without it."""
    before, whole = (asker.tokens(text) for text in (prompt.text, prompt.text + prompt.next))
    same = next(
        (i for i, (a, b) in enumerate(zip(before, whole, strict=False)) if a != b), min(len(before), len(whole))
    )
    total, worst, found = 0.0, 1, True
    for at in range(max(1, same), len(whole)):
        logprob, rank = _found(asker.listed(whole[:at]), whole[at])
        if logprob is None:
            return Word(prompt, None, None)
        total += logprob
        found = found and rank is not None
        worst = max(worst, rank or 0)
    return Word(prompt, total, worst if found else None)


def _found(rows: Sequence[Row], following: int) -> tuple[float | None, int | None]:
    """Log-probability and place of a token among those that were listed; None: nothing was, NaN: it is no number."""
    lowest: float | None = math.nan if rows else None
    for place, row in enumerate(rows, 1):
        if math.isnan(row.logprob):
            continue
        if row.token == following:
            return row.logprob, place
        lowest = row.logprob
    return lowest, None
