"""What a tokenizer can trip over, and numbers that a graph takes from the first layer: the words are the library's."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from gguftool.model import from_source
from gguftool.model.vocab import vocabulary
from gguftool.predict import predict
from gguftool.predict.rwkv import rwkv_gaps, unescaped
from gguftool.predict.texts import token_bytes
from gguftool.predict.unigram import normalised
from gguftool.source import Memory
from tests.build import GGUF
from tests.predict.recipes import built

TOKENS = "tokenizer.ggml.tokens"
VOCABULARY = "llama_model_load: error loading model: error loading model vocabulary: "
NO_NEWLINE = "load: model vocab missing newline token, using special_pad_id instead"


def said(base: str, *ops: dict[str, Any]) -> Any:
    return predict(from_source(built({"base": base, "ops": list(ops)}), strict=False))


def put(key: str, kind: str, value: object) -> dict[str, Any]:
    return {"op": "set", "key": key, "type": kind, "value": value}


def token(i: int, raw: bytes) -> dict[str, Any]:
    return {"op": "array_set", "key": TOKENS, "i": i, "value": {"hex": raw.hex()}}


def charsmap(nodes: dict[int, int], replacements: bytes, n: int = 256) -> bytes:
    """A compiled map whose root is node 0 with base 0; letters are the numbers of their nodes."""
    table = [nodes.get(i, 0) for i in range(n)]
    return struct.pack(f"<I{n}I", 4 * n, *table) + replacements


NEWLINE = {10: 10 | 1 << 8 | 1 << 10}
"""A line feed is a leaf whose replacement stands at the number in node 11."""


@pytest.mark.parametrize("raw", [b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xf7\xbf\xbf\xbf", b"a\xf4\x90\x80\x80b"])
def test_a_letter_beyond_unicode(raw: bytes) -> None:
    p = said("tiny/qwen3", token(200, raw))
    assert (p.verdict, p.first_error, p.where) == ("refused", f"{VOCABULARY}invalid codepoint", f"field:{TOKENS}")
    assert p.data["token"] == 200


@pytest.mark.parametrize("raw", [b"\xf4\x8f\xbf\xbf", b"\xed\xa0\x80", b"\xff", b"\xc0\x80", b"zz\0\xf4\x90\x80\x80"])
def test_other_odd_letters_are_read(raw: bytes) -> None:
    assert said("tiny/qwen3", token(200, raw)).ok


def test_letters_beyond_unicode_are_no_matter_elsewhere() -> None:
    kind = {"op": "array_set", "key": "tokenizer.ggml.token_type", "i": 200, "value": 3}
    assert said("tiny/qwen3", token(200, b"\xf4\x90\x80\x80"), kind).ok
    plain = put("tokenizer.ggml.pre", "str", "sarvam-moe")
    assert said("tiny/qwen3", plain, token(200, b"\xf4\x90\x80\x80")).ok
    assert said("tiny/gemma4", token(200, b"\xf4\x90\x80\x80")).ok  # SentencePiece


def test_a_byte_token_of_a_nul_is_an_empty_one() -> None:
    kind = {"op": "array_set", "key": "tokenizer.ggml.token_type", "i": 200, "value": 6}
    for model in ("gpt2", "gemma4"):
        ops = (put("tokenizer.ggml.model", "str", model), kind)
        p = said("tiny/qwen3", *ops, token(200, b"\0"))
        assert p.ok
        assert "load: empty token at index 200" in p.warnings
        assert said("tiny/qwen3", *ops, token(200, b"zz\0bcdef")).first_error.endswith("this->size() (which is 2)")


UNIGRAM = put("tokenizer.ggml.model", "str", "t5")
XCDA = "Index out of array bounds in XCDA array!"
MAPS = {
    "outside itself": (b"\4\0\0\0abcdx", XCDA),
    "a replacement outside": (
        charsmap({**NEWLINE, 11: 99}, b" \0"),
        "Index out of array bounds in precompiled charsmap!",
    ),
    "no end": (charsmap(NEWLINE, b"zz"), "Unterminated string in precompiled charsmap!"),
    "too short": (b"\4\0\0", "precompiled_charsmap too small for xcda_blob_size header!"),
}


@pytest.mark.parametrize("name", MAPS)
def test_compiled_maps_that_end_the_load(name: str) -> None:
    data, words = MAPS[name]
    p = said("tiny/qwen3", UNIGRAM, put("tokenizer.ggml.precompiled_charsmap", "arr:u8", list(data)))
    assert (p.verdict, p.first_error) == ("refused", VOCABULARY + words)


def test_a_compiled_map_that_only_a_prompt_meets() -> None:
    small = put("tokenizer.ggml.precompiled_charsmap", "arr:u8", list(charsmap(NEWLINE, b"z\0", 64)))
    p = said("tiny/qwen3", UNIGRAM, small)
    assert p.loads
    assert (p.after_load.stage, p.after_load.outcome) == ("decode", "aborts")
    assert XCDA in p.after_load.message


@pytest.mark.parametrize(
    ("replacement", "merged", "missing"), [(b" ", True, True), (b" ", False, False), (b"", False, True)]
)
def test_a_line_feed_that_becomes_nothing(replacement: bytes, merged: bool, missing: bool) -> None:
    data = charsmap(NEWLINE, replacement + b"\0")
    ops = put("tokenizer.ggml.precompiled_charsmap", "arr:u8", list(data))
    p = said("tiny/qwen3", UNIGRAM, ops, put("tokenizer.ggml.remove_extra_whitespaces", "bool", merged))
    assert (NO_NEWLINE in p.warnings) is missing


def test_the_pre_tokenizer_whose_tokens_are_plain_text() -> None:
    """Ċ stands for a line feed in GPT-2's letters only."""
    assert NO_NEWLINE in said("tiny/qwen3", put("tokenizer.ggml.pre", "str", "whitespace")).warnings
    assert NO_NEWLINE not in said("tiny/qwen3", put("tokenizer.ggml.pre", "str", "default")).warnings


