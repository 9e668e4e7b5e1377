"""Pairs foretold, held against the real server: what was recorded of b11434, and the one at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gguftool import programs
from gguftool.model import from_source
from gguftool.predict.pairs import ABORTS, IGNORED, REFUSED, Misfit, misfits
from gguftool.source import Memory
from tests.pair_cases import PAIRS, UNSEEN, run

RECORD = Path(__file__).resolve().parents[1] / "data" / "llamacpp" / "pairs.jsonl"
RECORDED: dict[str, dict[str, Any]] = {r["pair"]: r for r in map(json.loads, RECORD.read_text().splitlines())}
LEFT_OUT = ("no valid control vector", "n_embd does not match")
READABLE = [p for p in PAIRS if not p.startswith("a web page")]


def foretold(pair: str) -> tuple[Misfit, ...]:
    make, role, side = PAIRS[pair]
    made = side()
    data = made if isinstance(made, bytes) else made.bytes()
    model = from_source(Memory(make().bytes(), "model.gguf"), strict=False)
    return misfits(model, from_source(Memory(data, "side.gguf"), strict=False), role)


def happened(r: dict[str, Any]) -> str:
    if r["code"] is not None:
        return ABORTS if r["code"] < 0 else REFUSED
    return IGNORED if any(words in line for words in LEFT_OUT for line in r["said"]) else ""


def test_the_record_is_of_these_pairs():
    assert list(RECORDED) == list(PAIRS)


@pytest.mark.parametrize("pair", READABLE)
def test_what_is_foretold_is_what_the_server_did(pair: str):
    said = [m for m in foretold(pair) if m.stops]
    worst = said[0].outcome if said else ""
    if pair in UNSEEN:
        assert (worst, happened(RECORDED[pair])) == (IGNORED, "")
        return
    assert worst == happened(RECORDED[pair])
    # A file of another role is named for what it is, and a crash says nothing.
    if said and said[0].rule != "pair-role" and RECORDED[pair]["code"] != -11:
        first = " ".join(said[0].said[0].split())
        assert any(first in line for line in RECORDED[pair]["said"]), (said[0].said, RECORDED[pair]["said"])


LIVE = [
    "eyes of an unknown type", "eyes, cut short", "eyes without a key", "eyes", "eyes, other width",
    "eyes of gemma3, no markers", "lora", "lora, other width", "lora, half a pair", "vector", "vector, other width",
    "vector, layer 0", "a model as mmproj", "an adapter as control-vector",
]  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("pair", LIVE)
def test_the_server_at_hand_does_it(pair: str, tmp_path: Path):
    server = programs.find(programs.SERVER, None, may_lack=True)
    if server is None:
        pytest.skip("no llama-server")
    worst = next((m.outcome for m in foretold(pair) if m.stops), "")
    assert happened(run(server.path, tmp_path, PAIRS[pair])) == worst
