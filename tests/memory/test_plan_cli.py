"""`gguftool plan` as somebody types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import GGUF
from tests.memory.giants import whole
from tests.memory.records import Record, records

MIB = 1 << 20
GIB = 1 << 30


def small(**keys: object) -> bytes:
    """A model of one layer that only has to be planned."""
    g = GGUF("llama").kv("llama.context_length", 4096).kv("llama.embedding_length", 256).kv("llama.block_count", 1)
    g.kv("llama.attention.head_count", 4).kv("llama.attention.head_count_kv", 2)
    for key, value in keys.items():
        g.kv(f"llama.{key}", value)
    return g.tensor("token_embd.weight", (256, 32)).tensor("output.weight", (256, 32)).bytes()


def test_json_of_exact_settings(cli, llama: Path):
    r = cli(
        "plan", llama, "--ctx", "32768", "--cache-type", "q8_0", "--parallel", "4", "--no-kv-unified",
        "--ubatch", "256", "--batch", "1024", "--flash-attn", "on", "--vram", "none",
        "--ram", "64GiB", "--format", "json",
    )  # fmt: skip
    assert r.code == 0
    j = r.json
    assert j["context"] == {
        "requested": 32768, "per_slot": 8192, "usable": 8192, "total": 32768, "trained": 131072, "slots": 4,
        "unified": False, "batch": 1024, "ubatch": 256,
    }  # fmt: skip
    # 32 layers x (K + V) x 8 heads x 128 in blocks of 32 elements and 34 bytes
    assert j["kv"]["bytes"] == 32 * 2 * (1024 // 32 * 34) * 32768
    assert j["kv"]["caches"] == [
        {"name": "full", "cells": 8192, "streams": 4, "layers": 32, "bytes": j["kv"]["bytes"],
         "k_bytes": j["kv"]["bytes"] // 2, "v_bytes": j["kv"]["bytes"] // 2}
    ]  # fmt: skip
    assert j["kv"]["bytes_per_token"] == 32 * 2 * 1088
    assert (j["compute"]["basis"], j["fits"], j["refused"]) == ("estimated", True, [])
    assert j["total"]["bytes"] == sum(d["total"] for d in j["devices"])
    for pair in (["-c", "32768"], ["-ctk", "q8_0"], ["-ctv", "q8_0"], ["-fa", "on"], ["-np", "4"], ["-ub", "256"]):
        at = j["command"].index(pair[0])
        assert j["command"][at : at + 2] == pair
    assert j["command"][:3] == ["llama-server", "-m", str(llama)]
    assert j["command"][-2:] == ["-lv", "4"]


def test_every_memory_class_through_the_command_line(cli, tmp_path: Path):
    """One record of each memory class, written as a file and planned by its exact settings."""
    chosen: dict[str, Record] = {}
    for r in records():
        if r.settings.parallel > 1 and r.raw["build"] == "b11739":
            chosen.setdefault(r.hp.facts.memory, r)
    assert len(chosen) >= 12
    for memory_class, r in chosen.items():
        g = GGUF(r.hp.arch)
        for key, value in r.meta.items():
            plain = isinstance(value, (bool, int, float, str)) or (isinstance(value, list) and value)
            if key.startswith(r.hp.arch + ".") and plain and not (isinstance(value, str) and value.startswith("<")):
                g.kv(key, value)
        path = tmp_path / f"{memory_class}.gguf"
        path.write_bytes(g.tensor("token_embd.weight", (32, 32)).bytes())
        s = r.settings
        found = cli(
            "plan", path, "--ctx", s.ctx, "--cache-type", f"{s.type_k}/{s.type_v}", "--parallel", s.parallel,
            "--kv-unified" if s.kv_unified else "--no-kv-unified", "--ubatch", s.ubatch, "--flash-attn", s.flash_attn,
            *(["--swa-full"] if s.swa_full else []), "--format", "json",
        ).json  # fmt: skip
        assert found["kv"]["bytes"] + found["state"]["bytes"] == r.raw["context"], r.label


def test_the_screen(cli, llama: Path):
    r = cli("plan", llama, "--ctx", "131072", "--vram", "16GiB", "--ram", "32GiB")
    assert r.code == 0
    for text in ("cache q8_0", "CUDA0", "exact", "estimated", "131,072", "how it came about", "llama-server -m"):
        assert text in r.out
    # the ways that fit have a row and a command each
    assert len(r.out.splitlines()) <= 44 + r.out.count("gguftool launch") + 3
    assert max(len(x) for x in r.out.splitlines()[:-1] if "gguftool " not in x) <= 120


def test_no_fit_is_exit_code_5_and_names_smaller_weights(cli, llama: Path):
    r = cli("plan", llama, "--vram", "none", "--ram", "4GiB", "--format", "json")
    assert r.code == 5
    assert r.json["ok"] is False
    assert r.json["fits"] is False
    smaller = r.json["smaller_weights"]
    assert [x["fits"] for x in smaller][:-1] == [False] * (len(smaller) - 1)
    assert smaller == sorted(smaller, key=lambda x: -x["weights"])
    assert all(x["weights"] < r.json["weights"]["tensors"] for x in smaller)


def test_slow_kernels_of_flash_attention_are_no_matter_without_it(cli, llama: Path):
    options = ("--cache-type", "q8_0/f16", "--vram", "24GiB")
    assert "vector kernel for q8_0-f16" in cli("plan", llama, *options).out
    off = cli("plan", llama, *options, "--flash-attn", "off")
    assert off.code == 0
    assert "vector kernel" not in off.out


def test_over_says_what_is_kept_free(cli, tmp_path: Path):
    """1 GiB holds it but for the reserve: who reads only "over" sees a total below the size of the device."""
    path = tmp_path / "small.gguf"
    path.write_bytes(small())
    options = ("--ctx", 256, "--vram", "1GiB", "--ram", "8GiB", "--gpu-layers", "all")
    tight = cli("plan", path, *options)
    assert tight.code == 5
    assert "1.0 GiB kept free (--reserve)" in tight.out
    assert cli("plan", path, *options, "--reserve", 0).code == 0


def test_on_a_bare_host_what_was_asked_for_stays(cli, llama: Path, monkeypatch: pytest.MonkeyPatch):
    """Nobody named a memory size: the numbers are those of the settings asked for, the search is a proposal."""
    from gguftool.run.devices import HostMemory

    monkeypatch.setattr("gguftool.run.devices.host_memory", lambda: HostMemory(16 * GIB, 14 * GIB))
    monkeypatch.setattr("gguftool.run.devices.devices", lambda tool: [])
    r = cli("plan", llama, "--ctx", "131072", "--format", "json")
    assert r.code == 0
    assert (r.json["kv"]["type_k"], r.json["kv"]["bytes"], r.json["fits"]) == ("f16", 16 * GIB, False)
    assert [x["what"] for x in r.json["steps"]][-2:] == ["cache type q8_0", "to get this"]
    named = cli("plan", llama, "--ctx", "131072", "--ram", "14GiB", "--format", "json")
    assert (named.code, named.json["kv"]["type_k"], named.json["fits"]) == (0, "q8_0", True)


def test_a_refusal_is_exit_code_1_in_llama_cpps_words(cli, tmp_path: Path):
    r = cli("plan", whole("deepseek-v3", tmp_path), "--cache-type", "q8_0/f16", "--ctx", 8192, "--format", "json")
    assert r.code == 1
    assert r.json["refused"] == ["model does not support different K (q8_0) and V (f16) cache types"]
    # 61 layers of K only, 576 wide
    assert r.json["kv"]["bytes"] == 61 * 576 // 32 * 34 * 8192


def test_the_context_is_the_files_as_for_a_launch(cli, llama: Path, tmp_path: Path):
    """What llama-server takes; one that nobody named gives way before anything else does."""
    assert cli("plan", llama, "--ram", "64GiB", "--format", "json").json["context"]["requested"] == 131072
    tight = cli("plan", llama, "--vram", "none", "--ram", "10GiB", "--format", "json").json
    assert tight["fits"] is True
    assert tight["kv"]["type_k"] == "f16"
    # 128 KiB of cache a token; 1 GiB is kept free.
    room = (9 << 30) - tight["weights"]["bytes"] - tight["compute"]["bytes"]
    assert 0 <= room // (128 << 10) - tight["context"]["requested"] < 2048
    named = cli("plan", llama, "--ctx", 0, "--vram", "none", "--ram", "10GiB", "--format", "json").json
    assert named["context"]["requested"] == 131072
    path = tmp_path / "small.gguf"
    path.write_bytes(small())
    assert cli("plan", path, "--format", "json").json["context"]["requested"] == 4096
    assert cli("plan", llama, "--ctx", "0", "--format", "json").json["context"]["requested"] == 131072


def test_the_files_own_record_is_the_default(cli, tmp_path: Path):
    path = tmp_path / "recorded.gguf"
    path.write_bytes(small(kv_cache_type="q8_0"))
    kv = cli("plan", path, "--format", "json").json["kv"]
    assert (kv["type_k"], kv["type_v"]) == ("q8_0", "q8_0")
    assert cli("plan", path, "--cache-type", "f16", "--format", "json").json["kv"]["type_k"] == "f16"


def test_parallel_auto_is_llama_servers_default(cli, gemma3: Path):
    """Its log at 32768: 96.00 and 37.50 MiB of cache, 235.16 MiB of weights, 4.00 MiB of output."""
    j = cli("plan", gemma3, "--ctx", "32768", "--parallel", "auto", "--format", "json").json
    assert {x["name"]: x["bytes"] / MIB for x in j["kv"]["caches"]} == {"full": 96.0, "window": 37.5}
    assert round(j["weights"]["tensors"] / MIB, 2) == 235.16
    assert j["output"]["bytes"] == 4 * MIB
    assert "-np" in j["command"]
    assert "-kvu" in j["command"]


def test_placement_options(cli, llama: Path):
    j = cli(
        "plan", llama, "--vram", "8GiB,8GiB", "--ram", "64GiB", "--gpu-layers", "20", "--tensor-split", "3,1",
        "--override-tensor", "ffn_up=CPU", "--no-kv-offload", "--format", "json",
    ).json  # fmt: skip
    assert j["placement"]["gpu_layers"] == 20
    assert j["placement"]["layer_devices"].count("CPU") == 13
    assert j["placement"]["layer_devices"].count("CUDA0") == 15
    assert [d["kv"] for d in j["devices"]] == [0, 0, j["kv"]["bytes"]]
    command = " ".join(j["command"])
    assert "-ngl 20 -ts 3,1" in command
    assert "-ot ffn_up=CPU" in command
    assert "-nkvo" in command
    assert "-fit off" in command


def test_rpc_hosts_come_first(cli, llama: Path):
    j = cli("plan", llama, "--rpc", "10.0.0.2:50052=6GiB", "--vram", "6GiB", "--ram", "64GiB", "--format", "json").json
    assert [d["name"] for d in j["devices"]] == ["RPC0", "CUDA0", "CPU"]
    at = j["command"].index("--rpc")
    assert j["command"][at + 1] == "10.0.0.2:50052"


def test_max_context(cli, llama: Path):
    j = cli(
        "plan", llama, "--max-context", "--cache-type", "f16", "--vram", "12GiB", "--ram", "64GiB", "--format", "json"
    )
    assert j.json["fits"] is True
    assert 32768 < j.json["context"]["requested"] < 131072
    assert j.json["context"]["requested"] % 256 == 0


def test_projector_goes_to_the_first_device(cli, llama: Path, tmp_path: Path):
    other = tmp_path / "mmproj.gguf"
    other.write_bytes(GGUF("clip").tensor("v.patch_embd.weight", (1024, 1024), "f16").bytes())
    j = cli("plan", llama, "--mmproj", other, "--vram", "24GiB", "--ram", "64GiB", "--format", "json").json
    assert [d["mmproj"] for d in j["devices"]] == [2 * MIB, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cache-type", "q6_K"], "not a cache type"),
        (["--vram", "lots"], "not a size"),
        (["--rpc", "host"], "HOST:PORT"),
        (["--gpu-layers", "some"], "expected a number"),
        (["--override-tensor", "x"], "REGEX=DEVICE"),
        (["--parallel", "none"], "expected a number or auto"),
        (["--parallel", "1000"], "out of range"),
        (["--tensor-split", "a,b"], "expected numbers"),
        (["--plot", "x.txt"], "a picture ends in"),
    ],
)
def test_wrong_options_say_what_is_right(cli, llama: Path, arguments: list[str], message: str):
    r = cli("plan", llama, *arguments)
    assert r.code == 2
    assert message in r.err


@pytest.mark.parametrize(("suffix", "magic"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("html", b"<!doctype html>")])
def test_plot(cli, llama: Path, tmp_path: Path, suffix: str, magic: bytes):
    pytest.importorskip("matplotlib")
    picture = tmp_path / f"memory.{suffix}"
    assert cli("plan", llama, "--vram", "16GiB", "--ram", "64GiB", "--plot", picture).code == 0
    assert picture.read_bytes().startswith(magic)
    if suffix == "svg":
        assert b"CUDA0" in picture.read_bytes() or picture.stat().st_size > 20_000


def test_ram_auto_is_what_is_free(cli, llama: Path):
    """Our own remedies say ``--ram auto``: the host's free memory counts as named."""
    r = cli("plan", llama, "--vram", "none", "--ram", "auto", "--format", "json")
    assert r.code in (0, 5), r.err
    (host,) = r.json["devices"]
    free = int(Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]) << 10
    assert abs(host["memory"] - free) < free // 2
    assert (r.code == 5) is (r.json["fits"] is False)


