"""Record what llama.cpp reserves for its graphs, on the host and on up to four devices that do not exist.

    PYTHONPATH=. .venv/bin/python scripts/layouts/record.py SOURCE LIBRARIES

SOURCE is a source tree of llama.cpp, LIBRARIES the folder with libllama.so and libggml*.so built from it (b11434). It
takes a few minutes; models are their headers and a hole. Writes `tests/data/memory/layouts.json.gz`; then run
`scripts/compute_errors.py`.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gguftool.facts.backends import backend
from gguftool.facts.layers import nextn_layers
from gguftool.memory.devices import KINDS
from gguftool.model import Model
from tests.memory.giants import HELD_OUT, NAMES, SHAPES, whole
from tests.predict.recipes import bases, built, put

HERE = Path(__file__).resolve().parent
RECORD = HERE.parent.parent / "tests" / "data" / "memory" / "layouts.json.gz"
BACKENDS = "cuda rpc metal vulkan cann opencl".split()
TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 8}
FLASH = {"auto": -1, "off": 0, "on": 1}
SMALL = ("tiny/", "archs/")
"""Folders of `tests/data/load/bases.tar.xz` with a model of every architecture, in sizes that nobody uses."""


def context(r: random.Random, most: int) -> dict[str, Any]:
    """Settings of a context, as people choose them and beyond."""
    slots, unified = r.choice([(1, False), (1, False), (2, False), (4, True), (4, False), (8, True), (16, False)])
    flash = r.choice(["on", "auto", "off"])
    pairs = [("f16", "f16")] * 2 + ([("f16", "f16"), ("q8_0", "f16")] if flash == "off" else _QUANTISED)
    k, v = r.choice(pairs)
    sizes = [n for n in (2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144) if n <= most]
    return {
        "ctx": r.choice(sizes), "k": k, "v": v, "slots": slots, "unified": unified,
        "ubatch": r.choice([128, 256, 512, 512, 1024, 2048]), "fa": flash, "swa_full": r.random() < 0.1,
    }  # fmt: skip


_QUANTISED = [("q8_0", "q8_0"), ("q4_0", "q4_0"), ("f32", "f32")]


def asks(name: str, m: Model, count: int, most: int = 1 << 18) -> Iterator[dict[str, Any]]:
    """Settings for one model: a third on the host, a fifth on one device, the others on several or in part."""
    r = random.Random(name)
    layers, experts = m.arch.block_count, max(m.arch.per_layer("expert_count"), default=0)
    for i in range(count):
        ask: dict[str, Any] = {"model": name, "devices": 0, "kind": "cpu", **context(r, most)}
        ask |= {"ngl": None, "cpu_moe": 0, "kv_offload": True}
        if i % 6 > 1:
            ask["devices"] = 1 if i % 6 == 2 else r.choice([1, 1, 2, 2, 3, 4])
            ask["kind"] = r.choice(BACKENDS)
            how = "" if i % 6 in (2, 3) else r.choice(["layers", "layers", "cache", "experts" if experts else "layers"])
            if how == "layers":
                ask["ngl"] = max(1, int(layers * r.choice([0.25, 0.5, 0.8])))
            elif how == "experts":
                ask["cpu_moe"] = min(layers, r.choice([2, 8, 24, 999]))
            elif how == "cache":
                ask["kv_offload"] = False
        yield ask
    for _ in range(count // 4 if nextn_layers(m.arch) else 0):
        yield {
            "model": name, "devices": r.choice([0, 1]), "kind": "cuda", **context(r, most), "ngl": None, "cpu_moe": 0,
            "kv_offload": True, "drafts": True,
        }  # fmt: skip


def request(ask: dict[str, Any], path: Path, layers: int) -> str:
    """The line that the program reads."""
    b, n = backend(ask["kind"]), ask["devices"]
    words = {
        "model": path, "ndev": n, "n_ctx": ask["ctx"], "n_seq_max": ask["slots"], "kv_unified": int(ask["unified"]),
        "n_ubatch": ask["ubatch"], "fa": FLASH[ask["fa"]], "type_k": TYPES[ask["k"]], "type_v": TYPES[ask["v"]],
        "swa_full": int(ask["swa_full"]), "kv_offload": int(ask["kv_offload"]), "cpu_moe": ask["cpu_moe"],
        "ngl": layers + 1 if ask["ngl"] is None else ask["ngl"],
    }  # fmt: skip
    if n:
        words |= {"async": int(b.pipelines), "events": int(b.pipelines), "host": int(b.pinned_host)}
        words |= {"lend": int(b.offloads), "align": KINDS[ask["kind"]].alignment}
    if n > 1:
        words["split"] = ",".join(["1"] * n)
    if ask.get("drafts"):
        words |= {"mtp": 1, "ctx_type": 1}
    return " ".join(f"{k}={v}" for k, v in words.items())


def models(folder: Path) -> Iterator[tuple[str, Path, int]]:
    """Name, file and number of settings of every model, one after the other."""
    for name in (*NAMES, *SHAPES, *HELD_OUT):
        yield name, whole(name, folder), 54
    for name in bases():
        if name.startswith(SMALL):
            yield name, put(built({"base": name, "ops": []}), folder / "small.gguf"), 6


def program(source: Path, libraries: Path, folder: Path) -> Path:
    """Compile it."""
    out = folder / "layouts"
    include = [f"-I{source / x}" for x in ("include", "src", "ggml/include", "ggml/src")]
    libs = [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lllama", "-lggml", "-lggml-base", "-lggml-cpu", "-ldl"]
    subprocess.run(
        ["g++", "-std=c++17", "-O1", "-rdynamic", *include, HERE / "layouts.cpp", "-o", out, *libs], check=True
    )
    return out


def main() -> None:
    """Ask for all of them."""
    from gguftool.model import open_model

    runs = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        binary = program(Path(sys.argv[1]), Path(sys.argv[2]), folder)
        for name, path, count in models(folder):
            with open_model(path) as m:
                every = list(asks(name, m, count, 1 << 18 if "/" not in name else 8192))
                every.sort(key=lambda a: json.dumps([a["devices"], a["kind"], a["ngl"], a["cpu_moe"], "drafts" in a]))
                text = "\n".join(request(a, path, m.arch.block_count) for a in every) + "\n"
            env = {**os.environ, "GGML_NO_BACKTRACE": "1"}
            done = subprocess.run([binary], input=text, capture_output=True, text=True, env=env, check=False)
            path.unlink()
            # A model whose graph llama.cpp cannot build ends the program; what it answered before stands.
            for ask, line in zip(every, done.stdout.splitlines(), strict=False):
                found = json.loads(line).get("buffers")
                if found:
                    real: dict[str, int] = {}
                    for buffer, (_, _, compute) in found.items():
                        device = buffer if buffer.startswith("MOCK") else "CPU"
                        real[device] = real.get(device, 0) + compute
                    runs.append([ask, real])
            print(name, len(every), len(runs), done.returncode, flush=True)
    document = {"build": 11434, "held_out": [*HELD_OUT, *SMALL], "runs": runs}
    RECORD.write_bytes(gzip.compress(json.dumps(document, separators=(",", ":")).encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
