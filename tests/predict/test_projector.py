"""What is predicted of projectors, held against what `libmtmd` of the very release did with them.

The records (`tests/data/load/projectors.jsonl.gz`) are broken projectors as recipes with llama.cpp's verdict and first
error line; half of them come from a seed that was not looked at while the prediction was written.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gguftool.model import from_source
from gguftool.predict import Prediction, predict
from gguftool.source import Memory
from tests.predict.projector_mutations import applied
from tests.projectors import SOUND, Made

RECORDS = Path(__file__).resolve().parents[1] / "data" / "load" / "projectors.jsonl.gz"
SIGNALS = {"(SIGSEGV)": "signal 11", "(SIGFPE)": "signal 8"}


def records() -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(RECORDS.read_bytes()).splitlines()]


def foretold(data: bytes) -> Prediction:
    return predict(from_source(Memory(data, "F"), strict=False), given_as="mmproj")


def said(p: Prediction) -> list[str]:
    """Verdict and first line, as the records have them."""
    verdict = "loads" if p.verdict == "warns" else p.verdict
    first = p.messages[0].rstrip("\n") if p.messages else ""
    return [verdict, next((word for end, word in SIGNALS.items() if first.endswith(end)), first)]


@pytest.mark.parametrize("kind", SOUND)
def test_a_sound_one_loads(kind: str) -> None:
    found = foretold(SOUND[kind]().gguf().bytes())
    assert found.loads, found.messages


@pytest.mark.parametrize("half", [0, 1])
def test_agreement(half: int) -> None:
    wrong, n, kinds = [], 0, Counter[str]()
    for record in records()[half::4]:
        n += 1
        kinds[record["kind"]] += 1
        mine = said(foretold(applied(record["kind"], record["ops"])))
        if mine != [record["verdict"], record["line"]]:
            wrong.append((record, mine))
    assert n >= 250
    assert len(kinds) >= 8
    assert len(wrong) <= n // 100, wrong[:5]


def test_the_words_of_the_reported_ones() -> None:
    unknown = SOUND["gemma3"]().key("clip.projector_type", "locateanything")
    line = "clip_init: failed to load model 'F': load_hparams: unknown projector type: locateanything"
    assert foretold(unknown.gguf().bytes()).messages[0] == line
    cut = SOUND["gemma3"]().gguf().bytes()[:-500]
    line = "clip_init: failed to load model 'F': load_tensors: failed to seek for tensor mm.soft_emb_norm.weight"
    assert foretold(cut).messages[0] == line


def test_two_encoders_must_give_one_width() -> None:
    made = SOUND["qwen2.5o"]().tensor("mm.a.fc.weight", 32, 96, type="f16").tensor("mm.a.fc.bias", 96)
    text = "mismatch between vision and audio mmproj (n_embd_v = 64, n_embd_a = 96)"
    assert foretold(made.gguf().bytes()).first_error == f"mtmd_init_from_file: error: {text}"


def test_a_file_without_encoders() -> None:
    made = Made().key("general.architecture", "clip").key("clip.projector_type", "mlp").tensor("mm.0.weight", 2, 2)
    assert foretold(made.gguf().bytes()).first_error == "mtmd_init_from_file: error: Failed to load CLIP model from F"


def test_given_as_a_model_it_is_refused() -> None:
    found = predict(from_source(Memory(SOUND["gemma3"]().gguf().bytes(), "F"), strict=False), given_as="model")
    assert "CLIP cannot be used as main model" in found.first_error


def test_bytes_that_are_no_gguf() -> None:
    found = predict(Memory(b"GGML" * 9, "F"), given_as="mmproj")
    assert found.verdict == "refused"
    assert any("failed to load CLIP model from F" in line for line in found.messages)