def test_an_adapter_is_no_model(cli, tmp_path: Path):
    path = tmp_path / "lora.gguf"
    g = GGUF("llama").kv("general.type", "adapter").kv("adapter.type", "lora")
    path.write_bytes(g.tensor("blk.0.attn_q.weight.lora_a", (32, 32)).bytes())
    r = cli("plan", path)
    assert r.code == 2
    assert "LoRA adapter" in r.err
    assert "--lora" in r.err


def test_an_architecture_nobody_knows(cli, tmp_path: Path):
    path = tmp_path / "new.gguf"
    path.write_bytes(GGUF("llama9").kv("llama9.context_length", 64).tensor("token_embd.weight", (32, 32)).bytes())
    r = cli("plan", path, "--format", "json")
    assert r.code == 1
    assert r.json["refused"] == ["unknown model architecture: 'llama9'"]


def test_the_command_names_the_first_shard(cli, tmp_path: Path):
    for no in (0, 1):
        g = GGUF("llama") if no == 0 else GGUF()
        if no == 0:
            g.kv("llama.context_length", 512).kv("llama.embedding_length", 32).kv("llama.block_count", 1)
        g.shard(no, 2, tensors=2).tensor(f"blk.0.w{no}.weight", (32, 32))
        (tmp_path / f"m-{no + 1:05}-of-00002.gguf").write_bytes(g.bytes())
    j = cli("plan", tmp_path / "m-00002-of-00002.gguf", "--format", "json").json
    assert j["command"][2] == str(tmp_path / "m-00001-of-00002.gguf")
    assert j["weights"]["tensors"] == 2 * 32 * 32 * 4


