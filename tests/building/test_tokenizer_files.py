"""The tokenizer's files: each fault is told before the converter runs, and fatal just where real converters stopped."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from gguftool.build.folder.look import look
from gguftool.facts.converters import known, packaged, vocabulary
from tests.building import hf
from tests.building.faulty import config, text
from tests.building.tokens import CASES


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_told_and_fatal_where_the_converter_stops(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    folder = hf.folder(tmp_path / "m", case.base)
    case.fault(folder)
    for registry in (known(), packaged()):
        problems = look(str(folder), registry).problems
        assert [p.kind for p in problems] == ([case.kind] if case.kind else []), problems
        assert any(p.fatal for p in problems) == case.fatal
        assert all(p.hint for p in problems)


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c.kind])
def test_its_healthy_sibling_is_silent(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    folder = hf.folder(tmp_path / "m", case.base)
    case.sound(folder)
    assert look(str(folder), known()).problems == ()


def test_what_is_said_of_a_vocabulary_that_grew(tmp_path: Path) -> None:
    """C7: "(exit code 1): AssertionError"."""
    folder = hf.folder(tmp_path / "m", "qwen2")
    CASES["added"].fault(folder)
    (problem,) = look(str(folder), known()).fatal
    assert "the tokenizer has 402 tokens, among them '<|new|>', '<|newer|>', config.json has vocab_size 400" in str(
        problem.message
    )
    assert "resize_token_embeddings" in str(problem.hint)


def test_a_tokenizer_in_mistrals_form_alone(tmp_path: Path) -> None:
    """conversion/llama.py:LlamaModel.set_vocab (b11434) wants mistral-common for it."""
    folder = hf.folder(tmp_path / "m", "llama")
    (folder / "tokenizer.model").rename(folder / "tekken.json")
    assert look(str(folder), known()).problems == ()
    (problem,) = look(str(folder), packaged()).problems  # which lacks it
    assert (problem.kind, problem.fatal) == ("no-mistral-common", True)
    config(architectures=["PhiForCausalLM"])(folder)
    assert "no-mistral-common" not in {p.kind for p in look(str(folder), packaged()).problems}


def test_a_tokenizer_with_code_of_its_own(tmp_path: Path) -> None:
    folder = hf.folder(tmp_path / "m", "qwen2")
    (folder / "tokenizer.json").rename(folder / "qwen.tiktoken")
    text("tokenizer_config.json", json.dumps({"auto_map": {"AutoTokenizer": ["tokenization_x.X", None]}}))(folder)
    assert [(p.kind, p.fatal) for p in look(str(folder), known()).problems] == [("remote-code", False)]


def test_how_vocabularies_are_read() -> None:
    # conversion/qwen.py:Qwen2Model tries tokenizer.model first; conversion/llama.py the three of them
    assert vocabulary("Qwen2ForCausalLM") == {"sentencepiece", "transformers"}
    assert vocabulary("LlamaForCausalLM") == {"sentencepiece", "transformers", "llama-hf", "mistral"}
    assert vocabulary("Gemma2ForCausalLM") == {"sentencepiece"}
    assert vocabulary("BertModel") == {"transformers"}
    assert "rwkv_vocab_v20230424.txt" in vocabulary("Rwkv6ForCausalLM")
    assert not [name for name in known().text if name.startswith("Qwen") and not vocabulary(name)]
    assert vocabulary("Nothing") == frozenset()


@pytest.mark.parametrize(
    "change",
    [
        config(vocab_size="many"),
        config(vocab_size=None),
        config(vocab_size=0),
        config(eos_token_id=[True, "x", None]),
        config(text_config=[]),
        text("tokenizer_config.json", '{"added_tokens_decoder": {"x": 1, "٣": {"content": 5}}, "eos_token": 3}'),
        text("special_tokens_map.json", '{"additional_special_tokens": {"a": [1]}, "pad_token": []}'),
        text("added_tokens.json", '{"a": "b", "c": true}'),
        text("generation_config.json", "[1]"),
        text("tokenizer.json", '{"model": {"vocab": [["a", 1], [], 3]}, "added_tokens": {"x": 1}}'),
        text("tokenizer.json", '{"model": {"vocab": {"a": "x", "b": -1}}, "added_tokens": [3, {"content": null}]}'),
    ],
)
def test_odd_values_end_in_no_bug(change, tmp_path: Path) -> None:
    for arch in ("qwen2", "llama"):
        folder = hf.folder(tmp_path / arch, arch)
        change(folder)
        look(str(folder), known())


def test_a_large_vocabulary_takes_milliseconds(tmp_path: Path) -> None:
    folder = hf.folder(tmp_path / "m", "qwen2")
    whole = json.loads((folder / "tokenizer.json").read_text())
    whole["model"]["vocab"] |= {f"token{i}": i for i in range(400, 150_000)}
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    config(vocab_size=150_000)(folder)
    begun = time.process_time()
    kinds = [p.kind for p in look(str(folder), known()).problems]
    assert time.process_time() - begun < 1.5  # 0.25 s by itself
    assert "rows" in kinds  # of the weights, which are small here
    assert "vocab-grown" not in kinds
