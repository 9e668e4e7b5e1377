"""Known text and known words, scored by a server that runs: one step at a time, with the truth given."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gguftool.facts import data
from gguftool.run.known import ENDS, KNOWS, Chat, Known, Prompt, Subject, Word, answers, judge, prompts
from gguftool.run.server import Answer, Running, ask

LISTED = 500
"""Tokens the server lists for each step; one that is not among them is at most as likely as the last."""
BEFORE, SCORED = 160, 96
"""Tokens of the text that are read first, and those that are scored then."""
TEXT_BYTES = 6000
SECONDS = 300.0
"""What all of it may take; a slow model is judged by what it came to."""


class Unanswered(Exception):
    """The server did not answer as one that completes text does."""


def score(running: Running, about: Subject | None = None, seconds: float = SECONDS) -> Known:
    """Ask a server for what is known, and judge it.

    Args:
        running: a server that is ready and writes.
        about: what is known of the model.
        seconds: after so many no new step is begun.
    """
    ends = time.monotonic() + seconds
    words: list[Word] = []
    text: list[float] = []
    complete = True
    try:
        for p in _text(running, ends):
            if p is not None:
                text.append(p)
        for prompt in prompts():
            words.append(_word(running, prompt, _left(ends)))
    except Unanswered:
        complete = False
    known = judge(text, words, about, complete=complete)
    if known.verdict != KNOWS or about is None or not about.chats:
        return known
    return replace(known, chat=_chat(running, about, max(10.0, ends - time.monotonic())))


def _chat(running: Running, about: Subject, seconds: float) -> Chat:
    """Whether the template renders, and a turn ends after some complete answer; asked only of models that know."""
    if not about.ends:
        return Chat(None, "no token is known to end a generation")
    best, ends = 0.0, time.monotonic() + seconds
    try:
        for question, answered in answers():
            messages = [{"role": "user", "content": question}]
            made = ask(running, "/apply-template", {"messages": messages}, _left(ends))
            prompt = made.body.get("prompt") if made.status == 200 and isinstance(made.body, dict) else None
            if not isinstance(prompt, str):
                if made.status in (400, 500):
                    return Chat(False, f"the chat template does not render: {_message(made)}")
                raise Unanswered
            ids = _tokens(running, prompt + answered, _left(ends), special=True)
            rows = [r for r in listed(running, ids, _left(ends)) if r.get("id") in about.ends]
            best = max(best, sum(math.exp(p) for r in rows if isinstance(p := r.get("logprob"), int | float)))
    except Unanswered:
        return Chat(None, "the server does not answer with its template")
    if best < ENDS:
        return Chat(False, f"no answer ends: the end of a turn has a probability of {best:.2g} at most", best)
    return Chat(True, "", best)


def _message(answer: Answer) -> str:
    error = answer.body.get("error") if isinstance(answer.body, dict) else None
    return str(error.get("message", "")) if isinstance(error, dict) else f"HTTP {answer.status}"


def _left(ends: float) -> float:
    left = ends - time.monotonic()
    if left <= 0:
        raise Unanswered
    return left


def _text(running: Running, ends: float) -> Iterator[float | None]:
    with open(data.path("alice.txt"), encoding="utf-8") as file:
        ids = _tokens(running, file.read(TEXT_BYTES), _left(ends))
    for at in range(BEFORE, min(len(ids), BEFORE + SCORED)):
        yield _step(running, ids[:at], ids[at], _left(ends))[0]


def _word(running: Running, prompt: Prompt, seconds: float) -> Word:
    """All tokens in which the text with the word differs from the text without it."""
    before, whole = (_tokens(running, text, seconds) for text in (prompt.text, prompt.text + prompt.next))
    same = next(
        (i for i, (a, b) in enumerate(zip(before, whole, strict=False)) if a != b), min(len(before), len(whole))
    )
    total, worst, found = 0.0, 1, True
    for at in range(max(1, same), len(whole)):
        logprob, rank = _step(running, whole[:at], whole[at], seconds)
        if logprob is None:
            return Word(prompt, None, None)
        total += logprob
        found = found and rank is not None
        worst = max(worst, rank or 0)
    return Word(prompt, total, worst if found else None)


def _tokens(running: Running, text: str, seconds: float, *, special: bool = False) -> list[int]:
    request = {"content": text, "add_special": True, "parse_special": special}
    answer = ask(running, "/tokenize", request, seconds)
    ids = answer.body.get("tokens") if answer.status == 200 and isinstance(answer.body, dict) else None
    if not isinstance(ids, list) or not ids or not all(isinstance(i, int) for i in ids):
        raise Unanswered
    return ids


def _step(running: Running, before: Sequence[int], following: int, seconds: float) -> tuple[float | None, int | None]:
    """Log-probability and place of one token after others; None: not told, NaN: it is no number."""
    rows = listed(running, before, seconds)
    # No row at all: the token it would take is no whole character, and the server keeps it back.
    lowest: float | None = math.nan if rows else None
    for place, row in enumerate(rows, 1):
        logprob = row.get("logprob")
        if not isinstance(logprob, int | float):
            continue
        if row.get("id") == following:
            return float(logprob), place
        lowest = float(logprob)
    return lowest, None


def listed(running: Running, before: Sequence[int], seconds: float) -> list[dict[str, object]]:
    """The most likely tokens after others, the first of them first.

    Raises:
        Unanswered: the server gave none.
    """
    request = {
        "prompt": list(before), "n_predict": 1, "temperature": 0, "seed": 1, "n_probs": LISTED, "cache_prompt": True,
    }  # fmt: skip
    answer = ask(running, "/completion", request, seconds)
    body = answer.body if answer.status == 200 and isinstance(answer.body, dict) else {}
    steps = body.get("completion_probabilities")
    if answer.status != 200:
        raise Unanswered
    rows = steps[0].get("top_logprobs") if isinstance(steps, list) and steps and isinstance(steps[0], dict) else None
    return [r for r in rows if isinstance(r, dict)] if isinstance(rows, list) else []
