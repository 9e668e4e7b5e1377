"""Which tensor gets which type, against the recorded choice of the real library (scripts/record_quantize_types.py)."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gguftool.build import plan
from gguftool.build.ftypes import TARGETS, target
from gguftool.build.mixture import Facts, Overrides, Shape, choose
from gguftool.errors import Refused, UsageError
from gguftool.model import Model, from_source
from gguftool.source import Memory

RECORDS = Path(__file__).parent.parent / "data" / "building" / "quantize_types.jsonl.gz"


def records() -> Iterator[dict[str, Any]]:
    with gzip.open(RECORDS, "rt") as lines:
        yield from map(json.loads, lines)


def opened(record: dict[str, Any]) -> Model:
    return from_source(Memory(base64.b64decode(record["header"]), record["name"], record["size"]))


def test_every_tensor_of_every_architecture_gets_the_type_llama_cpp_gives_it():
    compared, refused, architectures = 0, 0, set()
    for record in records():
        model = opened(record)
        tensors = plan.in_order(model.all_tensors())
        assert [t.name for t in tensors] == record["order"].split(), record["name"]
        shapes = [Shape(t.name, t.shape or (1,), t.type_name) for t in tensors]
        facts = plan.facts(model)
        architectures.add(facts.arch)
        for key, wanted in record["types"].items():
            name, _, imatrix = key.partition("+")
            if isinstance(wanted, dict):
                with pytest.raises(Refused):
                    choose(TARGETS[name], shapes, facts, has_imatrix=bool(imatrix))
                refused += 1
                continue
            got = [c.type for c in choose(TARGETS[name], shapes, facts, has_imatrix=bool(imatrix))]
            assert got == wanted.split(), f"{record['name']} as {key}"
            compared += len(got)
    # The records are what they were when this was written: nothing was skipped.
    assert (compared, refused, len(architectures)) == (740115, 59, 132)


FACTS = Facts("llama", 4, 2, 0, 1)
SHAPES = [Shape("token_embd.weight", (256, 8), "F16"), Shape("blk.0.attn_v.weight", (256, 8), "F16")]


def test_overrides_decide_before_the_mixture():
    made = choose(target("Q4_K_M"), SHAPES, FACTS, Overrides(tensor_types=(("attn_v", "Q5_0"), ("attn", "Q8_0"))))
    assert [c.type for c in made] == ["Q6_K", "Q5_0"]


def test_pure_is_one_type():
    assert [c.type for c in choose(target("Q4_K_M"), SHAPES, FACTS, Overrides(pure=True))] == ["Q4_K", "Q4_K"]


def test_embedding_type_counts_for_tied_models_too():
    made = choose(target("Q4_K_M"), SHAPES, FACTS, Overrides(embedding_type="Q8_0"))
    assert made[0].type == "Q8_0"


def test_leave_output_keeps_its_type():
    shapes = [*SHAPES, Shape("output.weight", (256, 8), "F16")]
    assert choose(target("Q4_K_M"), shapes, FACTS, Overrides(leave_output=True))[2].type == "F16"


@pytest.mark.parametrize(
    ("text", "name"), [("q4_k", "Q4_K_M"), ("Q5_K", "Q5_K_M"), ("iq4_xs", "IQ4_XS"), ("Q3_k", "Q3_K_M")]
)
def test_targets_by_any_spelling(text: str, name: str):
    assert target(text).name == name


def test_unknown_target_names_the_near_ones():
    with pytest.raises(UsageError, match="Q4_K_X") as caught:
        target("Q4_K_X")
    assert "Q4_K_M" in str(caught.value.hint)


def test_ids_are_those_of_general_file_type():
    from gguftool.format.types import FILE_TYPES, TENSOR_TYPE_BY_NAME

    for t in TARGETS.values():
        assert FILE_TYPES[t.ftype] == t.name
        assert t.default in TENSOR_TYPE_BY_NAME