def test_a_remote_model_is_fetched_by_the_server_itself():
    from gguftool.run.planned import _source

    assert _source("hf://owner/repo:Q4_K_M", "x") == ["-hf", "owner/repo:Q4_K_M"]
    assert _source("hf://owner/repo/sub/m.gguf", "x") == ["-hf", "owner/repo", "-hff", "sub/m.gguf"]
    assert _source("https://host/m.gguf", "x") == ["-mu", "https://host/m.gguf"]
    assert _source("m.gguf", "m.gguf") == ["-m", "m.gguf"]


def test_a_hostile_name_cannot_act_on_the_terminal(cli, tmp_path: Path):
    path = tmp_path / "evil\x1b[2J.gguf"
    path.write_bytes(small())
    r = cli("plan", path)
    assert "\x1b" not in r.out


def test_the_library_call(llama: Path):
    import gguftool

    with gguftool.open(llama) as m:
        plan = gguftool.memory(m, context=32768, cache_type=("q8_0", "q8_0"))
        again = gguftool.memory(m, context=32768, cache_type=("q8_0", "q8_0"))
    assert plan.kv == again.kv == 32 * 2 * 1088 * 32768
    assert plan.fits is None


USUAL = (
    "import asyncio, ctypes, decimal, email.message, http.client, json, logging.config, sqlite3, tarfile, unittest, "
    "xml.dom.minidom, zipfile; json.loads(json.dumps(list(range(200000))))"
)
"""What a Python process does that reads its modules and a large file: 0.13 s of CPU where the plan takes 0.6."""


@pytest.mark.real
def test_speed(gemma3: Path):
    """The whole process on a file with 262,144 tokens, whose load is predicted, too, beside a usual one of Python.

    As CPU time in the same moment: 4 to 5 times as much, seven held. Seconds stand in ``./dev bench``.
    """
    import resource
    import subprocess
    import sys

    def spent(*args: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *args], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(spent("-m", "gguftool", "plan", str(gemma3)) / spent("-c", USUAL) for _ in range(4)) < 7
