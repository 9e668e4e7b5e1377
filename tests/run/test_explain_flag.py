"""Whose an option, a build switch or a variable is; held against the sources' own tables and the recorded help."""

from __future__ import annotations

import pytest

from gguftool.facts.data import load
from gguftool.run import tools
from gguftool.run.capabilities import known
from gguftool.run.explained import explain_flag
from gguftool.run.flags import foreign, substitutes

SERVER, CLI = "llama-server", "llama-cli"


def test_the_options_read_from_the_source_are_those_of_the_help() -> None:
    """The recorded `llama-server --help` of b11434 lists what `arg.cpp` says of the set SERVER."""
    told, read = known(), tools.programs()[SERVER]
    assert set(told.by_name) == set(read.by_name)
    for name, option in told.by_name.items():
        other = read.by_name[name]
        assert (bool(option.value), option.env) == (bool(other.value), other.env), name


@pytest.mark.parametrize(
    ("program", "has", "lacks"),
    [
        ("llama-quantize", "--imatrix --pure --tensor-type --allow-requantize --keep-split --dry-run", "-m --ctx-size"),
        ("llama-gguf-split", "--split --merge --split-max-size --split-max-tensors --no-tensor-first-split", "-m"),
        ("llama-bench", "-m -p -n -pg -ctk -fa -lm -r -o --n-depth", "--temp --port"),
        ("llama-perplexity", "-m -f --chunks --hellaswag --kl-divergence", "--port"),
        ("llama-imatrix", "-o --chunks --process-output", "--port"),
        ("llama-cli", "-p -f -sys --color -st", "--port --metrics"),
        ("llama-completion", "-cnv -no-cnv -i --prompt-cache", "--port"),
        ("llama-mtmd-cli", "--mmproj --image --audio", "--port"),
        ("llama-fit-params", "-m -c -ngl", "--port"),
        ("llama-tokenize", "-p -f --ids", "--port"),
        ("llama-embedding", "--pooling --embd-output-format", "--port"),
        ("llama-export-lora", "--lora -o", "--port"),
        ("ggml-rpc-server", "-H -p -d -c -t", "-m"),
        ("llama-gguf-hash", "--sha256 --xxh64 --uuid --check", "-m"),
        ("convert_hf_to_gguf.py", "--outtype --outfile --remote --mmproj", "--kv-cache-type"),
    ],
)
def test_what_each_program_takes(program: str, has: str, lacks: str) -> None:
    """From the `--help` of the programs of b11434 and the sources of those that print none."""
    takes = tools.programs()[program]
    assert [n for n in has.split() if not takes.takes(n)] == []
    assert [n for n in lacks.split() if takes.takes(n)] == []


@pytest.mark.parametrize(
    ("flag", "kind", "whose", "becomes"),
    [
        ("GGML_CUDA", "switch", "build", "-DGGML_CUDA=ON"),
        ("-DGGML_CUDA=ON", "switch", "build", "-DGGML_CUDA=ON"),
        ("GGML_CUDA_FA_ALL_QUANTS", "switch", "build", "-DGGML_CUDA_FA_ALL_QUANTS=ON"),
        ("GGML_CUDA_FA_QUANTS", "switch", "build", "-DGGML_CUDA_FA_QUANTS=VALUE"),
        ("CMAKE_CUDA_ARCHITECTURES", "switch", "CMake", "-DCMAKE_CUDA_ARCHITECTURES=VALUE"),
        ("LLAMA_ARG_CTX_SIZE", "variable", SERVER, ""),
        ("LLAMA_ARG_CACHE_TYPE_K=q8_0", "variable", SERVER, ""),
        ("LLAMA_ARG_NO_MMPROJ_AUTO", "variable", SERVER, ""),
        ("GGML_CUDA_ENABLE_UNIFIED_MEMORY", "variable", "ggml-cuda", ""),
        ("GGML_VK_VISIBLE_DEVICES", "variable", "ggml-vulkan", ""),
        ("LLAMA_CACHE", "variable", "common", ""),
        ("--outtype", "option", "convert_hf_to_gguf.py", ""),
        ("--outfile", "option", "convert_hf_to_gguf.py", ""),
        ("--imatrix", "option", "llama-quantize", ""),
        ("--pure", "option", "llama-quantize", ""),
        ("--tensor-type", "option", "llama-quantize", ""),
        ("--split-max-size", "option", "llama-gguf-split", ""),
        ("-p", "option", CLI, ""),
        ("--prompt", "option", CLI, ""),
        ("-f", "option", CLI, ""),
        ("-cnv", "option", "llama-completion", ""),
        ("--color", "option", CLI, ""),
        ("--chunks", "option", "llama-perplexity", ""),
        ("-fa", "option", SERVER, ""),
    ],
)
def test_what_llama_cpp_has_exists(flag: str, kind: str, whose: str, becomes: str) -> None:
    a = explain_flag(flag)
    assert (a.exists, a.kind, a.becomes) == (True, kind, becomes)
    assert whose in a.whose


