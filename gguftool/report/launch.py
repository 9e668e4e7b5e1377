"""A launch, planned and proven, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gguftool.facts.cachetypes import shown
from gguftool.regex import regex
from gguftool.report.choices import choices_json, short_lines, speed_json, speed_lines
from gguftool.report.growth import grows_line, growth_json
from gguftool.report.known import known_json
from gguftool.report.plan import draft_text, where_json
from gguftool.report.proof import check_table, diagnosis_lines, judgement_json, notice_lines
from gguftool.report.text import Style, count, safe, shorten, size
from gguftool.run.args import masked
from gguftool.run.embedding import way
from gguftool.run.proof import to_json
from gguftool.run.target import build_name
from gguftool.shell import shell as shell

if TYPE_CHECKING:
    from gguftool.run.endpoints import Drafted, Smoke
    from gguftool.run.launch import LaunchPlan
    from gguftool.run.serve import Outcome, Sample
    from gguftool.run.silent import SilentSetting
    from gguftool.run.wishes import Obstacle

_HIDDEN = regex(r"gguftool-hides-([A-Z0-9_]+)")


def shell_line(argv: Sequence[str]) -> str:
    """A command for a shell, which has to know its secrets from elsewhere: nobody reads them here."""
    line = shell(masked(argv, _placeholder))
    return _HIDDEN.sub(lambda found: '"${' + found[1] + ':?}"', line)


def _placeholder(variable: str) -> str:
    return f"gguftool-hides-{variable or 'SECRET'}"


def plan_lines(plan: LaunchPlan, style: Style) -> Iterator[str]:
    """What the command stands for, a few lines for stderr."""
    m, s, c = plan.memory, plan.memory.settings, plan.memory.cache.context
    slots = f"{c.slots} slots" if c.slots > 1 else "1 slot"
    share = " sharing it" if c.unified and c.slots > 1 else f" of {count(c.per_slot)}" if c.slots > 1 else ""
    yield f"context {count(c.total)} tokens, {slots}{share}; cache {shown(s.type_k, s.type_v)}"
    parts = [("weights", m.weights), ("KV cache", m.kv), ("state", m.state), ("compute, about", m.compute)]
    for d in m.devices:
        if d.total and len(m.devices) > 1:
            parts.append((f"on {d.name}", d.total))
    yield "memory: " + ", ".join(f"{name} {size(n)}" for name, n in parts if n) + f"; in all {size(m.total)}"
    for draft in m.drafts:
        yield draft_text(draft)
    yield from grows_line(m)
    if plan.speed is not None:
        yield from speed_lines(plan.speed, style)
    yield from short_lines(plan.ways, style)
    if plan.engine.tool:
        build = build_name(plan.engine.build)
        yield f"engine: {safe(plan.engine.tool.path)} ({build}, {plan.engine.tool.source})"
    elif not plan.engine.build.assumed:
        yield f"engine: the library in {plan.engine.build.commit}"
    for note in plan.notes:
        yield f"{style.dim('note:')} {safe(note)}"


def silent_lines(settings: Iterable[SilentSetting], style: Style) -> Iterator[str]:
    """Settings that nobody typed."""
    for s in settings:
        effect = "no effect: the command line says otherwise" if s.overridden else "llama.cpp applies it silently"
        yield f"{style.yellow('setting:')} {safe(s.source)}: {safe(s.name)} = {safe(s.value)} ({effect})"


def obstacle_lines(obstacles: Iterable[Obstacle], style: Style) -> Iterator[str]:
    """Reasons not to start."""
    for o in obstacles:
        label = style.red("error:") if o.severity == "error" else style.yellow("warning:")
        yield f"{label} {safe(o.message)}" + (f"\n  {style.cyan('try:')} {safe(o.remedy)}" if o.remedy else "")


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


def plan_json(
    plan: LaunchPlan, silent: Iterable[SilentSetting], outcome: Outcome | None = None, url: str | None = None
) -> dict[str, object]:
    """The fields of a launch; of a started one with what was proven."""
    m, c, e = plan.memory, plan.memory.cache.context, plan.engine
    body: dict[str, object] = {
        "command": masked(plan.argv),
        "shell": shell_line(plan.argv),
        "program": {
            "engine": e.name,
            "path": e.tool.path if e.tool else None,
            "source": e.tool.source if e.tool else None,
            "build": e.build.build,
            "commit": e.build.commit or None,
            "assumed": e.build.assumed,
        },
        "context": {
            "requested": c.requested,
            "total": c.total,
            "per_slot": c.per_slot,
            "usable": c.usable,
            "slots": c.slots,
            "unified": c.unified,
        },
        "kv": {
            "bytes": m.cache.kv_bytes,
            "type_k": m.settings.type_k,
            "type_v": m.settings.type_v,
            "caches": [
                {"name": k.name, "cells": k.cells, "streams": k.streams, "layers": len(k.layers), "bytes": k.bytes}
                for k in m.cache.caches
            ],
        },
        "state": {"bytes": m.cache.state_bytes},
        "weights": {"bytes": m.weights},
        "compute": {"bytes": m.compute, "basis": m.compute_basis},
        **where_json(m),
        "total": {"bytes": m.total},
        **growth_json(m),
        "fits": m.fits,
        "choices": choices_json(plan.ways),
        "speed": speed_json(plan.speed),
        "obstacles": [
            {"where": o.where, "severity": o.severity, "message": o.message, "remedy": o.remedy or None}
            for o in plan.obstacles
        ],
        "notes": list(plan.notes),
        "silent": [{"source": s.source, "name": s.name, "value": s.value, "overridden": s.overridden} for s in silent],
        "gives": _gives_json(plan),
        "expected": to_json(plan.expected),
        "observed": None,
        "checks": [],
        "error": None,
    }
    if outcome is not None:
        body |= judgement_json(outcome.judged, plan.expected, outcome.checks)
        body |= {
            "url": url,
            "seconds": round(outcome.seconds, 3),
            "ended": outcome.ended or None,
            "timed_out": outcome.late,
            "smoke": _smoke_json(outcome.smoke),
            "drafted": _drafted_json(outcome.drafted),
        }
    return body


def _gives_json(plan: LaunchPlan) -> dict[str, object] | None:
    """What a model that does not write gives instead."""
    e = plan.gives
    if e is None:
        return None
    return {"kind": e.kind, "family": e.family or None, "pooling": way(e, plan.wishes), "numbers": e.width}


def _drafted_json(d: Drafted | None) -> dict[str, object] | None:
    if d is None:
        return None
    return {"written": d.written, "drafted": d.drafted, "accepted": d.accepted, "why": d.why}


def _smoke_json(s: Smoke | None) -> dict[str, object] | None:
    if s is None:
        return None
    return {
        "text": s.text, "tokens": s.tokens, "tokens_per_second": s.tokens_per_second, "ok": s.ok, "why": s.why,
        "known": None if s.known is None else known_json(s.known),
    }  # fmt: skip
