"""A memory plan as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gguftool.report.choices_json import choices_json, speed_json
from gguftool.report.growth import growth_json

if TYPE_CHECKING:
    from gguftool.memory.advice import Advice
    from gguftool.memory.fit import Cell
    from gguftool.memory.plan import MemoryPlan
    from gguftool.memory.speed.estimate import Estimate
    from gguftool.memory.use import DeviceUse, DraftContext
    from gguftool.run.beside import Unfit
    from gguftool.run.proof import Expected
    from gguftool.run.ways import Way


def plan_json(
    a: Advice,
    command: Sequence[str],
    expected: Expected,
    unfit: Sequence[Unfit] = (),
    speed: Estimate | None = None,
    ways: Sequence[Way] = (),
    not_ready: Sequence[str] = (),
    not_loaded: str = "",
) -> dict[str, object]:
    """The fields of ``--format json``: every number in bytes or tokens."""
    from gguftool.run.proof import to_json

    plan = a.plan
    c, s, w = plan.cache.context, plan.settings, a.planner.weights
    return {
        "context": {
            "requested": c.requested,
            "per_slot": c.per_slot,
            "usable": c.usable,
            "total": c.total,
            "trained": c.trained or None,
            "slots": c.slots,
            "unified": c.unified,
            "batch": c.batch,
            "ubatch": c.ubatch,
        },
        "kv": {
            "bytes": plan.kv,
            "basis": plan.cache.basis,
            "type_k": s.type_k,
            "type_v": s.type_v,
            "bytes_per_token": _whole(a.per_token),
            "caches": [
                {
                    "name": x.name,
                    "cells": x.cells,
                    "streams": x.streams,
                    "layers": len(x.layers),
                    "bytes": x.bytes,
                    "k_bytes": x.k_bytes,
                    "v_bytes": x.v_bytes,
                }
                for x in plan.cache.caches
            ],
        },
        "state": {"bytes": plan.state, "basis": plan.cache.basis, "layers": len(plan.cache.state)},
        "weights": {
            "bytes": plan.weights,
            "basis": "exact",
            "tensors": plan.tensor_bytes,
            "copies": plan.placed.copies,
            "mapped": plan.placed.mapped,
            "skipped": plan.skipped_bytes,
            "buffers": dict(plan.placed.buffers),
            "output_tied": w.tied,
        },
        "compute": {"bytes": plan.compute, "basis": plan.compute_basis, "measured_by": a.measured or None},
        "output": {"bytes": plan.output, "basis": "exact"},
        "total": {"bytes": plan.total},
        **growth_json(plan),
        **where_json(plan),
        "fits": plan.fits,
        "refused": list(plan.refused),
        "unfit": [_unfit_json(x) for x in unfit],
        "steps": [{"what": x.what, "result": x.result, "fits": x.fits, "kept": x.kept} for x in a.fit.steps],
        "table": [_cell_json(x) for row in a.rows for x in row],
        "largest_context": [{"type_k": pair[0], "type_v": pair[1], "tokens": n} for pair, n in a.largest],
        "smaller_weights": [
            {"ftype": x.ftype, "weights": x.weights, "total": x.total, "fits": x.fits} for x in a.smaller
        ],
        "choices": choices_json(ways),
        "speed": speed_json(speed),
        "assumptions": [{"name": x.name, "value": x.value, "basis": x.basis, "why": x.why} for x in a.assumptions],
        "warnings": list(a.warnings),
        "command": list(command),
        "not_ready": list(not_ready),
        "not_loaded": not_loaded or None,
        "expected": to_json(expected),
    }


def _unfit_json(x: Unfit) -> dict[str, object]:
    m = x.misfit
    return {
        "option": x.option,
        "path": x.path,
        "rule": m.rule,
        "outcome": m.outcome,
        "message": m.message,
        "llama_cpp": list(m.said),
        "hint": m.hint or None,
    }


def where_json(plan: MemoryPlan) -> dict[str, object]:
    """What lies where: the devices with their use, the placement of the layers, the contexts that draft."""
    p, layers = plan.placement, len(plan.placed.layer_device)
    return {
        "devices": [_device_json(d, plan.compute_basis) for d in plan.devices],
        "placement": {
            "gpu_layers": None if len(plan.devices) == 1 else layers if p.gpu_layers is None else p.gpu_layers,
            "layers": layers - 1,
            "cpu_moe": p.cpu_moe,
            "tensor_split": list(p.split),
            "kv_offload": p.kv_offload,
            "layer_devices": list(plan.placed.layer_device),
        },
        "drafts": [_draft_json(x) for x in plan.drafts],
    }


def _draft_json(x: DraftContext) -> dict[str, object]:
    return {
        "what": x.what,
        "context": x.cache.context.total,
        "weights": x.weights,
        "kv": x.kv,
        "state": x.state,
        "compute": x.compute + x.output,
        "total": x.total,
        "caches": [
            {
                "name": c.name,
                "cells": c.cells,
                "layers": len(c.layers),
                "bytes": c.bytes,
                "type_k": c.type_k,
                "type_v": c.type_v,
            }
            for c in x.cache.caches
        ],
    }


def _whole(n: float) -> int | float:
    return int(n) if n == int(n) else n


def _device_json(d: DeviceUse, basis: str) -> dict[str, object]:
    return {
        "name": d.name,
        "kind": d.kind,
        "about": d.about,
        "memory": d.memory,
        "reserve": d.reserve,
        "weights": d.weights,
        "kv": d.kv,
        "state": d.state,
        "compute": d.compute,
        "compute_basis": basis,
        "output": d.output,
        "mmproj": d.projector,
        "beside": d.beside,
        "total": d.total,
        "missing": d.missing,
        "fits": d.fits,
    }


def _cell_json(x: Cell) -> dict[str, object]:
    return {
        "context": x.context,
        "type_k": x.types[0],
        "type_v": x.types[1],
        "kv": x.kv,
        "total": x.total,
        "fits": x.fits,
        "refused": x.refused or None,
    }