@pytest.mark.parametrize(
    ("flag", "whose", "becomes"),
    [
        ("--type_k", "llama-cpp-python", "-ctk VALUE"),
        ("n_ctx", "llama-cpp-python", "-c VALUE"),
        ("OLLAMA_KV_CACHE_TYPE", "Ollama", "-ctk VALUE -ctv VALUE"),
        ("OLLAMA_FLASH_ATTENTION", "Ollama", "-fa on"),
        ("OLLAMA_NUM_PARALLEL=4", "Ollama", "-np VALUE"),
        ("num_ctx", "Ollama", "-c VALUE"),
        ("num_gpu", "Ollama", "-ngl VALUE"),
        ("CUDA_VISIBLE_DEVICES", "NVIDIA's CUDA", ""),
        ("HSA_OVERRIDE_GFX_VERSION", "AMD's ROCm", ""),
        ("HF_HOME", "Hugging Face's libraries", ""),
        ("-mla", "ik_llama.cpp", ""),
        ("-amb", "ik_llama.cpp", ""),
        ("-fmoe", "ik_llama.cpp", ""),
        ("-rtr", "ik_llama.cpp", ""),
        ("-ser", "ik_llama.cpp", ""),
        ("--contextsize", "koboldcpp", "-c VALUE"),
        ("--quantkv", "koboldcpp", "-ctk VALUE -ctv VALUE"),
        ("--max-model-len", "vLLM", "-c VALUE"),
        ("contextLength", "LM Studio", "-c VALUE"),
        ("turbo4", "TheTom's llama-cpp-turboquant", ""),
        ("--nobrowser", "llamafile", ""),
    ],
)
def test_what_is_of_others_is_said_to_be(flag: str, whose: str, becomes: str) -> None:
    a = explain_flag(flag)
    assert (a.exists, a.whose, a.becomes) == (False, whose, becomes)


@pytest.mark.parametrize(
    ("flag", "becomes"),
    [
        ("LLAMA_CUDA=1", "-DGGML_CUDA=ON"), ("LLAMA_CUBLAS", "-DGGML_CUDA=ON"), ("-DLLAMA_CUBLAS=ON", "-DGGML_CUDA=ON"),
        ("LLAMA_BLAS=1", "-DGGML_BLAS=ON"), ("LLAMA_METAL", "-DGGML_METAL=ON"), ("LLAMA_HIPBLAS", "-DGGML_HIP=ON"),
        ("LLAMA_VULKAN", "-DGGML_VULKAN=ON"), ("LLAMA_AVX2", "-DGGML_AVX2=ON"), ("LLAMA_KV_CACHE=1", ""),
    ],
)  # fmt: skip
def test_old_switches_of_the_build(flag: str, becomes: str) -> None:
    a = explain_flag(flag)
    assert (a.exists, a.kind, a.becomes) == (False, "switch", becomes)


def test_what_is_not_known_is_not_denied(cli) -> None:  # type: ignore[no-untyped-def]
    for flag in ("--frobnicate-everything", "GGML_FROBNICATE"):
        text = cli("explain", f"--flag={flag}").out
        assert "not known" in text
        assert "programs known here" in text
        assert "leave it out" not in text
    for flag in ("GGML_CUDA", "--imatrix", "OLLAMA_HOST", "-mla", "num_ctx"):
        text = cli("explain", f"--flag={flag}").out
        assert "leave it out" not in text
        assert "no option of llama.cpp" not in text
    assert cli("explain", "--flag=GGML_CUDA", "--format", "json").json["kind"] == "switch"


def test_every_row_names_an_owner_and_a_right_option() -> None:
    for row in foreign()["names"]:
        assert row["of"] in foreign()["owners"], row
        for word in (row.get("becomes") or "").split():
            assert not word.startswith("-") or known().takes(word), row
    for name, found in substitutes().items():
        for word in (found.becomes or "").split():
            assert not word.startswith("-") or known().takes(word), name


def test_the_switches_are_of_the_build_of_the_facts() -> None:
    table = load("switches.json")
    assert f"b{known().build}" in table["source"]
    assert {"GGML_CUDA", "GGML_VULKAN", "LLAMA_OPENSSL", "GGML_SCHED_MAX_COPIES"} <= set(table["switches"])
    assert table["renamed"]["LLAMA_CUBLAS"] == {"now": "GGML_CUDA", "refused": True}
