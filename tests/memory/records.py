"""What real llama.cpp libraries allocated, as test data.

`tests/data/memory/kv_records.json.gz`: 2243 contexts of 180 models under up to 12 settings each, asked of four builds
(b11434 from source, b11549 of xllamacpp, b11739 and the v0.5.0 of node-llama-cpp, all on the CPU) through
`llama_get_memory_breakdown`; where a build refused, its log lines.

`kv_records_more.json.gz`: 1284 contexts of 214 models of 132 architectures, asked of b11549 alone, without allocating.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gguftool.facts.arch import Hparams
from gguftool.memory.settings import Settings

DATA = Path(__file__).parents[1] / "data" / "memory"


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    hp: Hparams
    meta: dict[str, Any]
    settings: Settings
    raw: dict[str, Any]

    @property
    def label(self) -> str:
        return f"{self.name} {self.raw['build']} {self.raw['settings']['id']}"


@cache
def _document(name: str) -> dict[str, Any]:
    return json.loads(gzip.decompress((DATA / name).read_bytes()))


def records(*, refused: bool = False, more: bool = False) -> Iterator[Record]:
    """Contexts that were created; with ``refused`` those that were not; with ``more`` those of the second file."""
    document = _document("kv_records_more.json.gz" if more else "kv_records.json.gz")
    models = document["models"]
    for raw in document["records"]:
        s = raw.get("settings")
        if s is None or ("log" in raw) != refused:
            continue  # without settings the program ended before a context was asked for
        model = models[raw["model"]]
        settings = Settings(
            ctx=s["n_ctx"],
            type_k=s["type_k"],
            type_v=s["type_v"],
            parallel=s["n_seq_max"],
            kv_unified=s["kv_unified"],
            ubatch=s["n_ubatch"],
            flash_attn=s["flash_attn"],
            swa_full=s["swa_full"],
        )
        yield Record(model["model"], Hparams(model["arch"], model["hparams"].get), model["hparams"], settings, raw)
