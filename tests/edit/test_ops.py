"""Operations as data: what they do to a header, their types, and the command line that does the same."""

from __future__ import annotations

import pytest

from gguftool.edit.ops import (
    Dedupe,
    Delete,
    Operation,
    Realign,
    Rename,
    Repack,
    Reserve,
    Set,
    SetElement,
    Strip,
    apply,
)
from gguftool.edit.schema import key_types, read_by
from gguftool.edit.spelled import command, spellable
from gguftool.errors import UsageError
from gguftool.format.parse import parse_bytes
from gguftool.format.render import render
from tests.build import llama
from tests.shell_words import shell_words

HEADER = parse_bytes(llama().bytes())


@pytest.mark.parametrize(
    ("key", "arch", "expected"),
    [
        ("qwen2.context_length", "qwen2", "u32"),
        ("qwen2.rope.freq_base", "qwen2", "f32"),
        ("qwen2.rope.freq_scale", "qwen2", "f32"),
        ("qwen2.kv_cache_type", "qwen2", "str"),
        ("qwen2.attention.layer_norm_rms_epsilon", "qwen2", "f32"),
        ("somenew.context_length", "somenew", "u32"),
        ("general.alignment", "", "u32"),
        ("general.file_type", "llama", "u32"),
        ("general.tags", "llama", "[str]"),
        ("general.base_model.0.repo_url", "llama", "str"),
        ("general.sampling.top_k", "llama", "i32"),
        ("general.sampling.temp", "llama", "f32"),
        ("tokenizer.ggml.add_bos_token", "llama", "bool"),
        ("tokenizer.ggml.eos_token_id", "llama", "u32"),
        ("tokenizer.ggml.tokens", "llama", "[str]"),
        ("tokenizer.ggml.scores", "llama", "[f32]"),
        ("tokenizer.ggml.token_type", "llama", "[i32]"),
        ("tokenizer.chat_template", "llama", "str"),
        ("tokenizer.chat_template.tool_use", "llama", "str"),
        ("split.count", "llama", "u16"),
        ("split.tensors.count", "llama", "i32"),
        ("my.own.key", "llama", None),
        ("qwen2.nonsense", "qwen2", None),
    ],
)
def test_types_of_known_keys(key: str, arch: str, expected: str | None):
    """The specification of GGUF, and what llama.cpp reads them as."""
    assert next(iter(key_types(key, arch)), None) == expected


def test_scalar_or_array_per_layer():
    assert key_types("llama.attention.head_count_kv", "llama")[0] == "u32"
    assert "[i32]" in key_types("llama.attention.head_count_kv", "llama")
    h = apply([Set("llama.attention.head_count_kv", [2])], HEADER)
    assert h.get("llama.attention.head_count_kv").type_name == "arr[u32]"
    assert apply([Set("llama.attention.head_count_kv", 2)], h).get("llama.attention.head_count_kv").type_name == "u32"


@pytest.mark.parametrize(
    ("key", "reader"),
    [
        ("llama.context_length", "llama.cpp"),
        ("llama.rope.scaling.factor", "llama.cpp"),
        ("llama.rope.freq_scale", "gguftool"),
        ("llama.kv_cache_type", "gguftool"),
        ("general.sampling.temp", "llama-server"),
        ("tokenizer.chat_template", "llama-server"),
        ("general.author", "-"),
        ("general.architecture", "llama.cpp"),
    ],
)
def test_who_reads_a_key(key: str, reader: str):
    assert read_by(key, "llama") == reader


@pytest.mark.parametrize(
    ("op", "says"),
    [
        (Set("llama.context_length", 4096, "i32"), "is u32, not i32"),
        (Set("llama.context_length", -1), "does not fit"),
        (Set("llama.context_length", 2**32), "does not fit"),
        (Set("llama.context_length", 1.5), "whole number"),
        (Set("llama.context_length", "4096"), "whole number"),
        (Set("llama.rope.freq_base", 1e39), "does not fit"),
        (Set("general.name", 5), "expected a string"),
        (Set("tokenizer.ggml.add_bos_token", 1), "true or false"),
        (Set("tokenizer.ggml.tokens", "abc"), "needs a list"),
        (Set("my.key", 1), "type must be named"),
        (Set("my.key", 1, "u128"), "unknown value type"),
        (Set("", 1, "u8"), "empty key"),
        (SetElement("tokenizer.ggml.tokens", 10**6, "x"), "elements 0 to"),
        (SetElement("tokenizer.ggml.token_type", 1, "x"), "whole number"),
        (SetElement("general.name", 0, "x"), "not an array"),
        (SetElement("no.key", 0, "x"), "there is no key"),
        (Delete("llama.context_lenght"), "there is no key"),
        (Rename("general.name", "llama.context_length"), "is there already"),
        (Rename("general.name", "llama.vocab_size"), "is u32"),
        (Rename("nope", "x"), "there is no key"),
        (Realign(48), "power of two"),
        (Realign(0), "power of two"),
    ],
    ids=lambda v: v if isinstance(v, str) else None,
)
def test_what_is_not_possible_is_said(op: Operation, says: str):
    with pytest.raises(UsageError, match=says):
        apply([op], HEADER)


def test_near_keys_are_named():
    with pytest.raises(UsageError) as e:
        apply([Delete("llama.context_lenght")], HEADER)
    assert "llama.context_length" in str(e.value.hint)


