"""A configuration for a folder of models as JSON."""

from __future__ import annotations

from gguftool.facts.cachetypes import DEFAULT
from gguftool.run.emit.folder import Folder, Serving


def body(kind: str, found: Folder, text: str) -> dict[str, object]:
    """The fields of the JSON object: the file, what is in it and what is not."""
    return {
        "kind": kind,
        "file": text,
        "served": [_model(one) for one in found.models],
        "left_out": [{"path": one.path, "code": one.code, "why": one.why} for one in found.left],
        "at_once": found.at_once,
        "fit": found.fit,
    }


def _model(one: Serving) -> dict[str, object]:
    w, memory = one.plan.wishes, one.plan.memory
    c = memory.cache.context
    return {
        "name": one.name,
        "path": one.plan.model,
        "mmproj": w.mmproj,
        "draft": w.draft,
        "context": c.total,
        "slots": c.slots,
        "slot_context": c.per_slot,
        "cache_type": list(w.cache_type or (DEFAULT, DEFAULT)),
        "gpu_layers": w.gpu_layers,
        "total": memory.total,
        "fits": memory.fits,
        "devices": [{"name": d.name, "needed": d.total, "free": d.memory} for d in memory.devices],
        "argv": one.plan.argv,
        "notes": [*one.notes, *one.plan.notes],
    }
