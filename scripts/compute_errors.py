"""Hold the estimate of compute buffers against recorded layouts, and write the errors by class of plan.

    PYTHONPATH=. .venv/bin/python scripts/compute_errors.py

`tests/data/memory/layouts.json.gz` was made with the libllama of b11434: eight large models without their data
(`tests/data/memory/giants`), laid out with `no_alloc` on the host, and on up to four devices of a stand-in backend that
says of itself what the real ones say and allocates nothing; it was within 400 bytes of two real ggml-rpc-servers.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from gguftool.memory.devices import HOST, Device
from gguftool.memory.plan import Machine, MemoryPlan, Planner, weights_of
from gguftool.memory.settings import Settings
from gguftool.memory.spread import class_of
from gguftool.memory.weights import Placement
from tests.memory.giants import giant

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tests" / "data" / "memory" / "layouts.json.gz"
OUT = ROOT / "gguftool" / "facts" / "data" / "compute_errors.json"


def planned(ask: dict[str, Any]) -> MemoryPlan:
    """The plan of one recorded setting."""
    m = giant(ask["model"])
    devices = tuple(Device(f"MOCK{i}", ask["kind"], 64 << 30) for i in range(ask["devices"]))
    s = Settings(
        ask["ctx"], ask["k"], ask["v"], ask["slots"], ask["unified"], ask["ubatch"], 2048, ask["fa"], ask["swa_full"]
    )
    split = (1.0,) * len(devices) if len(devices) > 1 else ()
    p = Placement(ask["ngl"], ask["cpu_moe"], split=split, kv_offload=ask["kv_offload"])
    return Planner(m.arch, weights_of(m), Machine(devices)).plan(s, p)


def errors() -> dict[str, Any]:
    """The data file."""
    by: dict[str, list[float]] = defaultdict(list)
    exact = settings = 0
    for ask, real in json.loads(gzip.decompress(RECORD.read_bytes()))["runs"]:
        plan = planned(ask)
        settings += 1
        for d in plan.devices:
            there = real.get(d.name, 0)
            if there and d.compute:
                by[class_of(plan)].append(d.compute / there - 1)
                exact += d.compute == there if d.name == HOST else abs(d.compute - there) < 1 << 14
    rows = {}
    for name, found in sorted(by.items()):
        found.sort()
        n = len(found)
        cut = [round(100 * found[int((n - 1) * q)]) for q in (0.05, 0.5, 0.95)]
        ends = [round(100 * found[0]), round(100 * found[-1])]
        rows[name] = {"buffers": n, "low": cut[0], "median": cut[1], "high": cut[2], "least": ends[0], "most": ends[1]}
    return {"build": 11434, "settings": settings, "buffers": sum(map(len, by.values())), "met": exact, "classes": rows}


def main() -> None:
    """Write it."""
    data = errors()
    rows = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in data["classes"].items())
    head = ",\n".join(f" {json.dumps(k)}: {v}" for k, v in data.items() if k != "classes")
    OUT.write_text(f'{{\n{head},\n "classes": {{\n{rows}\n }}\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
