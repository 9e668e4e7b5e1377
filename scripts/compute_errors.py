"""Hold the estimate of compute buffers against recorded layouts, and write the errors by class of plan.

    PYTHONPATH=. .venv/bin/python scripts/compute_errors.py

`tests/data/memory/layouts.json.gz` was made by `scripts/layouts/record.py` with the libllama of b11434: large models
without their data (`tests/data/memory/giants`) and small ones of all architectures, laid out on the host, and on up to
four devices of a stand-in backend that says of itself what the real ones say and allocates nothing; it was within 400
bytes of two real ggml-rpc-servers.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from gguftool.facts.arch import Hparams
from gguftool.memory.devices import Device
from gguftool.memory.plan import Machine, MemoryPlan, Planner, weights_of
from gguftool.memory.settings import Settings
from gguftool.memory.spread import class_of
from gguftool.memory.weights import Placement, Weight
from gguftool.model import from_source
from tests.memory.giants import HELD_OUT, NAMES, SHAPES, giant
from tests.predict.recipes import built

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tests" / "data" / "memory" / "layouts.json.gz"
DOC = ROOT / "docs" / "memory.md"
BEGIN, END = "<!-- errors of compute buffers: scripts/compute_errors.py -->", "<!-- end -->"
OUT = ROOT / "gguftool" / "facts" / "data" / "compute_errors.json"


@cache
def _model(name: str) -> tuple[Hparams, list[Weight]]:
    m = from_source(built({"base": name, "ops": []})) if "/" in name else giant(name)
    return m.arch, weights_of(m)


def planned(ask: dict[str, Any]) -> MemoryPlan:
    """The plan of one recorded setting."""
    devices = tuple(Device(f"MOCK{i}", ask["kind"], 64 << 30) for i in range(ask["devices"]))
    s = Settings(
        ask["ctx"], ask["k"], ask["v"], ask["slots"], ask["unified"], ask["ubatch"], 2048, ask["fa"], ask["swa_full"]
    )
    split = (1.0,) * len(devices) if len(devices) > 1 else ()
    p = Placement(ask["ngl"], ask["cpu_moe"], split=split, kv_offload=ask["kv_offload"])
    layers = "draft" if ask.get("drafts") else ""
    return Planner(*_model(ask["model"]), Machine(devices), layers=layers).plan(s, p)


def record() -> tuple[tuple[str, ...], list[tuple[dict[str, Any], dict[str, int]]]]:
    """Beginnings of the names of models that were held out, and all settings with what was reserved."""
    document = json.loads(gzip.decompress(RECORD.read_bytes()))
    return tuple(document["held_out"]), document["runs"]


def wrong(ask: dict[str, Any], real: dict[str, int]) -> tuple[MemoryPlan, list[tuple[str, float]]]:
    """The plan of a setting, and by device how far off it is, as a share."""
    plan = planned(ask)
    pairs = [(d.name, d.compute, real.get(d.name, 0)) for d in plan.devices]
    return plan, [(name, mine / there - 1) for name, mine, there in pairs if mine and there]


CUTS: dict[str, Callable[[dict[str, Any], MemoryPlan], bool]] = {
    "models that were looked at": lambda a, p: a["model"] in (*NAMES, *SHAPES),
    "models held out": lambda a, p: a["model"] in HELD_OUT,
    "small models of all architectures": lambda a, p: "/" in a["model"] and p.laid_out,
    "FlashAttention on": lambda a, p: "/" not in a["model"] and a["fa"] == "on",
    "FlashAttention auto": lambda a, p: "/" not in a["model"] and a["fa"] == "auto",
    "FlashAttention off": lambda a, p: "/" not in a["model"] and a["fa"] == "off",
    "several slots without FlashAttention": lambda a, p: "/" not in a["model"] and a["fa"] == "off" and a["slots"] > 1,
    "slots that share a context": lambda a, p: "/" not in a["model"] and a["unified"] and a["slots"] > 1,
    "slots with contexts of their own": lambda a, p: "/" not in a["model"] and not a["unified"] and a["slots"] > 1,
    "experts": lambda a, p: "/" not in a["model"] and _model(a["model"])[0].int("expert_count") > 0,
    "experts on the host": lambda a, p: "/" not in a["model"] and a["cpu_moe"] > 0,
    "caches on the host": lambda a, p: "/" not in a["model"] and not a["kv_offload"],
    "several devices": lambda a, p: "/" not in a["model"] and a["devices"] > 1,
    "recurrent states": lambda a, p: "/" not in a["model"] and bool(p.cache.state),
    "contexts of prediction layers": lambda a, p: bool(a.get("drafts")),
    "graphs that are not known, small models": lambda a, p: "/" in a["model"] and not p.laid_out,
}
"""What the table of docs/memory.md shows beside the classes of plans."""


def errors() -> dict[str, Any]:
    """The data file."""
    by: dict[str, list[float]] = defaultdict(list)
    cuts: dict[str, list[float]] = defaultdict(list)
    exact = 0
    _, runs = record()
    for ask, real in runs:
        plan, found = wrong(ask, real)
        off = [e for _, e in found]
        exact += sum(abs(e) < 0.001 for e in off)
        by[class_of(plan)] += off
        for name, asked in CUTS.items():
            if asked(ask, plan):
                cuts[name] += off
    rows = {name: _row(found) for name, found in sorted(by.items())}
    shown = {name: _row(cuts[name]) for name in CUTS}
    buffers = sum(map(len, by.values()))
    return {"build": 11434, "settings": len(runs), "buffers": buffers, "met": exact, "classes": rows, "cuts": shown}


def _row(found: list[float]) -> dict[str, int | float]:
    found.sort()
    n = len(found)
    low, middle, high = (round(100 * found[int((n - 1) * q)], 1) + 0.0 for q in (0.05, 0.5, 0.95))
    near = round(100 * sum(abs(e) <= 0.1 for e in found) / n, 1)
    ends = {"least": round(100 * found[0]), "most": round(100 * found[-1])}
    return {"buffers": n, "near": near, "low": low, "median": middle, "high": high, **ends}


def main() -> None:
    """Write it, and the table of docs/memory.md."""
    data = errors()
    parts = []
    for kind in ("classes", "cuts"):
        rows = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in data[kind].items())
        parts.append(f' "{kind}": {{\n{rows}\n }}')
    head = ",\n".join(f" {json.dumps(k)}: {v}" for k, v in data.items() if k not in ("classes", "cuts"))
    OUT.write_text(f"{{\n{head},\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")
    text = DOC.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    DOC.write_text(f"{before}{BEGIN}\n{table(data)}{END}{rest.partition(END)[2]}", encoding="utf-8")


def table(data: dict[str, Any]) -> str:
    """The table of docs/memory.md."""
    lines = ["| | buffers | within 10 % | nine of ten | range |", "|---|---|---|---|---|"]
    for name, r in (*data["cuts"].items(), *data["classes"].items()):
        if "small" in name and name not in data["cuts"]:
            continue
        nine = f"{r['low']:+.1f} … {r['high']:+.1f} %"
        lines.append(f"| {name} | {r['buffers']} | {r['near']} % | {nine} | {r['least']:+d} … {r['most']:+d} % |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
