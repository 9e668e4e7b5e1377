"""Read a grid of settings by hand: the sums that the page makes, once more, and what the planner says of each point."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from gguftool.memory.devices import HOST, Device
from gguftool.memory.plan import Machine, MemoryPlan, Planner, weights_of
from gguftool.memory.settings import Settings
from gguftool.memory.turning import Board, Spot, Turned, stops, turned
from gguftool.memory.weights import Placement
from gguftool.model import Model

Point = tuple[int, Spot, int, int, int, int]
"""Number of devices, placement, and the stops: context, slots, type of K, of V."""


def settings(slots: int, k: str, v: str) -> Settings:
    return Settings(parallel=slots, type_k=k, type_v=v)


def planners(m: Model, kind: str = "cuda", most: int = 3) -> list[Planner]:
    gib = 1 << 30
    machines = [Machine(tuple(Device(f"X{i}", kind, 16 * gib) for i in range(n))) for n in range(most + 1)]
    return [Planner(m.arch, weights_of(m), machine) for machine in machines]


def grid(
    m: Model, kind: str = "cuda", most: int = 3, budget: int = 20_000, **p: object
) -> tuple[Turned, list[Planner]]:
    every = planners(m, kind, most)
    contexts = stops(m.arch.context_length or 0, 4096, halves=False)
    return turned(every, settings, replace(Placement(), **p), contexts, budget=budget), every


def row_of(t: Turned, b: Board, spot: Spot, slot: int, k: int, v: int) -> int:
    return b.points[b.spots[spot]][(slot * len(t.types) + k) * len(t.types) + v]


def points(t: Turned) -> Iterator[Point]:
    for n, b in enumerate(t.boards):
        for spot in b.spots:
            for slot in range(len(t.slots)):
                for k in range(len(t.types)):
                    for v in range(len(t.types)):
                        if row_of(t, b, spot, slot, k, v) >= 0:
                            yield from ((n, spot, c, slot, k, v) for c in range(len(t.contexts)))


def figures(t: Turned, x: Point) -> dict[str, dict[str, int]]:
    """Bytes by device and part, as the page adds them up."""
    n, spot, c, slot, k, v = x
    b = t.boards[n]
    names = (*b.devices, HOST)
    at = [HOST] * (t.layers - sum(spot.split)) + [
        name for name, m in zip(b.devices, spot.split, strict=True) for _ in range(m)
    ]
    out = {name: dict.fromkeys(("weights", "kv", "state", "compute", "beside"), 0) for name in names}
    for name, size in b.weights.on(tuple(at), spot.experts).items():
        out[name]["weights"] = size
    for i, name in enumerate(at):
        home = name if t.kv_offload else HOST
        keys, values, state = t.caches[home != HOST][t.kinds[i]][slot]
        out[home]["kv"] += t.series[keys[k]][c] + t.series[values[v]][c]
        out[home]["state"] += state
    row = t.rows[row_of(t, b, spot, slot, k, v)]
    for i, name in enumerate(names):
        out[name]["compute"] = t.series[row[i]][c]
        if b.drafts:
            out[name]["beside"] = t.series[row[len(names) + i]][c]
    return out


def planned(t: Turned, every: list[Planner], x: Point, p: Placement | None = None) -> MemoryPlan:
    """What the planner says, asked anew."""
    n, spot, c, slot, k, v = x
    s = replace(settings(t.slots[slot], t.types[k], t.types[v]), ctx=t.contexts[c])
    layers = t.layers - spot.host if n else None
    shares = tuple(map(float, spot.split)) if n > 1 else ()
    for known in (every[n]._taken, every[n]._plans):
        known.clear()
    return every[n].plan(s, replace(p or Placement(), gpu_layers=layers, cpu_moe=spot.experts, split=shares))


def differing(t: Turned, every: list[Planner], count: int, seed: int, p: Placement | None = None) -> list[str]:
    """Of so many points, those where the sums are not the plan."""
    every_point = list(points(t))
    out = []
    for x in random.Random(seed).sample(every_point, min(count, len(every_point))):
        have, plan = figures(t, x), planned(t, every, x, p)
        for d in plan.devices:
            want = {"weights": d.weights, "kv": d.kv, "state": d.state, "compute": d.compute, "beside": d.beside}
            if have[d.name] != want:
                out.append(f"{x} {d.name}: {have[d.name]} {want}")
    return out
