"""What a running server says about itself, and whether it writes what a model must know."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gguftool.brief import short_repr
from gguftool.records import dataclass, replace
from gguftool.run.features import mark
from gguftool.run.known import KNOWS, UNJUDGED, Known, Subject
from gguftool.run.proof import Check, Expected
from gguftool.run.scored import score
from gguftool.run.server import Answer, Running, ask

PROMPT = "The capital of France is"
TOKENS = 24
STORY = (
    "In the spring the farmer sows wheat, barley, oats and rye. In the summer the sun and the rain make them grow. "
    "In the autumn he brings in the harvest and mends the roof of the barn. In the winter he sits by the fire, counts "
    "his sacks and waits for the spring. So one year goes by, and then the next one begins the same way. "
)
"""Told a third time, any model goes on with it; one turn is longer than what the ngram kinds look for and draft."""
STORY_TOKENS, REPEATED = 80, 3
LOOP = 12
"""So many times the same token in a row is soup; small models do repeat sentences, which is none."""
_CANNOT_WRITE = ("does not support", "logits computation")
"""What the server says for models that give embeddings only."""
NO_ANSWER = "no answer"
NOT_FINITE = "log-probabilities are not finite: the computation went wrong"
NEARLY_RANDOM = -7.0
"""Mean log-probability of the most likely token below which the model only guesses (0.1 %)."""


@dataclass(frozen=True, slots=True)
class Smoke:
    """A short greedy completion and its judgement.

    Attributes:
        text: what came.
        tokens: how many.
        tokens_per_second: speed of writing, None when the server does not tell.
        ok: it knows what every language model knows; None: it cannot write, or that could not be judged.
        why: the reason where it is not well.
        known: what it was held against; None: nothing, the completion alone is broken or there is none.
    """

    text: str
    tokens: int
    tokens_per_second: float | None
    ok: bool | None
    why: str = ""
    known: Known | None = None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Drafted:
    """How much of an answer was drafted.

    Attributes:
        written: tokens of the answer.
        drafted: tokens that were drafted for it.
        accepted: of them, those that the model would have written, too.
        why: the reason where there was no answer.
    """

    written: int
    drafted: int
    accepted: int
    why: str = ""

    __repr__ = short_repr


def drafts(running: Running, repeats: bool, room: int, seconds: float = 300.0) -> Drafted:
    """Ask for a greedy completion and count what was drafted for it.

    Args:
        running: the server.
        repeats: the text must repeat itself, which is all that the ngram kinds find.
        room: tokens that a slot holds.
        seconds: how long to wait.
    """
    times = max(1, min(REPEATED, room // (2 * STORY_TOKENS)))
    prompt = STORY * times if repeats else PROMPT
    request = {
        "prompt": prompt, "n_predict": 64 if repeats else TOKENS, "temperature": 0, "seed": 1, "cache_prompt": False,
        "ignore_eos": True,
    }  # fmt: skip
    answer = ask(running, "/completion", request, seconds)
    body = answer.body if isinstance(answer.body, dict) else {}
    timings = body.get("timings")
    if answer.status != 200 or not isinstance(timings, Mapping):
        said = body.get("error")
        message = str(said.get("message", "")) if isinstance(said, Mapping) else ""
        return Drafted(0, 0, 0, message or f"no answer (HTTP {answer.status or 'connection closed'})")
    counts = [timings.get(name) for name in ("predicted_n", "draft_n", "draft_n_accepted")]
    written, drafted, accepted = (n if isinstance(n, int) else 0 for n in counts)
    return Drafted(written, drafted, accepted)


def endpoint_checks(running: Running, expected: Expected, model: str) -> list[Check]:
    """``/props`` and ``/slots`` against what was planned; no endpoint knows cache types or sizes."""
    props, slots = ask(running, "/props"), ask(running, "/slots")
    body = props.body if props.status == 200 and isinstance(props.body, dict) else {}
    settings, takes = body.get("default_generation_settings"), body.get("modalities")
    takes = takes if isinstance(takes, dict) else {}
    out = [
        _same("/props: context of a slot", expected.slot_context, (settings or {}).get("n_ctx")),
        *(_same(f"/props: {name}", True, takes.get(name)) for name in expected.media),
        _same("/props: slots", expected.slots, body.get("total_slots")),
        _same("/props: model", model, body.get("model_path")),
        _same("/props: chat template", expected.template, _mark(body.get("chat_template"))),
    ]
    if slots.status == 200 and isinstance(slots.body, list):
        contexts = {s.get("n_ctx") for s in slots.body if isinstance(s, dict)}
        out.append(_same("/slots: slots", expected.slots, len(slots.body)))
        each = contexts.pop() if len(contexts) == 1 else None
        out.append(_same("/slots: context of each", expected.slot_context, each))
    return [c for c in out if c.expected is not None]


def _mark(template: object) -> str | None:
    return mark(template) if isinstance(template, str) else None


def _same(what: str, expected: object, observed: object) -> Check:
    return Check(what, expected, observed, None if observed is None else expected == observed)


def smoke(running: Running, about: Subject | None = None, seconds: float = 300.0) -> Smoke:
    """Ask for a short greedy completion, then for what every language model knows, and judge both.

    Args:
        running: the server.
        about: what is known of the model.
        seconds: how long to wait for the completion.
    """
    request = {"prompt": PROMPT, "n_predict": TOKENS, "temperature": 0, "seed": 1, "n_probs": 1, "cache_prompt": False}
    written = judge_completion(ask(running, "/completion", request, seconds))
    if written.ok:
        return with_known(written, score(running, about))
    if written.ok is False and about is not None and about.excuse and not _went_wrong(written.why):
        return replace(written, ok=None, why=f"{written.why}; {about.excuse}")
    return written


def _went_wrong(why: str) -> bool:
    """Whether the program failed, which no smallness of a model excuses; odd output it does."""
    return why == NOT_FINITE or why.startswith(NO_ANSWER)


def with_known(written: Smoke, known: Known) -> Smoke:
    """The judgement of a completion that came, from what the model knows: how it looks proves nothing."""
    if known.verdict != KNOWS:
        return replace(written, ok=None if known.verdict == UNJUDGED else False, why=known.why, known=known)
    if known.chat is not None and known.chat.ok is False:
        return replace(written, ok=False, why=known.chat.why, known=known)
    return replace(written, ok=True, known=known)


def judge_completion(answer: Answer) -> Smoke:
    """The judgement alone, for an answer that is there."""
    body = answer.body if isinstance(answer.body, dict) else {}
    if answer.status != 200:
        said = body.get("error")
        message = str(said.get("message", "")) if isinstance(said, Mapping) else ""
        if answer.status == 501 or any(words in message for words in _CANNOT_WRITE):
            return Smoke("", 0, None, None, message or "the server does not complete text")
        return Smoke("", 0, None, False, message or f"{NO_ANSWER} (HTTP {answer.status or 'connection closed'})")
    text = str(body.get("content", ""))
    rows = body.get("completion_probabilities")
    ids, logprobs = _tokens(rows if isinstance(rows, Sequence) else ())
    count = int(body.get("tokens_predicted") or len(ids))
    timings = body.get("timings")
    speed = timings.get("predicted_per_second") if isinstance(timings, Mapping) else None
    why = _fault(text, ids, logprobs)
    # Nothing wrong to be seen: whether it is right, only what is known can tell.
    return Smoke(text, count, float(speed) if isinstance(speed, int | float) else None, not why, why)


def _tokens(rows: Sequence[Any]) -> tuple[list[object], list[float]]:
    ids: list[object] = []
    logprobs: list[float] = []
    for row in rows:
        if isinstance(row, Mapping):
            ids.append(row.get("id"))
            value = row.get("logprob")
            # JSON has no NaN: a server writes null in its place.
            logprobs.append(float(value) if isinstance(value, int | float) else math.nan)
    return ids, logprobs


def _fault(text: str, ids: Sequence[object], logprobs: Sequence[float]) -> str:
    if not text.strip():
        return "the answer is empty"
    if any(not math.isfinite(p) for p in logprobs):
        return NOT_FINITE
    if ids and _longest_run(ids) >= LOOP:
        return f"the same token {_longest_run(ids)} times in a row"
    if not ids and len(text) >= LOOP and Counter(text.strip()).most_common(1)[0][1] > 0.8 * len(text.strip()):
        return "the same character over and over"
    if text.count("\ufffd") > len(text) // 3:
        return "mostly bytes that are no text"
    if logprobs and sum(logprobs) / len(logprobs) < NEARLY_RANDOM:
        return "every token is a guess: the weights or the computation are broken"
    return ""


def _longest_run(ids: Sequence[object]) -> int:
    best = run = 0
    last: object = object()
    for token in ids:
        run = run + 1 if token == last else 1
        best, last = max(best, run), token
    return best
