"""How often the prediction for a file beside a model is what the real library did (b11434).

`load/sides.jsonl.gz`: mutations of adapters, control vectors and importance matrices (`tests.predict.sides`): 1,050
that the predictor was written with, 1,150 drawn afterwards (seeds 20261130, 42, and 78 with kinds thought of later).
Each was judged by `llama_adapter_lora_init`, by `common_control_vector_load` and `llama_set_adapter_cvec`, or by
`common_imatrix_load` and the division of `quantize.cpp:load_imatrix`, of a build of b11434 in a process of its own;
with a first decode where an adapter or a vector is taken.

Of the 10,500 that these are taken from one does not agree: a number that llama.cpp prints from memory it never wrote.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from gguftool.errors import FormatError
from gguftool.model import from_source
from gguftool.predict import Prediction, adapter, imatrix, steering
from gguftool.predict import predict as predict_any
from tests.predict.mutations import model
from tests.predict.recipes import recipes
from tests.predict.sides import side

pytestmark = pytest.mark.oracle
PATH = "/x/side.gguf"
ROLE = {"lora": "adapter", "cvec": "control-vector", "imat": "imatrix"}


def mine(record: dict[str, Any], *, alone: bool = False) -> Prediction:
    """The prediction, with the record's model or without one."""
    file = side(record, PATH)
    try:
        m = from_source(file, strict=False)
    except FormatError:
        return predict_any(file, given_as=ROLE[record["kind"]])
    if record["kind"] == "imat":
        return imatrix.predict(m)
    base = None if alone else model(record["with"])
    return adapter.predict(m, base) if record["kind"] == "lora" else steering.predict(m, base)


def said(p: Prediction) -> list[str]:
    """Its lines, as the records have them."""
    return [line.replace(PATH, "<file>").rstrip() for line in p.messages or p.warnings]


def verdict(p: Prediction) -> str:
    """As the records have it: a vector that is skipped is one that is refused."""
    return "refused" if p.skipped else p.verdict


@pytest.mark.parametrize("part", ["developed on", "held out"])
def test_agreement(part: str) -> None:
    counts: Counter[str] = Counter()
    wrong = []
    for record in recipes("sides"):
        if record["part"] != part:
            continue
        p, real = mine(record), record["real"]
        counts[record["kind"]] += 1
        counts[real["verdict"]] += 1
        right = verdict(p) == real["verdict"]
        if real["verdict"] == "refused":
            right = right and said(p) == real["lines"]
        elif real["verdict"] == "aborts":
            right = right and (not real["lines"] or any(p.messages[0] in line for line in real["lines"]))
        elif p.after_load is not None and p.after_load.outcome != "unknown":
            right = right and p.after_load.outcome == real["after"]
        if not right:
            wrong.append((record, p))
    assert wrong == []
    assert min(counts["lora"], counts["cvec"], counts["imat"]) >= 150
    assert min(counts["refused"], counts["loads"]) > 100
    assert counts["aborts"] > 5


def test_what_is_refused_alone_is_refused_beside_any_model() -> None:
    told = 0
    for record in recipes("sides"):
        p = mine(record, alone=True)
        if verdict(p) in ("refused", "aborts"):
            told += 1
            assert record["real"]["verdict"] in ("refused", "aborts"), record
    assert told > 700
