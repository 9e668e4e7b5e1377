"""The numbers of a picture that can be turned, for the page that draws it (`gguftool.api.turning`).

Everything is whole bytes. What repeats stands once: series of bytes by context, rows of series by device, runs of
classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from gguftool.api.turning import Start, Turning
from gguftool.memory.devices import HOST
from gguftool.memory.shares import WeightShares
from gguftool.memory.turning import Board, Spot, Turned

Body = dict[str, Any]


def turning_json(x: Turning) -> Body:
    """The field ``memory`` of a report."""
    t = x.grid
    weights: list[Body] = []
    boards = [_board(b, t, weights) for b in t.boards]
    return {
        "build": x.build,
        "contexts": list(t.contexts),
        "slots": list(t.slots),
        "types": list(t.types),
        "refused": list(t.refused) if any(t.refused) else None,
        "layers": t.layers,
        "experts": x.experts,
        "kinds": list(t.kinds),
        "kv_offload": t.kv_offload,
        "caches": [
            [[{"k": list(k), "v": list(v), "state": state} for k, v, state in by_slots] for by_slots in home]
            for home in t.caches
        ],
        "weights": weights,
        "boards": boards,
        "series": [list(s) for s in t.series],
        "rows": [list(r) for r in t.rows],
        "output": list(t.output),
        "program": list(t.program),
        "per_slot": list(t.per_slot),
        "vram": list(x.vram),
        "ram": list(x.ram),
        "reserve": x.reserve,
        "start": _start(x.start),
        "plan": x.plan,
        "launch": x.launch or None,
        "options": x.options,
        "planned": t.plans,
    }


def _start(s: Start) -> Body:
    return {
        "context": s.context,
        "slots": s.slots,
        "type_k": s.type_k,
        "type_v": s.type_v,
        "host": s.spot.host,
        "experts": s.spot.experts,
        "split": list(s.spot.split),
        "vram": list(s.vram),
        "ram": s.ram,
    }


def _board(b: Board, t: Turned, weights: list[Body]) -> Body:
    mine = _weights(b.weights)
    if mine not in weights:
        weights.append(mine)
    w = b.weights
    return {
        "devices": list(b.devices),
        "weights": weights.index(mine),
        "fixed": [w.fixed.get(name, 0) for name in (*b.devices, HOST)],
        "tied": [w.tied_host, w.tied_device],
        "projector": list(b.projector),
        "drafts": b.drafts,
        "spots": list(_spots(b, t)),
        "points": [list(p) for p in b.points],
    }


def _weights(w: WeightShares) -> Body:
    experts = any(w.host_experts)
    return {
        "host": list(w.host),
        "device": list(w.device),
        "host_experts": list(w.host_experts) if experts else None,
        "device_experts": list(w.device_experts) if experts else None,
        "frequencies": w.frequencies,
    }


def _spots(b: Board, t: Turned) -> Iterator[Body]:
    """For each number of layers, and of experts' layers, on the host: classes of its splits, in runs."""
    for host, experts in sorted({(x.host, x.experts) for x in b.spots}):
        classes = [b.spots.get(Spot(host, experts, split), -1) for split in splits(t.layers - host, len(b.devices))]
        yield {"host": host, "experts": experts, "runs": [[c, sum(1 for _ in run)] for c, run in groupby(classes)]}


def splits(layers: int, devices: int) -> Iterable[tuple[int, ...]]:
    """All ways to give layers to devices, in order; of several each has one at least."""
    if devices < 2:
        return [(layers,) * devices]
    return [(a, *rest) for a in range(1, layers) for rest in splits(layers - a, devices - 1) if rest[0] > 0]