def test_normalising() -> None:
    g = GGUF("t5").kv(TOKENS, ["<pad>", "</s>", "\n\n", "é"], "[str]")
    g.kv("tokenizer.ggml.token_type", [3, 3, 4, 4], "[i32]")
    vocab = vocabulary(from_source(Memory(g.bytes(), "m"), strict=False))
    data = charsmap(NEWLINE, b"<n>\0")
    assert normalised(vocab, data, b"a\nb") == b"a<n>b"
    assert normalised(vocab, data, b"a\n\n\n") == b"a\n\n<n>"
    assert normalised(vocab, b"", "é\n".encode() + b"\xff") == "é\n\ufffd".encode()


def test_rwkv_over_another_vocabulary() -> None:
    p = said("tiny/qwen3", put("tokenizer.ggml.model", "str", "rwkv"))
    assert p.loads
    assert (p.after_load.stage, p.after_load.outcome) == ("decode", "fails")
    assert p.after_load.message.startswith("init: invalid token[")
    # with a token for what is unknown it runs
    unknown = put("tokenizer.ggml.unknown_token_id", "u32", 0)
    assert said("tiny/qwen3", put("tokenizer.ggml.model", "str", "rwkv"), unknown).ok


def test_rwkv_tokens() -> None:
    assert unescaped(rb"a\n\t\r\x41\\b\'") == b"a\n\t\rA\\b'"
    g = GGUF("rwkv7").kv(TOKENS, ["<s>", "H", "Hel", "\\x6c", "o", "\\n", " w"], "[str]")
    vocab = vocabulary(from_source(Memory(g.bytes(), "m"), strict=False))
    assert list(rwkv_gaps(vocab, b"Hello\n")) == []
    assert list(rwkv_gaps(vocab, b"Hexo")) == [(1, False), (2, False)]
    assert list(rwkv_gaps(vocab, b"o o")) == [(1, True)]
    assert token_bytes(vocab, 1) == b"H"


