"""The deploy fields: what is written for llama.cpp and what is recorded agree; what is bad for quality is asked."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from gguftool.edit.deploy import Wanted, deploy
from gguftool.errors import Refused, UsageError
from gguftool.format.header import Header
from gguftool.format.parse import parse_bytes
from gguftool.model import Model, from_source
from gguftool.source import Memory
from tests.build import GGUF, llama


def model(g: GGUF) -> Model:
    return from_source(Memory(g.bytes()), strict=False)


def values(g: GGUF, *, yes: bool = False, **wanted: Any) -> dict[str, object]:
    advice = deploy(model(g), Wanted(**wanted), yes=yes)
    return {op.key.partition(".")[2]: op.value for op in advice.operations}  # type: ignore[union-attr]


def notes(g: GGUF, *, yes: bool = False, **wanted: Any) -> str:
    return " | ".join(deploy(model(g), Wanted(**wanted), yes=yes).notes)


def test_lowering_the_context_is_plain():
    assert values(llama(), context_length=1024) == {"context_length": 1024}
    assert values(llama(), context_length=2048) == {"context_length": 2048}


def test_raising_the_context_beyond_training_asks():
    with pytest.raises(Refused, match="trained with 2,048"):
        values(llama(), context_length=4096)
    assert values(llama(), context_length=4096, yes=True) == {"context_length": 4096}
    for bad in (0, -5, 2**32):
        with pytest.raises(UsageError):
            values(llama(), context_length=bad)


def test_yarn_writes_all_that_belongs_together():
    expected = {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
        "rope.freq_scale": 0.25,
        "rope.scaling.original_context_length": 2048,
        "context_length": 8192,
    }
    assert values(llama(), rope_scaling="yarn", rope_scale_factor=4.0) == expected
    assert values(llama(), rope_scaling="yarn", context_length=8192) == expected
    assert values(llama(), rope_scaling="linear", context_length=8192) == {**expected, "rope.scaling.type": "linear"}
    with pytest.raises(UsageError, match="needs --rope-scale-factor"):
        values(llama(), rope_scaling="yarn")
    with pytest.raises(UsageError, match="reaches 4,096"):
        values(llama(), rope_scaling="yarn", rope_scale_factor=2.0, context_length=8192)


def test_yarn_twice_counts_from_the_trained_length():
    g = llama().kv("llama.rope.scaling.type", "yarn").kv("llama.rope.scaling.factor", 4.0)
    g.kv("llama.rope.scaling.original_context_length", 512)
    assert values(g, rope_scaling="yarn", rope_scale_factor=8.0)["context_length"] == 4096
    assert values(g, context_length=2048) == {"context_length": 2048}
    with pytest.raises(Refused):
        values(g, context_length=2100)


def test_freq_scale_is_written_as_llama_cpp_reads_it():
    """llama.cpp takes 1 / rope.scaling.factor and reads no rope.freq_scale. `none` would block a later --rope-scale."""
    assert values(llama(), rope_freq_scale=1.0) == {
        "rope.scaling.type": "linear",
        "rope.scaling.factor": 1.0,
        "rope.freq_scale": 1.0,
    }
    half = values(llama(), rope_freq_scale=0.5)
    assert half["rope.scaling.factor"] == 2.0
    assert half["rope.freq_scale"] == 0.5
    assert half["rope.scaling.original_context_length"] == 2048
    assert half["rope.scaling.type"] == "linear"
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(UsageError):
            values(llama(), rope_freq_scale=bad)
    with pytest.raises(Refused):
        values(llama(), rope_freq_scale=2.0)
    with pytest.raises(UsageError, match="not inverse"):
        values(llama(), rope_freq_scale=0.5, rope_scale_factor=4.0)


def test_scaling_none():
    got = values(llama(), rope_scaling="none")
    assert (got["rope.scaling.type"], got["rope.scaling.factor"], got["rope.freq_scale"]) == ("none", 1.0, 1.0)


def test_rope_where_there_is_none():
    mamba = llama(arch="mamba")
    assert "never applies RoPE" in notes(mamba, rope_freq_base=1e6)
    with pytest.raises(Refused, match="never applies RoPE"):
        values(mamba, rope_scaling="yarn", rope_scale_factor=2.0)


def test_rope_base():
    assert values(llama(), rope_freq_base=1e6) == {"rope.freq_base": 1e6}
    window = llama(arch="gemma3").kv("gemma3.attention.sliding_window", 512)
    assert "sliding-window layers of gemma3 keep 10000" in notes(window, rope_freq_base=1e6)
    # without the key llama.cpp switches the window off, and every layer takes the base
    assert "sliding-window layers" not in notes(llama(arch="gemma3"), rope_freq_base=1e6)
    for bad in (0.0, -1.0, math.nan):
        with pytest.raises(UsageError):
            values(llama(), rope_freq_base=bad)


def test_glm_dsa_changes_its_cache_at_a_million_tokens():
    g = llama(arch="glm-dsa").replace("glm-dsa.context_length", 1 << 20)
    with pytest.raises(Refused, match="layer pattern"):
        values(g, context_length=131072)
    assert values(g, context_length=131072, yes=True) == {"context_length": 131072}
    typed = g.kv("glm-dsa.attention.indexer.types", [1], "[i32]")
    assert values(typed, context_length=131072) == {"context_length": 131072}


HEAD_64 = {"llama.attention.key_length": 64, "llama.attention.value_length": 64}


def wide() -> GGUF:
    g = llama()
    for key, value in HEAD_64.items():
        g.kv(key, value)
    return g


def test_kv_cache_type():
    assert values(wide(), kv_cache_type=("q8_0", "q8_0")) == {"kv_cache_type": "q8_0"}
    assert values(wide(), kv_cache_type=("q8_0", "q4_0")) == {"kv_cache_type": "q8_0/q4_0"}
    assert "-ctk q8_0 -ctv q4_0" in notes(wide(), kv_cache_type=("q8_0", "q4_0"))
    assert "kernel" in notes(wide(), kv_cache_type=("q8_0", "q4_0"))
    assert "not by llama.cpp" in notes(wide(), kv_cache_type=("f16", "f16"))
    with pytest.raises(UsageError, match="not a cache type"):
        values(wide(), kv_cache_type=("q6_K", "q6_K"))


def test_kv_cache_type_that_the_model_cannot_have():
    """Head size 16 does not divide into blocks of 32: llama.cpp would refuse at start."""
    with pytest.raises(Refused, match="does not divide n_embd_head_k=16"):
        values(llama(), kv_cache_type=("q8_0", "q8_0"))
    assert values(llama(), kv_cache_type=("q8_0", "q8_0"), yes=True) == {"kv_cache_type": "q8_0"}
    assert values(llama(), kv_cache_type=("f16", "bf16")) == {"kv_cache_type": "f16/bf16"}
    grok = wide().replace("general.architecture", "grok")
    grok = GGUF("grok").kv("grok.block_count", 1).kv("grok.embedding_length", 64).kv("grok.attention.head_count", 1)
    with pytest.raises(Refused, match="flash_attn"):
        values(grok.kv("grok.context_length", 10), kv_cache_type=("q8_0", "q8_0"))


@pytest.mark.parametrize(("bias", "warned"), [(60.0, True), (2.0, False)])
def test_large_key_biases(bias: float, warned: bool):
    import struct

    g = wide().tensor("blk.0.attn_k.bias", (8,), "f32", struct.pack("<8f", *[bias] * 8))
    assert ("biases up to" in notes(g, kv_cache_type=("q4_0", "q4_0"))) == warned
    assert "biases" not in notes(g, kv_cache_type=("q8_0", "q8_0"))


def test_no_architecture():
    with pytest.raises(UsageError, match=r"no general\.architecture"):
        values(GGUF().kv("general.name", "x").tensor("t", (4,)), context_length=10)


def edited(path: Path) -> Header:
    return parse_bytes(path.read_bytes())


def test_on_the_command_line(tmp_path: Path, cli):
    path = wide().write(tmp_path / "m.gguf")
    result = cli("fix", path, "--rope-scaling", "yarn", "--rope-scale-factor", "2", "--kv-cache-type", "Q8_0")
    assert result.code == 0, result.err
    h = edited(path)
    assert h.get("llama.context_length").value == 4096
    assert h.get("llama.rope.scaling.type").value == "yarn"
    assert h.get("llama.rope.scaling.factor").type_name == "f32"
    assert h.get("llama.rope.scaling.original_context_length").type_name == "u32"
    assert h.get("llama.kv_cache_type").value == "q8_0"
    refused = cli("fix", path, "--context-length", "1000000")
    assert refused.code == 4
    assert "--rope-scaling yarn" in refused.err
