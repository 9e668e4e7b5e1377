"""What a server was planned to take, beside what it takes: at the start, and after many requests of other content.

Usage: ``./dev bench-memory SERVER [REQUESTS [MODEL ...]]`` (200 requests; further models are run as they are). One
llama-server after the other is started with the very command that `plan` prints, and asked one prompt after another.
``buffers`` are those its log names, summed; ``anonymous`` is what the system cannot take back (`RssAnon`), so without
pages of the file, which `VmRSS` has, too. ``planned`` of the first is everything but mapped weights and the program's
code. A compute buffer is anonymous only as far as it was written to.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

MIB = 1 << 20
BUFFER = re.compile(r"(?P<what>\w+: +\S+ +\S*) *buffer size = +(?P<mib>[0-9.]+) MiB")
WORDS = "the of and to in is was for with on as by at from that this which were their have".split()


def cases(folder: Path, more: list[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, model, wishes."""
    from tests.beside import control_vector, lora, projector, sighted
    from tests.real_models import GEMMA3, SMOLLM2, ensure
    from tests.speculators import glm

    smol, gemma = str(ensure(SMOLLM2)), str(ensure(GEMMA3))
    adapter = lora(*((f"blk.{i}.attn_q.weight", 576, 576) for i in range(30)), rank=16)
    steers = control_vector(576, tuple(range(1, 30)))
    eyes, text = folder / "mmproj.gguf", folder / "text.gguf"
    sighted().write(text)
    projector().write(eyes)
    yield "SmolLM2 f16", smol, {"ctx": 2048}
    yield "SmolLM2 q8_0", smol, {"ctx": 2048, "cache_type": "q8_0"}
    yield "SmolLM2, 4 slots", smol, {"ctx": 4096, "parallel": 4}
    yield "SmolLM2, --cache-ram 64", smol, {"ctx": 2048, "cache_ram": 64}
    yield "SmolLM2, itself as draft", smol, {"ctx": 2048, "draft": smol, "spec_type": "draft-simple"}
    yield "SmolLM2, LoRA", smol, {"ctx": 2048, "lora": [str(adapter.write(folder / "lora.gguf"))]}
    yield "SmolLM2, control vector", smol, {"ctx": 2048, "control_vector": [str(steers.write(folder / "cv.gguf"))]}
    yield "gemma-3-270m f16", gemma, {"ctx": 4096}
    yield "gemma-3-270m q8_0, 2 slots", gemma, {"ctx": 4096, "parallel": 2, "cache_type": "q8_0"}
    heads = glm(width=256).write(folder / "glm.gguf")
    yield "tiny glm4moe that drafts with its own layer", str(heads), {"ctx": 2048, "spec_type": ("draft-mtp",)}
    yield "SmolLM2, n-grams", smol, {"ctx": 2048, "spec_type": ("ngram-mod", "ngram-map-k", "ngram-cache")}
    yield "tiny projector pair", str(text), {"ctx": 512, "mmproj": str(eyes)}
    for path in more:
        yield Path(path).stem, path, {"ctx": 2048, "parallel": 2}


COLUMNS = (
    "planned buffers", "buffers", "planned anonymous", "at start", "after", "may grow to", "planned in all",
    "VmRSS at start", "VmRSS after", "limit",
)  # fmt: skip


def resident(pid: int, kind: str = "RssAnon") -> int:
    """Bytes of a process in memory: anonymous, or `RssFile`, `VmRSS`."""
    found = re.search(rf"{kind}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) << 10 if found else 0


def logged(log: str) -> float:
    """MiB of all buffers; one that a context reserves anew takes the place of the one before."""
    found: dict[object, float] = {}
    context = 0
    for number, line in enumerate(log.splitlines()):
        context += "constructing llama_context" in line
        if (m := BUFFER.search(line)) is not None:
            key = (context, m["what"]) if "compute" in m["what"] else number
            found[key] = float(m["mib"])
    return sum(found.values())


def ask(port: int, body: dict[str, Any]) -> dict[str, Any]:
    """One request, and the answer; {} for one that is no text, which is no matter here.

    Raises:
        OSError: nobody answers.
    """
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/completion", data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=3600) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        error.read()
        return {}


def measured(server: str, model: str, wishes: dict[str, Any], requests: int, folder: Path) -> dict[str, float]:
    """Planned and real, in MiB."""
    from gguftool.api.plan import plan
    from gguftool.memory.limit import host_limit
    from gguftool.run.reach import Way
    from gguftool.run.server import free_port, start, stop, wait_until_ready

    port = free_port("127.0.0.1")
    p = plan(model, server=server, port=port, threads=1, vram="none", **wishes)
    m = p.memory
    words = [server, *p.command[1:]]
    running = start(words, str(folder / "server.log"), Way("127.0.0.1", port))
    rng = random.Random(1)
    try:
        if not wait_until_ready(running, 300):
            raise SystemExit(Path(running.log_path).read_text()[-2000:])
        at_start = [resident(running.process.pid, kind) for kind in ("RssAnon", "VmRSS")]
        for i in range(requests):
            text = f"Story {i * 7919}: " + " ".join(rng.choice(WORDS) for _ in range(8))
            ask(port, {"prompt": text, "n_predict": 1, "temperature": 0})
        after = [resident(running.process.pid, kind) for kind in ("RssAnon", "VmRSS")]
    finally:
        stop(running)
    log = Path(running.log_path).read_text(errors="replace")
    mapped = m.placed.mapped + sum(d.weights for x in m.drafts for d in x.devices)
    start_plan = m.total - mapped + m.process.own
    figures = (m.total, 0, start_plan, at_start[0], after[0], start_plan + m.grows(), m.total + m.program, at_start[1],
               after[1], host_limit(m))  # fmt: skip
    row = dict(zip(COLUMNS, (x / MIB for x in figures), strict=True))
    return {**row, "buffers": logged(log)}


def main(argv: list[str]) -> int:
    """Print the table."""
    if not argv:
        print(__doc__, file=sys.stderr)
        return 2
    server, requests = argv[0], int(argv[1]) if len(argv) > 1 else 200
    print("| MiB | " + " | ".join(COLUMNS) + " |\n" + "|---" * (1 + len(COLUMNS)) + "|")
    with tempfile.TemporaryDirectory() as name:
        for title, model, wishes in cases(Path(name), argv[2:]):
            began = time.monotonic()
            row = measured(server, model, wishes, requests, Path(name))
            print(f"| {title} | " + " | ".join(f"{row[c]:,.1f}" for c in COLUMNS) + " |", flush=True)
            print(f"{title}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
