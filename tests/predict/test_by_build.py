"""Rows of older builds: what real builds said of the same headers, and changes between two builds.

The lines are those of the libraries of the xllamacpp wheels of each build, loaded with the file as it is.
"""

from __future__ import annotations

import gc
import json
import weakref
from typing import Any

import pytest

from gguftool.facts import editions
from gguftool.facts.data import load
from gguftool.facts.machine.rows import program
from gguftool.model import from_source
from gguftool.predict import predict
from gguftool.predict.by_build import by_build
from gguftool.source import Memory
from tests.build import llama
from tests.predict.recipes import built, recipes

MODEL = "llama_model_load: error loading model: "
NO_VOCAB = [{"op": "set", "key": "tokenizer.ggml.model", "type": "str", "value": "no_vocab"}]
SAID = [
    (4798, "tiny/llama-gqa", [], ""),
    (4798, "tiny/gemma3", [], "error loading model architecture: unknown model architecture: 'gemma3'"),
    (5353, "tiny/granite", [], ""),
    (6123, "tiny/nomic-bert", [], "missing tensor '__missing__'"),
    (7551, "archs/granitemoe-dense", [], "error loading model vocabulary: unknown tokenizer: 'test'"),
    (7551, "archs/granitemoe-dense", NO_VOCAB, "missing tensor 'blk.%d.ffn_gate'"),
    (
        9093,
        "tiny/mamba2",
        [],
        "check_tensor_dims: tensor 'blk.0.ssm_in.weight' has wrong shape; expected    128,    640, "
        "got    128,    648,      1,      1",
    ),
    (9873, "tiny/mamba2", [], ""),
    (9093, "tiny/qwen35", [], "done_getting_tensors: wrong number of tensors; expected 61, got 59"),
]


@pytest.mark.parametrize(("build", "base", "ops", "line"), SAID)
def test_what_a_real_build_said(build: int, base: str, ops: list[dict[str, Any]], line: str) -> None:
    found = predict(built({"base": base, "ops": ops}), build)
    assert found.loads == (not line)
    assert found.messages[:1] == ((MODEL + line,) if line else ())
    assert found.build in editions.builds()


def test_a_change_between_two_builds_stands_in_their_rows() -> None:
    """`llm_load_tensors`: weights of experts apart in b1892, as one tensor (`LLM_TENSOR_FFN_GATE_EXPS`) in b3166."""

    def rows(build: int) -> str:
        with editions.reading(build):
            return json.dumps(program("llama", "tensors"))

    assert "ffn_gate_exps" not in rows(1892)
    assert "ffn_gate_exps" in rows(3166)


def test_limits_and_lists_of_a_build() -> None:
    """`LLAMA_MAX_EXPERTS` was 256 in b4753, 384 in b6301; MXFP4 is type 39 from b6122 on (`ggml.h`)."""

    def maps(build: int) -> Any:
        with editions.reading(build):
            return load("load_maps.json")

    assert maps(4753)["limits"]["LLAMA_MAX_EXPERTS"] == 256
    assert maps(6301)["limits"]["LLAMA_MAX_EXPERTS"] == 384
    assert [39 in maps(build)["types"]["known"] for build in (5904, 6122)] == [False, True]


@pytest.mark.parametrize(("build", "outcome"), [(7551, "aborts"), (8672, "ok"), (None, "ok")])
def test_a_template_too_long_for_the_engine_of_its_time(build: int | None, outcome: str) -> None:
    text = {"op": "set", "key": "tokenizer.chat_template", "type": "str", "value": "x" * 64_000}
    found = predict(built({"base": "tiny/llama-gqa", "ops": [text]}), build)
    assert found.after_load is not None
    assert found.after_load.outcome == outcome


@pytest.mark.parametrize("key", ["llama.block_count", ""])
def test_since_when_a_repeated_or_empty_key_is_refused(key: str) -> None:
    """Commit 53ff6b9 (b4436) brought "duplicate key" and the assertion about empty ones, d72bfa3 (b9975) "is empty"."""
    m = from_source(Memory(llama().kv(key, 1).bytes()))
    assert predict(m, 4435).loads
    assert not any(predict(m, build).loads for build in (4436, 4500, 4600))
    said = [" ".join(predict(m, build).messages) for build in (4436, 4600, 9871, 9974, 9975, 9993)]
    words = ["duplicate key"] * 6 if key else ["!key.empty()"] * 4 + ["key 19 is empty"] * 2
    assert [word in text for word, text in zip(words, said, strict=True)] == [True] * 6


def test_what_was_found_out_for_builds_does_not_hold_the_model() -> None:
    one = from_source(built(recipes()[0]), strict=False)
    by, gone = by_build(one), weakref.ref(one)
    gc.disable()
    try:
        for build in editions.builds():
            by(build)
        del one, by
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("number", range(0, 2400, 60))
def test_builds_one_after_the_other_do_what_each_does_alone(number: int) -> None:
    """Faults of every kind, in files that load in some builds and end in others."""
    recipe = recipes()[number]
    one = from_source(built(recipe), strict=False)
    by = by_build(one)
    for build in editions.builds()[number % 7 :: 7]:
        assert by(build) == predict(from_source(built(recipe), strict=False), build)