def test_force_takes_another_type():
    h = apply([Set("llama.context_length", 4096, "u64")], HEADER, force=True)
    assert h.get("llama.context_length").type_name == "u64"


def test_a_field_of_the_wrong_type_gets_the_right_one():
    broken = parse_bytes(llama().replace("llama.context_length", 2048, "i64").bytes())
    h = apply([Set("llama.context_length", 4096)], broken)
    assert h.get("llama.context_length").type_name == "u32"


def test_an_unknown_key_keeps_the_type_it_has():
    h = parse_bytes(llama().kv("my.key", 3, "i16").bytes())
    assert apply([Set("my.key", -4)], h).get("my.key").type_name == "i16"


def test_the_header_that_comes_out_is_the_one_that_is_written():
    ops = [
        Set("llama.kv_cache_type", "q8_0"),
        SetElement("tokenizer.ggml.tokens", 3, "longer than before"),
        SetElement("tokenizer.ggml.token_type", 5, 3),
        SetElement("tokenizer.ggml.scores", 0, 2.5),
        Rename("general.name", "general.basename"),
        Delete("general.file_type"),
        Set("my.list", [True, False], "[bool]"),
    ]
    h = apply(ops, HEADER)
    raw = render(h)
    assert len(raw) == h.end
    again = parse_bytes(raw + bytes(10**6))
    assert [f.raw for f in again.fields] == [f.raw for f in h.fields]
    assert again.get("tokenizer.ggml.tokens").head(2, 2) == ["</s>", "longer than before"]
    assert again.get("tokenizer.ggml.token_type").head(2, 5) == [3, 6]
    assert again.get("tokenizer.ggml.scores").head(2) == [2.5, -1.0]
    assert again.get("my.list").value == [True, False]
    assert again.get("general.basename").value == "tiny llama"


def test_new_keys_stand_with_their_kind_in_front_of_the_tokens():
    keys = [f.key for f in apply([Set("llama.kv_cache_type", "f16"), Set("general.author", "x")], HEADER).fields]
    assert keys.index("general.author") == keys.index("general.file_type") + 1
    assert keys[keys.index("llama.kv_cache_type") - 1] == "llama.rope.dimension_count"
    assert keys.index("llama.kv_cache_type") < keys.index("tokenizer.ggml.tokens")


CASES: list[tuple[Operation, ...]] = [
    (Set("llama.context_length", 4096),),
    (Set("llama.context_length", 4096, "u32"),),
    (Set("my.key", 1, "u8"),),
    (Set("my.f", 0.1, "f64"), Set("llama.rope.freq_base", 1e6)),
    (Set("general.name", 'it\'s a "name" with = and $HOME\nand lines'),),
    (Set("my.list", [1, 2, 3], "[i8]"), Set("my.words", ["a,b", "[c]", ""], "[str]"), Set("my.none", [], "[str]")),
    (Set("my.flag", True, "bool"), Set("tokenizer.ggml.add_bos_token", False)),
    (SetElement("tokenizer.ggml.token_type", 5, 3), SetElement("tokenizer.ggml.tokens", 4, "x=y")),
    (Delete("general.name"), Rename("general.file_type", "my.file_type")),
    (Repack(),),
    (Realign(64),),
    (Reserve(5000),),
]


@pytest.mark.parametrize("ops", CASES, ids=lambda ops: ops[0].describe()[:30])
def test_the_command_line_does_the_same(ops: tuple[Operation, ...], tmp_path, cli):
    """The command that a lint finding shows leads to the same file as the fix itself."""
    from gguftool.edit.plan import plan_edit

    one, two = llama().write(tmp_path / "one file.gguf"), llama().write(tmp_path / "two.gguf")
    plan_edit(one, ops).commit()
    line = command(ops, str(two))
    words = shell_words(line, tmp_path)
    assert words[:2] == ["gguftool", "fix"]
    result = cli(*words[1:])
    assert result.code == 0, result.err
    assert two.read_bytes() == one.read_bytes()


@pytest.mark.parametrize(
    ("op", "possible"),
    [
        (Set("a.b", 1, "u8"), True),
        (Set("a=b", 1, "u8"), False),
        (Set("a:u8", 1, "u8"), False),
        (Set("a[3]", 1, "u8"), False),
        (Set("a\0", 1, "u8"), False),
        (Set("a", "x\0", "str"), False),
        (Set("a", "…", "str"), False),
        (Set("", 1, "u8"), False),
        (Delete("a=b:u8[3]"), True),
        (Delete("\0"), False),
        (Rename("a=b", "c"), True),
        (Rename("a", "b=c"), False),
        (Rename("a.*", "b.*"), False),
        (Rename("a.*", "b"), True),
        (SetElement("a", 1, "…"), False),
        (SetElement("a:u8", 1, 2), True),
        (SetElement("a=b", 1, 2), False),
    ],
)
def test_what_an_option_can_say(op: Operation, possible: bool):
    """``KEY:TYPE=VALUE``, ``KEY[5]=VALUE`` and ``OLD.*=NEW.*`` read some keys as something else."""
    assert spellable(op) is possible


def test_every_operation_describes_itself_and_has_an_option():
    ops = [Set("a", 1, "u8"), SetElement("a", 0, 1), Delete("a"), Rename("a", "b"), Dedupe(), Repack(), Realign(32)]
    for op in [*ops, Strip(), Reserve(1)]:
        assert op.describe()
        assert " --" in command([op], "m.gguf")
