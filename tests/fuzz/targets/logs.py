"""``check-log``, ``doctor --error`` and ``diagnose --log``: text that a server wrote, or somebody else."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.fuzz import texts
from tests.fuzz.target import HERE, Target, cli

EXPECTED = {
    "format": "gguftool.plan/1", "context": 4096, "command": ["llama-server", "-m", "m.gguf", "-c", "4096"],
    "kv": {"bytes": 1 << 20, "caches": [{"cells": 256, "layers": 4, "streams": 1, "bytes": 1 << 20}]},
}  # fmt: skip


def corpus() -> Sequence[bytes]:
    """Recorded logs, and an expectation."""
    paths = sorted((HERE.parent / "data" / "logs").glob("server.*.log.gz"))
    logs = [gzip.decompress(p.read_bytes())[:30_000] for p in paths]
    return [*logs, json.dumps(EXPECTED).encode()]


def run(data: bytes, folder: Path, rng: Random) -> None:
    """As a log, as a message, as an expectation."""
    path = folder / "server.log"
    path.write_bytes(data)
    form = ("--format", "json") if rng.random() < 0.5 else ()
    if data[:1] in b"{[" or rng.random() < 0.1:
        other = folder / "other.log"
        other.write_bytes(rng.choice(corpus()))
        cli("check-log", other, "--expect", path, *form)
    elif rng.random() < 0.7:
        cli("check-log", path, *form)
    else:
        cli("doctor", "--error", "-", *form, stdin=data)


TARGET = Target(corpus, texts.mutate, run)
