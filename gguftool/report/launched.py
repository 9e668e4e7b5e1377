"""A launch that was started, as text: what was proven, and what the server does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gguftool.report.proof import check_table, diagnosis_lines, notice_lines
from gguftool.report.text import Style, safe, shorten, size

if TYPE_CHECKING:
    from gguftool.run.endpoints import Drafted, Smoke
    from gguftool.run.serve import Outcome, Sample


def outcome_lines(outcome: Outcome, url: str, style: Style) -> Iterator[str]:
    """What became of the start, with the table of proof."""
    if outcome.ended:
        yield f"{style.red('failed:')} the server ended with {outcome.ended} after {outcome.seconds:.1f} s"
    elif outcome.late:
        yield f"{style.red('failed:')} not ready after {outcome.seconds:.0f} s (see --timeout)"
    else:
        yield f"{style.green('serving')} at {safe(url)} after {outcome.seconds:.1f} s"
    if outcome.judged.error is not None:
        yield from diagnosis_lines(outcome.judged.error, style)
    yield from notice_lines(outcome.judged, style)
    if outcome.checks:
        yield ""
        yield check_table(outcome.checks, style)
    if outcome.smoke is not None:
        yield ""
        yield smoke_line(outcome.smoke, style)
    if outcome.drafted is not None:
        yield drafted_line(outcome.drafted, style)
    if not outcome.ended and not outcome.late:
        verdict = _proven(outcome, style) if outcome.ok else _differs(outcome, style)
        yield f"\n{verdict}"


def _proven(outcome: Outcome, style: Style) -> str:
    """What was proven, and what of the text was not looked at."""
    said, smoke = style.green("proven: it does what was planned"), outcome.smoke
    if smoke is None:
        return f"{said}, by sizes and settings; text, tokenizer and template were not looked at (--smoke)"
    if smoke.ok is None:
        return f"{said}; {style.yellow('what it writes could not be judged')}: {safe(smoke.why)}"
    chat = smoke.known.chat if smoke.known else None
    ends = "" if chat is None or not chat.ok else ", and ends a turn of its chat template"
    unseen = "; ".join(smoke.known.unseen) if smoke.known else ""
    left = f"; {style.yellow('not looked at')}: {safe(unseen)}" if unseen else ""
    return style.green(f"{said}, knows what every language model knows{ends}") + left


def _differs(outcome: Outcome, style: Style) -> str:
    wrong = [c.what for c in outcome.checks if c.ok is False]
    unseen = [c.what for c in outcome.checks if c.ok is None and c.vital]
    parts = ([f"differs: {', '.join(wrong)}"] if wrong else []) + ([f"not seen: {', '.join(unseen)}"] if unseen else [])
    return style.red("not proven: " + "; ".join(parts))


def drafted_line(d: Drafted, style: Style) -> str:
    """What speculative decoding did for an answer, in one line."""
    if d.why:
        return f"drafts: {style.red('no answer')}: {safe(d.why)}"
    if not d.drafted:
        return f"drafts: {style.red('none')} for an answer of {d.written} tokens"
    share = f"{d.accepted} of {d.drafted} drafted tokens accepted ({100 * d.accepted / d.drafted:.0f} %)"
    note = "" if d.accepted else style.yellow("; it only costs time: another draft, or none")
    return f"drafts: {share}, in an answer of {d.written} tokens{note}"


def smoke_line(smoke: Smoke, style: Style) -> str:
    """What it wrote, and what it knows of what is known."""
    from gguftool.run.endpoints import PROMPT

    speed = f", {smoke.tokens_per_second:.1f} tokens/s" if smoke.tokens_per_second else ""
    wrote = f"{PROMPT}{style.bold(shorten(smoke.text, 160))} ({smoke.tokens} tokens{speed})" if smoke.tokens else ""
    judged = {None: style.yellow("could not be judged: "), False: style.red("broken: "), True: ""}[smoke.ok]
    summary = smoke.known.summary if smoke.known is not None and smoke.ok else ""
    return "smoke: " + "\n       ".join(part for part in (wrote, judged + safe(smoke.why or summary)) if part)


def sample_line(now: Sample, last: Sample | None, seconds: float) -> str:
    """One status line."""
    parts = []
    if now.slots is not None:
        parts.append(f"{now.busy}/{now.slots} slots busy")
    if last is not None and now.written is not None and last.written is not None:
        parts.append(f"{max(0, now.written - last.written) / seconds:.1f} tokens/s")
    if now.filled is not None:
        parts.append(f"cache {100 * now.filled:.0f} % full")
    if now.rss is not None:
        parts.append(f"{size(now.rss)} resident")
    if now.gpu is not None:
        parts.append(f"{size(now.gpu)} on the GPU")
    return ", ".join(parts) or "no answer"
