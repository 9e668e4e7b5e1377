"""One step of a model that a server runs: how likely is each token after others?"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from gguftool.brief import short_repr
from gguftool.records import dataclass, replace
from gguftool.run.server import Answer, Running, ask

LISTED = 500
"""Tokens the server lists for each step; one that is not among them is at most as likely as the last."""
PLAIN = " the"
"""Written after each step, whatever is likely: of a token that is no whole character the server lists nothing."""
SURELY = 1e4


class Unanswered(Exception):
    """The server did not answer as one that completes text does."""


@dataclass(frozen=True, slots=True)
class Row:
    """A token and its log-probability; NaN: the server gave no number."""

    token: int
    logprob: float


@dataclass(slots=True)
class Asker:
    """A server, and when to stop asking it.

    Attributes:
        running: the server.
        ends: on the monotonic clock.
        written: the token that every step writes; None: not asked for yet.
    """

    running: Running
    ends: float
    written: int | None = None

    __repr__ = short_repr

    @property
    def left(self) -> float:
        """Seconds."""
        return self.ends - time.monotonic()

    def at_least(self, seconds: float) -> Asker:
        """The same with so much time left."""
        return replace(self, ends=max(self.ends, time.monotonic() + seconds))

    def ask(self, path: str, request: dict[str, object]) -> Answer:
        """One request.

        Raises:
            Unanswered: the time is over.
        """
        if self.left <= 0:
            raise Unanswered
        return ask(self.running, path, request, self.left)

    def tokens(self, text: str, *, special: bool = False, begin: bool = True) -> list[int]:
        """The tokens of a text.

        Args:
            text: the text.
            special: control tokens in it are found.
            begin: with the begin token, where the file wants one.

        Raises:
            Unanswered: there are none.
        """
        request: dict[str, object] = {"content": text, "add_special": begin, "parse_special": special}
        answer = self.ask("/tokenize", request)
        ids = answer.body.get("tokens") if answer.status == 200 and isinstance(answer.body, dict) else None
        if not isinstance(ids, list) or not ids or not all(isinstance(i, int) for i in ids):
            raise Unanswered
        return ids

    def begins(self, ids: Sequence[int]) -> bool:
        """Whether tokens of a text start with the begin token."""
        return bool(ids) and ids[0] not in self.tokens(PLAIN, begin=False) and self.tokens(PLAIN)[0] == ids[0]

    def context(self) -> int | None:
        """Tokens that a slot holds; None where the server does not say."""
        answer = ask(self.running, "/props")
        settings = answer.body.get("default_generation_settings") if isinstance(answer.body, dict) else None
        held = settings.get("n_ctx") if isinstance(settings, dict) else None
        return held if isinstance(held, int) else None

    def listed(self, before: Sequence[int]) -> list[Row]:
        """The most likely tokens after others, the first of them first.

        What is listed is what the model says, before anything is done for the choice of the token that is written.

        Raises:
            Unanswered: the server gave none.
        """
        request: dict[str, object] = {
            "prompt": list(before), "n_predict": 1, "temperature": 0, "seed": 1, "n_probs": LISTED,
            "cache_prompt": True, "logit_bias": [[self._plain(), SURELY]],
        }  # fmt: skip
        answer = self.ask("/completion", request)
        if answer.status != 200:
            raise Unanswered
        body = answer.body if isinstance(answer.body, dict) else {}
        steps = body.get("completion_probabilities")
        first = steps[0] if isinstance(steps, list) and steps and isinstance(steps[0], dict) else {}
        rows = first.get("top_logprobs")
        return [_row(r) for r in rows if isinstance(r, dict)] if isinstance(rows, list) else []

    def _plain(self) -> int:
        if self.written is None:
            self.written = self.tokens(PLAIN, begin=False)[-1]
        return self.written


def _row(found: dict[str, object]) -> Row:
    token, logprob = found.get("id"), found.get("logprob")
    return Row(
        token if isinstance(token, int) else -1, float(logprob) if isinstance(logprob, int | float) else math.nan
    )
