"""The real library's own answers: what it lays out is what we plan (`xllamacpp`, b11549, no_alloc)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gguftool.api.measured import parse_fit_params
from gguftool.errors import ToolFailed
from gguftool.memory.plan import memory
from gguftool.memory.settings import Settings
from gguftool.model import open_model
from gguftool.run.measure import Ask, measure
from gguftool.run.measurer import available
from tests.memory.giants import NAMES, giant, whole

MIB = 1 << 20
pytestmark = pytest.mark.oracle
needs_library = pytest.mark.skipif(not available(), reason="xllamacpp in the pinned version is not installed")

ASKS = [
    Ask(8192),
    Ask(32768, "q8_0", "q8_0", n_seq_max=4, kv_unified=True, n_outputs_max=4),
    Ask(16384, n_seq_max=2, n_ubatch=256, n_outputs_max=2, flash_attn="on"),
]


def settings(a: Ask) -> Settings:
    return Settings(a.n_ctx, a.type_k, a.type_v, a.n_seq_max, a.kv_unified, a.n_ubatch, a.n_batch, a.flash_attn)


@needs_library
@pytest.mark.real
def test_gemma3_270m(gemma3: Path):
    """Weights, caches and compute buffers of a real file; the server's log says 27.28 and 52.78 MiB for two of them."""
    asks = [
        Ask(8192),
        Ask(32768, n_seq_max=4, kv_unified=True, n_outputs_max=4),
        Ask(32768, "q8_0", "q4_0", n_seq_max=4, kv_unified=True, n_outputs_max=4),
        Ask(8192, n_seq_max=4, n_outputs_max=4),
        Ask(8192, n_seq_max=4, kv_unified=True, n_outputs_max=4, swa_full=True),
        Ask(8192, flash_attn="off"),
    ]
    with open_model(gemma3) as m:
        for ask, real in zip(asks, measure(str(gemma3), asks), strict=True):
            plan = memory(m, settings=replace(settings(ask), swa_full=ask.swa_full))
            assert plan.placed.buffers == {k: v["model"] for k, v in real.buffers.items() if v["model"]}
            assert plan.cache.bytes == real.total("context")
            assert plan.compute == pytest.approx(real.total("compute"), rel=0.035)


@needs_library
@pytest.mark.parametrize("name", NAMES)
def test_giants_from_their_headers(name: str, tmp_path: Path):
    """Weights and caches to the byte, compute within 5 % (14 % with a state of every slot), for shapes up to 378 GB."""
    m = giant(name)
    for ask, real in zip(ASKS, measure(str(whole(name, tmp_path)), ASKS), strict=True):
        plan = memory(m, settings=settings(ask))
        assert plan.placed.buffers == {k: v["model"] for k, v in real.buffers.items() if v["model"]}
        assert plan.cache.bytes == real.total("context"), ask
        assert plan.compute == pytest.approx(real.total("compute"), rel=0.14 if plan.cache.state else 0.05), ask


@needs_library
def test_a_refusal_has_its_reason(tmp_path: Path):
    (answer,) = measure(str(whole("deepseek-v3", tmp_path)), [Ask(4096, "q8_0", "f16")])
    assert answer.buffers is None
    wanted = "model does not support different K (q8_0) and V (f16) cache types"
    assert any(wanted in line for line in answer.log)
    plan = memory(giant("deepseek-v3"), 4096, ("q8_0", "f16"))
    assert plan.refused == (wanted,)


@needs_library
def test_a_file_that_does_not_load_is_an_error(tmp_path: Path):
    path = tmp_path / "cut.gguf"
    path.write_bytes(b"GGUF" + b"\x03" + b"\x00" * 11)
    with pytest.raises(ToolFailed):
        measure(str(path), [Ask(4096)])


@needs_library
def test_an_abort_of_the_library_ends_the_child_only(tmp_path: Path):
    """An unknown RoPE scaling type makes llama.cpp abort the process (load-time GGML_ASSERT)."""
    from tests.build import GGUF

    g = GGUF("llama").kv("llama.context_length", 32).kv("llama.embedding_length", 32).kv("llama.block_count", 1)
    path = tmp_path / "abort.gguf"
    path.write_bytes(g.kv("llama.rope.scaling.type", "dynamic").bytes())
    with pytest.raises(ToolFailed, match="ended"):
        measure(str(path), [Ask(32)])


@needs_library
def test_the_host_can_be_told_not_to_rearrange(tmp_path: Path):
    path = str(whole("llama-3.1-8b", tmp_path))
    (answer,) = measure(path, [Ask(4096)], repack=False)
    assert "CPU_REPACK" not in answer.buffers


def test_without_the_library(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gguftool.run.measure.available", lambda: False)
    with pytest.raises(ToolFailed, match="not installed"):
        measure("x.gguf", [Ask(4096)])


def test_output_of_fit_params():
    # a real line of b11434 for gemma-3-270m on the CPU; and one with devices under their own names
    assert parse_fit_params("Host 222 10 525 \n", []) == {
        "CPU": {"model": 222 * MIB, "context": 10 * MIB, "compute": 525 * MIB}
    }
    found = parse_fit_params("ROCm0 100 20 3\nROCm1 90 10 2\nHost 5 0 1\n", ["CUDA0", "CUDA1"])
    assert {k: v["compute"] // MIB for k, v in found.items()} == {"CUDA0": 3, "CUDA1": 2, "CPU": 1}
    assert parse_fit_params("error: nothing", []) is None
