"""What articles say, as docs/myths.md has it, and what the program answers to each, typed as it stands there.

The table is that of people who followed three guides on long contexts and quantised caches: what they paste, and the
words that they need.
"""

from __future__ import annotations

import pytest

from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "myths.md").read_text()
IMAGE = "ghcr.io/ggml-org/llama.cpp:server"
# what is typed -> words of the answer, words of the page
ANSWERS: tuple[tuple[tuple[str, ...], tuple[str, ...], str], ...] = (
    (("compat", "model.gguf", "--build", "v0.3.1"), ("--llama-cpp-python 0.3.1",), "v0.3.1"),
    (("explain", "--flag=--kv-cache-block-size"), ("belongs to its type", "leave it out"), "18 bytes for 32 numbers"),
    (("launch", "--translate", "./main -m model.bin -c 32768 --ctk q4_0"), ("-ctk q4_0", "older than GGUF"), ".bin"),
    (("doctor", "--error", "error: invalid kv cache type q4_0"), ("Unsupported cache type",), "invalid kv cache"),
    (("explain", "--flag=LLAMA_CUDA"), ("-DGGML_CUDA=ON",), "LLAMA_CUDA=1"),
    (("explain", "--flag=LLAMA_BLAS"), ("-DGGML_BLAS=ON",), "LLAMA_BLAS=1"),
    (("explain", "--flag=LLAMA_KV_CACHE"), ("never existed",), "LLAMA_KV_CACHE"),
    (("launch", "--translate", "LLAMA_CUDA=1 make"), ("cmake -B build",), "cmake -B build"),
    (("launch", "--translate", "python convert.py m --kv-cache-type q4_0"), ("`gguftool convert",), "convert.py"),
    (("launch", "--translate", "gguf-dump model.gguf | grep kv_cache"), ("dump --keys '*kv_cache*'",), "gguf-dump"),
    (("launch", "--translate", "./main --help | grep ctk"), ("--help | grep ctk",), "./main --help"),
    (("doctor", "--error", "KV cache type: q4_0"), ("No llama.cpp prints this",), "KV cache type: q4_0"),
    (("doctor", "--error", "KV cache size: 16384"), ("No llama.cpp prints this",), "KV cache size: 16384"),
    (("launch", "--translate", "file model.gguf"), ("dump --overview",), "`file`"),
    (("launch", "--translate", "free -h"), ("gguftool doctor",), "`free`"),
    (("launch", "--translate", "nvidia-smi --gpu-reset"), ("as soon as the program",), "--gpu-reset"),
    (("launch", "--translate", "nvidia-smi -l 1"), ("--watch",), "nvidia-smi -l 1"),
    (("launch", "--translate", f"docker run --gpus all {IMAGE} -m m"), ("docker run --gpus all",), "Two programs"),
    (("explain", "--flag=-DCMAKE_CUDA_ARCHITECTURES=89"), ("switch of CMake", "RTX 40"), "CMAKE_CUDA_ARCHITECTURES"),
    (("explain", "--flag=-ub"), ("Compute buffers grow with it",), "A smaller `-ub`"),
    (("doctor", "--error", "failed to open GGUF file '模型/测试.gguf'"), ("cannot be opened",), "Chinese characters"),
)  # fmt: skip


@pytest.mark.parametrize(("typed", "words", "page"), ANSWERS, ids=lambda value: str(value)[:40])
def test_what_the_articles_say_is_answered(cli, smollm2, monkeypatch, typed, words, page) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("COLUMNS", "200")
    result = cli(*(smollm2 if word == "model.gguf" else word for word in typed))
    assert result.code in (0, 1, 2), result.out + result.err
    said = " ".join((result.out + result.err).split())
    for word in words:
        assert word in said
    assert page in PAGE


def test_the_whole_command_of_the_article(cli) -> None:  # type: ignore[no-untyped-def]
    """With comments behind backslashes and a value that the shell makes, as it is printed there."""
    pasted = "./main \\\n --model m.gguf \\\n -c 32768 \\  # long\n --ctk q4_0 \\\n --threads $(nproc) --flash-attn"
    result = cli("launch", "--translate", pasted)
    assert result.code == 0
    last = result.out.strip().splitlines()[-1]
    assert last.split("llama-server")[-1].startswith(
        " --model m.gguf -c 32768 -ctk q4_0 --threads $(nproc) --flash-attn on"
    )


def test_a_speed_is_told_for_a_card_that_is_named(cli, smollm2) -> None:  # type: ignore[no-untyped-def]
    result = cli("plan", smollm2, "--vram", "16GiB", "--bandwidth", "CUDA0=RTX 4090")
    assert "tokens/s" in result.out


@pytest.mark.parametrize(
    "words", ["6 tokens a second", "grows exponentially", "Garbled text", "bisecting", "zero point"]
)
def test_what_no_command_answers_the_page_does(words: str) -> None:
    assert words in PAGE
