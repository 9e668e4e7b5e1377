"""The ways that fit, and the estimate of speed, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gguftool.memory.speed.estimate import PROMPT, Estimate, Speed

if TYPE_CHECKING:
    from gguftool.memory.choices import Choice
    from gguftool.run.ways import Way


def speed_json(e: Estimate | None) -> dict[str, object] | None:
    """The estimate: tokens a second, bytes, and where the rates are from."""
    if e is None:
        return None
    return {
        "start": _speed_json(e.start),
        "full": _speed_json(e.full),
        "prompt": _speed_json(e.prompt),
        "depth": e.depth,
        "prompt_tokens": PROMPT,
        "reads": [{"device": name, "bytes": n} for name, n in e.reads],
        "rates": [
            {
                "device": name,
                "bandwidth": int(r.bandwidth),
                "compute": int(r.compute) or None,
                "basis": r.basis,
                "source": r.source,
            }
            for name, r in e.rates.items()
        ],
        "unknown": list(e.unknown),
    }


def _speed_json(s: Speed | None) -> dict[str, object] | None:
    if s is None:
        return None
    return {"most": round(s.most, 2), "low": round(s.low, 2), "high": round(s.high, 2), "by": s.by, "device": s.device}


def choices_json(ways: Sequence[Way]) -> list[dict[str, object]]:
    """The ways that fit, the recommended one first."""
    return [_choice_json(w.choice, w) for w in ways]


def _choice_json(x: Choice, w: Way) -> dict[str, object]:
    s, p = x.plan.settings, x.plan.placement
    return {
        "keeps": x.keeps,
        "context": x.plan.cache.context.requested,
        "type_k": s.type_k,
        "type_v": s.type_v,
        "ubatch": x.plan.cache.context.ubatch,
        "cpu_moe": p.cpu_moe,
        "gpu_layers": p.gpu_layers,
        "ftype": x.ftype or None,
        "file": x.path or None,
        "on_host": x.on_host or None,
        "cache_quality": x.quality or None,
        "total": x.plan.total,
        "saved": max(0, x.asked - x.devices),
        "devices": [{"name": d.name, "total": d.total} for d in x.plan.devices],
        "commands": [list(words) for words in w.commands],
        "speed": speed_json(w.speed),
    }
