"""`gguftool explain`: the truth about who reads a key."""

from __future__ import annotations

import re

import pytest

from gguftool.errors import UsageError
from gguftool.facts.data import load
from gguftool.facts.keys import readers, reading, whole_readers
from gguftool.lint.explain import explain
from gguftool.lint.rules import catalogue


def test_honest_about_the_two_records() -> None:
    for key in (
        "kv_cache_type",
        "qwen2.kv_cache_type",
        "rope.freq_scale",
        "llama.rope.freq_scale",
        "{arch}.kv_cache_type",
    ):
        e = explain(key)
        assert e.llama_cpp == ""
        assert e.others == ("gguftool",)
        assert "does NOT read this key" in e.meaning
        assert e.required == ""


def test_prefix_may_be_left_out() -> None:
    plain, whole, other = explain("context_length"), explain("qwen2.context_length"), explain("{arch}.context_length")
    assert plain.key == other.key == "{arch}.context_length"
    assert whole.key == "qwen2.context_length"
    assert plain.meaning == whole.meaning
    assert plain.llama_cpp == "llama.cpp, for every architecture"
    assert plain.required == whole.required == "every architecture"


def test_by_architecture() -> None:
    dead = explain("llama.rope.scaling.yarn_beta_fast")
    assert dead.llama_cpp == ""
    assert dead.architectures == ("grok", "mistral3")
    assert explain("grok.rope.scaling.yarn_beta_fast").llama_cpp == "llama.cpp, for grok"
    # required by some: as the facts of b11434 have it
    assert explain("qwen2.attention.layer_norm_rms_epsilon").required == "qwen2"
    assert explain("gpt2.attention.layer_norm_rms_epsilon").required == ""
    # an architecture of which no file was probed: the loading function tells
    assert explain("bitnet.attention.indexer.top_k").llama_cpp == ""
    assert "glm-dsa" in explain("bitnet.attention.indexer.top_k").architectures


def test_whole_keys() -> None:
    assert explain("general.alignment").type == "u32"
    assert explain("split.tensors.count").type == "i32"
    assert explain("general.base_model.3.repo_url").meaning == "Repository of a base model."
    assert explain("tokenizer.chat_template.tool_use").type == "str"
    assert explain("tokenizer.ggml.cls_token_id").llama_cpp == ""
    assert explain("tokenizer.ggml.eos_token_id").llama_cpp == "the loader of llama.cpp"


def test_unknown_key(cli) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError, match="contxt_length"):
        explain("contxt_length")
    result = cli("explain", "rope.freq_bas")
    assert result.code == 2
    assert "{arch}.rope.freq_base" in result.err
    assert cli("explain", "qwen2.contextlength").code == 2


def test_command(cli) -> None:  # type: ignore[no-untyped-def]
    text = cli("explain", "kv_cache_type").out
    assert "no part of llama.cpp" in text
    found = cli("explain", "rope.freq_base", "--format", "json").json
    assert found["llama_cpp"] is True
    assert found["type"] == "f32"
    assert found["readers"] == ["llama.cpp, for every architecture", "gguftool"]


def test_every_key_of_gguf_py_is_known() -> None:
    """The list of keys is that of the gguf package; projector details may be left out."""
    constants = pytest.importorskip("gguf.constants")
    keys: list[str] = []

    def walk(cls: type) -> None:
        for name, value in vars(cls).items():
            if isinstance(value, str) and not name.startswith("_"):
                keys.append(value)
            elif isinstance(value, type) and not name.startswith("_"):
                walk(value)

    walk(constants.Keys)
    assert len(keys) > 200
    table = load("keys.json")["keys"]
    unknown = [k for k in keys if k not in table and not k.startswith("clip.") and "{dense}" not in k]
    assert unknown == []


def test_table_is_sound() -> None:
    table = load("keys.json")["keys"]
    types = {"u8", "u16", "u32", "i32", "f32", "bool", "str"}
    types |= {f"[{t}]" for t in types}
    for key, entry in table.items():
        # A type, and a reader of llama.cpp, stand in one place only: the generated tables.
        held = reading(key, "") or readers(key.removeprefix("{arch}.")) or whole_readers(key)
        assert bool(held) != ("type" in entry), key
        assert set(entry.get("type", "u8").split(" or ")) <= types, key
        assert re.fullmatch("[GH]*", entry.get("readers", "")), key
        assert entry["meaning"].endswith("."), key
        assert len(entry["meaning"]) < 260, key


def test_readers_come_from_measurement() -> None:
    assert readers("context_length") == ("*",)
    assert readers("rope.freq_scale") == readers("kv_cache_type") == ()


def test_name_of_a_rule_is_told_where_rules_are() -> None:
    """Who reads ``kv-cache-type-missing`` in a lint asks for it here as well."""
    for name in (rule.id for rule in catalogue()):
        with pytest.raises(UsageError) as error:
            explain(name)
        assert error.value.hint == f"gguftool rules {name}", name