@pytest.mark.parametrize(
    ("base", "key", "value", "outcome"),
    [
        ("tiny/deepseek2-mla", "expert_used_count", [1, 0, 2], "aborts"),
        ("tiny/deepseek2-mla", "expert_used_count", [1, 2, 2], "aborts"),
        ("archs/mistral4-moe", "expert_used_count", [1, 0], "aborts"),
        ("archs/qwen3moe-moe", "expert_used_count", [2, 1], "ok"),
        ("archs/arcee-dense", "attention.head_count", [2, 0], "ok"),
        ("archs/granite-dense", "attention.head_count", [2, 0], "aborts"),
        ("archs/gemma2-dense", "attention.head_count_kv", [2, 0], "refused"),
        ("archs/hrm_text-dense", "attention.head_count_kv", [2, 0, 2, 2, 2, 2], "aborts"),
    ],
)
def test_arrays_with_another_number_for_one_layer(base: str, key: str, value: list[int], outcome: str) -> None:
    arch = base.partition("/")[2].rpartition("-")[0]
    p = said(base, put(f"{arch}.{key}", "arr:u32", value))
    assert p.loads
    assert p.after_load.outcome == outcome
    assert p.after_load.stage == ("decode" if outcome == "ok" else "context")


def test_numbers_that_a_graph_does_not_look_at() -> None:
    for base, key, kind, value in (
        ("archs/cohere2moe-moe", "cohere2moe.rope.dimension_count_swa", "u32", 127),
        ("tiny/gemma3", "gemma3.rope.dimension_count", "u32", 0),
        ("archs/plamo3-dense", "plamo3.rope.dimension_count", "u32", 0),
        ("tiny/rwkv7", "rwkv7.attention.layer_norm_rms_epsilon", "f32", -1.0),
    ):
        if base == "tiny/gemma3":  # the window's number follows unless it has one of its own
            assert not said(base, put(key, kind, value)).ok
            assert said(base, put("gemma3.rope.dimension_count_swa", "u32", 16), put(key, kind, value)).ok
        else:
            assert said(base, put(key, kind, value)).ok, key


def test_mxfp4_is_no_name_of_a_model() -> None:
    model = from_source(built({"base": "tiny/qwen3", "ops": []}), strict=False)
    wide = [t.name for t in model.tensors.values() if t.shape[0] % 32 == 0]
    ops = [{"op": "ttype", "name": name, "type": 39} for name in wide]
    line = "llama_model_loader: unknown type mxfp4"
    assert said("tiny/qwen3", *ops).warnings[:1] == (line,)
    assert line not in said("tiny/qwen3", *ops[: len(ops) // 4]).warnings


def test_the_first_of_two_faults() -> None:
    model = from_source(built({"base": "tiny/qwen3", "ops": []}), strict=False)
    names = list(model.tensors)
    twice = {"op": "rename_tensor", "name": names[3], "to": names[0]}

    def odd(i: int) -> list[dict[str, Any]]:
        return [{"op": "shape", "name": names[i], "dims": [33]}, {"op": "ttype", "name": names[i], "type": 8}]

    assert "duplicate tensor name" in said("tiny/qwen3", twice, *odd(5)).first_error
    assert "not a multiple of block size" in said("tiny/qwen3", twice, *odd(2)).first_error


def test_keys_with_a_nul_are_cut() -> None:
    def insert(at: int, key: str, kind: str, value: object) -> dict[str, Any]:
        return {"op": "insert_kv", "at": at, "key": key, "type": kind, "value": value}

    assert said("tiny/qwen3", insert(999, "general.architecture\0x", "str", "foo")).ok
    first = said("tiny/qwen3", insert(0, "general.architecture\0x", "str", "foo")).first_error
    assert first == "llama_model_load: error loading model: unknown model architecture: 'foo'"
    alone = {"op": "rename", "key": "general.architecture", "to": "general.architecture\0"}
    assert said("tiny/qwen3", alone).ok
    refused = said("tiny/qwen3", insert(0, "tokenizer.ggml.tokens\0z", "u32", 3))
    assert refused.first_error == VOCABULARY + "invalid gguf type for tokenizer.ggml.tokens"
    stated = said("tiny/qwen3", insert(0, "general.alignment\0z", "u32", 3))
    assert stated.first_error == "gguf_init_from_reader: alignment 3 is not a power of 2"
    name = next(iter(from_source(built({"base": "tiny/qwen3", "ops": []}), strict=False).tensors))
    twice = {"op": "rename_tensor", "name": "output_norm.weight", "to": f"{name}\0x"}
    assert said("tiny/qwen3", twice).first_error.endswith(f"invalid model: tensor '{name}' is duplicated")
