"""``gguftool doctor``: what it finds, and traps laid on purpose."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gguftool.hub.stores import misplaced, stores
from gguftool.programs import everywhere, find
from gguftool.run.devices import amd, host_memory, kind_of, parse_devices
from gguftool.run.silent import silent_settings
from gguftool.run.traps import cuda_of, find_traps
from tests.run.test_args import helped

GIB = 1 << 30


def test_it_finds_the_real_server(cli) -> None:  # type: ignore[no-untyped-def]
    result = cli("doctor", "--format", "json")
    assert result.code == 0
    found = result.json
    programs = {p["name"]: p for p in found["programs"]}
    if find("llama-server") is None:
        pytest.skip("no llama-server on this machine")
    assert programs["llama-server"]["error"] is None
    assert programs["ggml-rpc-server"]["error"] is None
    assert found["packages"]["gguf"]
    assert found["memory"]["total"] > 0
    text = cli("doctor")
    assert "traps" in text.out
    assert programs["llama-server"]["path"] in text.out


def test_room_for_a_model(cli, smollm2) -> None:  # type: ignore[no-untyped-def]
    result = cli("doctor", smollm2, "--format", "json")
    assert result.code == 0
    model = result.json["model"]
    assert model["context"] == 8192
    assert model["fits"] is True
    assert model["total"] > smollm2.stat().st_size


def test_error_messages(cli) -> None:  # type: ignore[no-untyped-def]
    known = cli("doctor", "--error", "no lm runtime found for model format 'gguf'", "--format", "json")
    assert known.code == 0
    assert known.json["error"]["kind"] == "runtime-missing"
    piped = cli("doctor", "--error", "-", stdin="x\nerror: invalid argument: --mlock\n")
    assert piped.code == 0
    assert "--mlock" in piped.out
    unknown = cli("doctor", "--error", "the weather is bad")
    assert unknown.code == 1


def test_silent_settings(tmp_path: Path) -> None:
    config = tmp_path / "llama.cpp" / "config.ini"
    config.parent.mkdir()
    config.write_text("# mine\n[server]\nctx-size = 4096\napi-key = secret\n")
    env = {
        "XDG_CONFIG_HOME": str(tmp_path), "LLAMA_ARG_CACHE_TYPE_K": "q4_0", "LLAMA_ARG_NO_MMAP": "1",
        "LLAMA_API_KEY": "hunter2", "HOME": "/nonexistent", "PATH": "/bin",
    }  # fmt: skip
    found = {s.name: s for s in silent_settings(env, helped("b11434"), ["-c", "8192", "-m", "x"])}
    assert found["ctx-size"].overridden, "the command line says -c"
    assert found["ctx-size"].source.endswith("config.ini:3")
    assert not found["LLAMA_ARG_CACHE_TYPE_K"].overridden
    assert found["LLAMA_ARG_CACHE_TYPE_K"].value == "q4_0"
    assert found["LLAMA_API_KEY"].value == found["api-key"].value == "(set)"
    assert "PATH" not in found


def test_launch_shows_them(cli, smollm2, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("LLAMA_ARG_MAIN_GPU", "1")
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "512")
    result = cli("launch", smollm2, "--print", "--format", "json")
    silent = {s["name"]: s["overridden"] for s in result.json["silent"]}
    assert silent["LLAMA_ARG_MAIN_GPU"] is False
    assert silent["LLAMA_ARG_CTX_SIZE"] is True


def test_devices_as_llama_server_lists_them() -> None:
    text = (
        "ggml_cuda_init: found 1 CUDA devices:\n"
        "Available devices:\n"
        "  CUDA0: NVIDIA GeForce RTX 4090 (24217 MiB, 23800 MiB free)\n"
        "  Vulkan0: AMD Radeon RX 7900 XTX (RADV NAVI31) (24560 MiB, 24000 MiB free)\n"
        "  RPC0: 127.0.0.1:50061 (24105 MiB, 24105 MiB free)\n"
        "  CPU: AMD EPYC (24105 MiB, 24105 MiB free)\n"
    )
    found = parse_devices(text)
    assert [(d.name, d.kind, d.total >> 20, d.free >> 20) for d in found] == [
        ("CUDA0", "cuda", 24217, 23800),
        ("Vulkan0", "vulkan", 24560, 24000),
        ("RPC0", "rpc", 24105, 24105),
    ]
    assert found[1].about == "AMD Radeon RX 7900 XTX (RADV NAVI31)"
    assert parse_devices("Available devices:\n  (none)\n") == []
    assert [kind_of(n) for n in ("ROCm0", "Metal", "MTL0", "SYCL0", "Strange0")] == [
        "rocm", "metal", "metal", "sycl", "",
    ]  # fmt: skip


def test_memory_of_a_container(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       33554432 kB\nMemFree: 1 kB\nMemAvailable:   16777216 kB\n")
    whole = host_memory(str(meminfo), str(tmp_path / "none"))
    assert whole is not None
    assert (whole.total, whole.free, whole.limited) == (32 * GIB, 16 * GIB, False)
    group = tmp_path / "cgroup"
    group.mkdir()
    (group / "memory.max").write_text(f"{4 * GIB}\n")
    (group / "memory.current").write_text(f"{3 * GIB}\n")
    (group / "memory.stat").write_text(f"anon 1\ninactive_file {GIB}\n")
    limited = host_memory(str(meminfo), str(group))
    assert limited is not None
    assert (limited.total, limited.free, limited.limited) == (4 * GIB, 2 * GIB, True)
    (group / "memory.max").write_text("max\n")
    unlimited = host_memory(str(meminfo), str(group))
    assert unlimited is not None
    assert not unlimited.limited


def test_amd_cards(tmp_path: Path) -> None:
    device = tmp_path / "card1" / "device"
    device.mkdir(parents=True)
    (device / "mem_info_vram_total").write_text(f"{16 * GIB}\n")
    (device / "mem_info_vram_used").write_text(f"{GIB}\n")
    (tmp_path / "card1-DP-1").mkdir()
    [card] = amd(str(tmp_path))
    assert (card.kind, card.total, card.free) == ("rocm", 16 * GIB, 15 * GIB)


def test_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    monkeypatch.delenv("LLAMA_CACHE", raising=False)
    snapshot = tmp_path / "hub" / "models--a--b" / "snapshots" / "c"
    snapshot.mkdir(parents=True)
    (snapshot / "m.gguf").symlink_to(tmp_path / "gone")
    (snapshot / "n.gguf").write_bytes(b"GGUF1234")
    blobs = tmp_path / "ollama" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / ("sha256-" + "0" * 64)).write_bytes(b"GGUF")
    (blobs / ("sha256-" + "1" * 64)).write_bytes(b"{}")
    studio = tmp_path / ".lmstudio" / "models"
    (studio / "pub" / "repo").mkdir(parents=True)
    (studio / "pub" / "repo" / "ok.gguf").write_bytes(b"GGUF")
    (studio / "lost.gguf").write_bytes(b"GGUF")
    found = {s.kind: s for s in stores()}
    assert set(found) == {"Hugging Face", "Ollama", "LM Studio"}
    assert sorted((os.path.basename(m.opened), m.whole) for m in found["Hugging Face"].models) == [
        ("m.gguf", False),
        ("n.gguf", True),
    ]
    assert len(found["Ollama"].models) == 1
    assert [os.path.basename(m.path) for m in misplaced(found["LM Studio"])] == ["lost.gguf"]
    kinds = [t.kind for t in find_traps((), (), (), ("avx2",), list(found.values()), None)]
    assert "unfinished" in kinds
    assert "lmstudio-layout" in kinds


def test_a_processor_without_avx2() -> None:
    assert "no-avx2" in [t.kind for t in find_traps((), (), (), ("avx",), (), None)]
    assert "no-avx2" not in [t.kind for t in find_traps((), (), (), ("avx", "avx2"), (), None)]


def test_gpus_and_drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with an NVIDIA card, an old driver, and a CPU build: nvidia-smi is played, there is no GPU here."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text(
        '#!/bin/sh\ncase "$1" in\n'
        "--query-gpu*) echo '0, NVIDIA GeForce GTX 1080 Ti, 11264, 10000';;\n"
        "--query-compute-apps*) echo '812, /usr/bin/python3, 2048 MiB';;\n"
        "*) echo '| NVIDIA-SMI 535.54  Driver Version: 535.54  CUDA Version: 12.2 |';;\nesac\n"
    )
    server = tmp_path / "llama-server"
    server.write_text("#!/bin/sh\necho\n")
    for path in (smi, server):
        path.chmod(0o755)
    (tmp_path / "libggml-cuda.so").write_bytes(b"\x7fELF....libcudart.so.13\x00...")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert cuda_of(str(tmp_path)) == 13
    tool = next(everywhere("llama-server"))
    assert tool.path == str(server)
    found = {t.kind: t for t in find_traps([(tool, True)], (), (), ("avx2",), (), None)}
    assert "1080 Ti" in found["gpu-unused"].message
    assert "812" in found["gpu-shared"].message
    assert "CUDA 13" in found["driver-old"].message
    assert "12.2" in found["driver-old"].message


def test_a_program_that_does_not_run(cli, tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    broken = tmp_path / "llama-server"
    broken.write_text("#!/bin/sh\necho 'error while loading shared libraries: libfoo.so.1' >&2\nexit 127\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    result = cli("doctor", "--format", "json")
    first = result.json["programs"][0]
    assert first["path"] == str(broken)
    assert "libfoo" in first["error"]
    assert "broken-program" in [t["kind"] for t in result.json["traps"]]
    failed = cli("launch", tmp_path / "x.gguf", "--server", broken, "--format", "json")
    assert failed.code == 6
    assert "libfoo" in json.loads(failed.stdout)["errors"][0]["message"]


def test_a_named_server_must_be_there(cli, tmp_path) -> None:  # type: ignore[no-untyped-def]
    assert cli("launch", tmp_path / "x.gguf", "--server", tmp_path / "none").code == 2
