"""A launch, planned and proven, as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gguftool.report.choices_json import choices_json, speed_json
from gguftool.report.growth import growth_json
from gguftool.report.known import known_json
from gguftool.report.launch import shell_line
from gguftool.report.plan_json import where_json
from gguftool.report.proof import judgement_json
from gguftool.run.args import masked
from gguftool.run.embedding import way
from gguftool.run.proof import to_json

if TYPE_CHECKING:
    from gguftool.run.endpoints import Drafted, Smoke
    from gguftool.run.launch import LaunchPlan
    from gguftool.run.serve import Outcome
    from gguftool.run.silent import SilentSetting


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
