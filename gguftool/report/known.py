"""What a model knows of what every language model knows, as JSON."""

from __future__ import annotations

import math

from gguftool.run.known import Known


def known_json(k: Known) -> dict[str, object]:
    """What a model knows of what is known."""
    return {
        "verdict": k.verdict, "why": k.why or None, "text_logprob": k.text_logprob, "tokens": k.tokens,
        "words": [
            {"kind": w.prompt.kind, "prompt": w.prompt.text, "next": w.prompt.next, "logprob": _number(w.logprob),
             "rank": w.rank, "known": w.known}
            for w in k.words
        ],
        "chat": None if k.chat is None else {"ok": k.chat.ok, "why": k.chat.why or None, "end": k.chat.ends},
        "looks": [{"what": x.what, "ok": x.ok, "why": x.why or None, "value": x.value} for x in k.looks],
    }  # fmt: skip


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
