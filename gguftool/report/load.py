"""What llama.cpp does with a file, and what a build must know for it, as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gguftool.facts import llama_cpp
from gguftool.predict.needs import Need, sentence
from gguftool.report.text import Style, safe

if TYPE_CHECKING:
    from gguftool.predict import Prediction

_REFUSED = {"refused": "refuses it", "aborts": "aborts"}
_AFTER = {"refused": "refuses", "aborts": "aborts at", "hangs": "hangs at"}
_STAGE = {"context": "the context", "decode": "the first tokens"}


def load_line(load: Prediction, style: Style, names: Sequence[Need] = (), build: int | None = None) -> str:
    """What the build that was asked about (None: the newest known) does with a file, and which builds can load it."""
    said = safe(sentence(names))
    return _verdict(load, llama_cpp(build), style) + style.dim(judged_by(load, build)) + (f"; {said}" if said else "")


def judged_by(load: Prediction, build: int | None) -> str:
    """Whose loading code spoke for a build; "" for its own."""
    if load.build is None:
        return " (by the names in it alone)"
    return f" (by the code of b{load.build})" if build is not None and load.build != build else ""


def load_said(load: Prediction, who: str) -> tuple[str, str, str]:
    """What a build does with a file: method of `Style` for it, in a few words, and what there is to add; raw text.

    Args:
        load: the prediction.
        who: ``llama.cpp b11434``.
    """
    after = load.after_load
    if load.verdict in _REFUSED:
        return "red", f"{who} {_REFUSED[load.verdict]}", "".join((*load.messages, *load.not_evaluated)[:1])
    if load.verdict == "unknown":
        return "dim", f"the header does not tell whether {who} loads it", ""
    if after is not None and after.outcome in _AFTER:
        return (
            "red",
            f"{who} loads it, then {_AFTER[after.outcome]} {_STAGE.get(after.stage, after.stage)}",
            after.message,
        )
    if load.verdict == "warns":
        what = "skips it and runs without it" if load.skipped else "loads it with warnings"
        return "yellow", f"{who} {what}", "".join(load.warnings[:1])
    return "green", f"{who} loads it", "open: " + "; ".join(load.not_evaluated) if load.not_evaluated else ""


def _verdict(load: Prediction, who: str, style: Style) -> str:
    paint, said, more = load_said(load, who)
    painted = f"{style.dim('load    ')} {getattr(style, paint)(said)}"
    if not more:
        return painted
    return painted + (style.dim(f"; {safe(more)}") if paint == "green" else f": {safe(more)}")


def need_json(n: Need) -> dict[str, object]:
    """One thing that a build must know."""
    return {
        "what": n.what, "kind": n.kind, "name": n.name, "since": n.since, "not_in": n.not_in, "gone": n.gone,
        "last": n.last, "evidence": n.evidence, "refuses": n.refuses, "where": n.where,
    }  # fmt: skip


def load_json(load: Prediction) -> dict[str, object]:
    """The predicted load as JSON; ``messages`` are the lines behind the verdict, of a mere warning the warnings."""
    after = load.after_load
    lines = load.warnings if load.verdict == "warns" and not load.messages else load.messages
    return {
        "build": load.build,
        "verdict": load.verdict,
        "stage": load.stage,
        "messages": list(lines),
        "warnings": list(load.warnings),
        "where": load.where,
        "after_load": None
        if after is None
        else {"stage": after.stage, "outcome": after.outcome, "message": after.message, "where": after.where},
        "not_evaluated": list(load.not_evaluated),
    }
