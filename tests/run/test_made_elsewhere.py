"""Error lines about files of other programs: the program is named, and nobody is sent for a newer llama.cpp in vain.

The lines are those of llama.cpp b11434 (`gguf.cpp`, `llama-model.cpp`, `llama-model-loader.cpp`).
"""

from __future__ import annotations

import pytest

from gguftool.run.diagnose import explain_line

INVALID = "gguf_init_from_reader: tensor 'output.weight' has invalid ggml type {}. should be in [0, {})"
UNKNOWN = "llama_model_load: error loading model: unknown model architecture: '{}'"
LINES = [
    (INVALID.format(139, 43), "IQ4_K of ik_llama.cpp", "ik_llama.cpp"),
    (INVALID.format(142, 43), "PQ2_0 of PrismML's llama.cpp", "gguftool dump MODEL"),
    (INVALID.format(100, 43), "Q4_0_ROCMFP4 of ROCmFPX", "ROCmFPX"),
    (UNKNOWN.format("mllama"), "an architecture of Ollama", "ollama"),
    (UNKNOWN.format("flux"), "ComfyUI", "ComfyUI"),
    (UNKNOWN.format("kokoro"), "TTS.cpp", "TTS.cpp"),
    ("llama_model_load: error loading model: missing tensor 'blk.0.ffn_down_exps.weight'", "each expert", "newer file"),
    ("check_tensor_dims: tensor 'blk.0.ffn_gate_exps.weight' not found", "each expert", "convert it again"),
    ("tensor 'a' of type 31 (TYPE_Q4_0_4_4 REMOVED, use Q4_0 with runtime repacking) has 64 elements per row, not a "
     "multiple of block size (0)", "removed in December 2024", "Q4_0"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "cause", "remedy"), LINES)
def test_the_program_is_named(line: str, cause: str, remedy: str) -> None:
    found = explain_line(line)
    assert found is not None
    assert cause in found.cause
    assert remedy in found.remedy
    assert "newer llama.cpp" not in found.remedy


@pytest.mark.parametrize("line", [INVALID.format(42, 42), INVALID.format(77, 43), UNKNOWN.format("llama9")])
def test_what_may_be_newer_stays_so(line: str) -> None:
    """42 is llama.cpp's own Q2_0, which builds before July 2026 do not have."""
    found = explain_line(line)
    assert found is not None
    assert "newer llama.cpp" in found.remedy
