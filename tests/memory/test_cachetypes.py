"""Cache types: names, sizes, what llama.cpp refuses, what is slow."""

from __future__ import annotations

import pytest

from gguftool.errors import UsageError
from gguftool.facts.cachetypes import CACHE_TYPES, parse, recorded, refusals, shown, slow_pairs
from gguftool.facts.layers import layers, window
from gguftool.format.types import TENSOR_TYPE_BY_NAME
from tests.memory.test_kv import hparams

PLAIN = hparams("llama", block_count=2, embedding_length=256, attention__head_count=2)
HEADS_OF_80 = hparams("phi2", block_count=2, embedding_length=2560, attention__head_count=32)
MLA = hparams(
    "deepseek2",
    block_count=2,
    embedding_length=7168,
    attention__head_count=128,
    attention__head_count_kv=1,
    attention__key_length=576,
    attention__value_length=512,
    attention__key_length_mla=192,
    attention__value_length_mla=128,
)


def test_names_are_those_of_the_command_line():
    # common/arg.cpp:kv_cache_types, b11434
    assert list(CACHE_TYPES) == ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]


def test_sizes_are_those_of_the_tensor_types():
    for t in CACHE_TYPES.values():
        tensor_type = TENSOR_TYPE_BY_NAME[t.name.upper()]
        assert (t.block_size, t.block_bytes) == (tensor_type.block_size, tensor_type.block_bytes)
    assert CACHE_TYPES["q8_0"].bytes_per_element == 1.0625
    assert CACHE_TYPES["q8_0"].row_bytes(1024) == 1088


@pytest.mark.parametrize(
    ("text", "pair"), [("q8_0", ("q8_0", "q8_0")), ("Q8_0/q4_0", ("q8_0", "q4_0")), (" f16 / bf16 ", ("f16", "bf16"))]
)
def test_parse(text: str, pair: tuple[str, str]):
    assert parse(text) == pair
    assert parse(shown(*pair)) == pair


@pytest.mark.parametrize("text", ["q6_K", "q8", "", "f16/", "f16/f16/f16"])
def test_parse_refuses(text: str):
    with pytest.raises(UsageError):
        parse(text)


@pytest.mark.parametrize(
    ("hp", "k", "v", "flash", "reason"),
    [
        (PLAIN, "q8_0", "q4_0", "auto", None),
        (PLAIN, "q8_0", "f16", "off", None),
        (PLAIN, "f16", "q8_0", "off", "quantized V cache requires flash_attn to be enabled"),
        (PLAIN, "q6_K", "f16", "auto", 'error while handling argument "-ctk": Unsupported cache type: q6_K'),
        (MLA, "q8_0", "q8_0", "auto", None),
        (MLA, "q8_0", "f16", "auto", "model does not support different K (q8_0) and V (f16) cache types"),
        (HEADS_OF_80, "q8_0", "f16", "on", "K cache type q8_0 with block size 32 does not divide n_embd_head_k=80"),
        (HEADS_OF_80, "f16", "q4_0", "on", "V cache type q4_0 with block size 32 does not divide n_embd_head_v=80"),
        (HEADS_OF_80, "q8_0", "f16", "off", None),
        (hparams("grok", block_count=1, embedding_length=128, attention__head_count=1), "f16", "q8_0", "on",
         "quantized V cache requires flash_attn to be enabled"),
    ],
)  # fmt: skip
def test_refusals(hp, k: str, v: str, flash: str, reason: str | None):
    assert refusals(hp, k, v, flash) == ([] if reason is None else [reason])


def test_slow_pairs_on_a_stock_cuda_build():
    assert slow_pairs("q8_0", "q8_0") == slow_pairs("q4_0", "q4_0") == slow_pairs("f16", "f16") == []
    assert "q8_0-q4_0" in slow_pairs("q8_0", "q4_0")[0]
    assert "CPU" in slow_pairs("iq4_nl", "iq4_nl")[0]


def test_record_in_the_file():
    assert recorded(hparams("llama", kv_cache_type="q8_0/q4_0")) == ("q8_0", "q4_0")
    assert recorded(hparams("llama", kv_cache_type="nonsense")) is None
    assert recorded(PLAIN) is None


def test_windows():
    assert window(hparams("llama4", block_count=4)) == 8192
    assert window(hparams("llama4", block_count=4, attention__sliding_window=0)) == 0
    assert window(hparams("gemma2", block_count=4)) == 4096
    assert window(hparams("smallthinker", block_count=4, attention__sliding_window=77)) == 4096
    assert window(hparams("phi3", block_count=4, attention__sliding_window=2047)) == 0
    assert window(hparams("exaone4", block_count=30, attention__sliding_window=4096)) == 0
    assert window(hparams("exaone4", block_count=64, attention__sliding_window=1024)) == 1024


def test_window_layers_by_period_array_and_dense_first():
    gemma = hparams("gemma3", block_count=12, attention__sliding_window=512, attention__head_count=1)
    assert [x.index for x in layers(gemma) if not x.swa] == [5, 11]
    small = hparams("smallthinker", block_count=8, attention__sliding_window=1, attention__head_count=1)
    assert [x.index for x in layers(small) if not x.swa] == [0, 4]
    pattern = [True, False, True]
    said = hparams(
        "gemma3",
        block_count=3,
        attention__sliding_window=512,
        attention__head_count=1,
        attention__sliding_window_pattern=pattern,
    )
    assert [x.swa for x in layers(said)] == pattern
