"""Conversations with the chat template in use: does it render, does a turn end, and is it the model's own?"""

from __future__ import annotations

import math

from gguftool.run.known import ENDS, Chat, Subject, answers
from gguftool.run.server import Answer
from gguftool.run.stepping import Asker, Unanswered

OTHER = 1.0
"""Nats by which complete answers may be less likely in the template's turns than in those that the vocabulary has
tokens for."""


def chat(asker: Asker, about: Subject) -> Chat:
    """Whether the template renders, a turn ends after some complete answer, and another kind of turn does no better."""
    if not about.ends:
        return Chat(None, "no token is known to end a generation")
    best, own, native = 0.0, [], []
    try:
        for question, answered in answers():
            messages = [{"role": "user", "content": question}]
            made = asker.ask("/apply-template", {"messages": messages})
            prompt = made.body.get("prompt") if made.status == 200 and isinstance(made.body, dict) else None
            if not isinstance(prompt, str):
                if made.status in (400, 500):
                    return Chat(False, f"the chat template does not render: {_message(made)}")
                raise Unanswered
            ids = asker.tokens(prompt, special=True)
            if not about.native or about.marks & {*ids}:
                best = max(best, _ends(asker, asker.tokens(prompt + answered, special=True), about))
                continue
            likely, end = _answer(asker, prompt, answered, about)
            best = max(best, end)
            own.append(likely)
            native.append(_answer(asker, about.native.format(question), answered, about)[0])
    except Unanswered:
        return Chat(None, "the server does not answer with its template")
    worse = (sum(native) - sum(own)) / len(own) if own else 0.0
    if worse > OTHER:
        said = f"answers are less likely by {worse:.1f} nats than in the turns that the vocabulary has tokens for"
        return Chat(False, f"the chat template is another model's: {said}", best)
    if best < ENDS:
        return Chat(False, f"no answer ends: the end of a turn has a probability of {best:.2g} at most", best)
    return Chat(True, "", best)


def _answer(asker: Asker, prompt: str, answered: str, about: Subject) -> tuple[float, float]:
    """Log-probability of an answer with the end of its turn, and the probability of that end."""
    before, whole = asker.tokens(prompt, special=True), asker.tokens(prompt + answered, special=True)
    same = next((i for i, (a, b) in enumerate(zip(before, whole, strict=False)) if a != b), len(before))
    total = 0.0
    for at in range(same, len(whole)):
        rows = asker.listed(whole[:at])
        total += next((r.logprob for r in rows if r.token == whole[at]), rows[-1].logprob if rows else 0.0)
    end = _ends(asker, whole, about)
    return total + math.log(max(end, 1e-9)), end


def _ends(asker: Asker, ids: list[int], about: Subject) -> float:
    """Probability of an end after tokens."""
    rows = (r for r in asker.listed(ids) if r.token in about.ends and not math.isnan(r.logprob))
    return sum(math.exp(r.logprob) for r in rows)


def _message(answer: Answer) -> str:
    error = answer.body.get("error") if isinstance(answer.body, dict) else None
    return str(error.get("message", "")) if isinstance(error, dict) else f"HTTP {answer.status}"
