"""What stops a launch before anything is started; nothing here starts a server."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gguftool import edit
from gguftool.errors import UsageError
from gguftool.model import from_source
from gguftool.run.capabilities import known
from gguftool.run.devices import FoundDevice, HostMemory
from gguftool.run.engine import Engine
from gguftool.run.launch import LaunchPlan, plan_launch
from gguftool.run.options.kinds import rpc
from gguftool.run.wishes import RpcServer, Wishes
from gguftool.source import Memory
from tests.build import GGUF
from tests.run.test_args import OLD

MIB = 1 << 20
GPU = FoundDevice("CUDA0", "cuda", "a card", 24 << 30, 23 << 30, "test")
HOST = HostMemory(32 << 30, 30 << 30)


def model(arch: str = "llama", *, head: int = 64, heads: int = 4, context: int = 4096, **more: object) -> GGUF:
    g = GGUF().kv("general.architecture", arch).kv(f"{arch}.context_length", context).kv(f"{arch}.block_count", 2)
    g = g.kv(f"{arch}.embedding_length", head * heads).kv(f"{arch}.attention.head_count", heads)
    for key, value in more.items():
        g = g.kv(f"{arch}.{key.replace('__', '.')}", value)
    return g.tensor("token_embd.weight", (head * heads, 32), "f32")


def planned(g: GGUF, wishes: Wishes | None = None, **kwargs: object) -> LaunchPlan:
    return plan_launch(from_source(Memory(g.bytes(), "/m.gguf")), wishes or Wishes(), **kwargs)  # type: ignore[arg-type]


def stopped(plan: LaunchPlan) -> list[tuple[str, str]]:
    return [(o.where, o.severity) for o in plan.obstacles]


def test_a_good_one() -> None:
    plan = planned(model(), Wishes(ctx=2048, cache_type=("q8_0", "q8_0")), host=HOST)
    assert stopped(plan) == []
    # 2 layers, 4 heads of 64, K and V, 2048 cells, 34 bytes for 32 elements
    assert plan.expected.kv_bytes == 2 * 4 * 64 * 2 * 2048 * 34 // 32
    assert plan.expected.flash_attn == "on", "a quantised V switches it on"
    assert plan.argv[:5] == ["llama-server", "-m", "/m.gguf", "-c", "2048"]


def test_the_files_record_decides_unless_the_user_does() -> None:
    recorded = model(kv_cache_type="q8_0/q4_0")
    assert planned(recorded).wishes.cache_type == ("q8_0", "q4_0")
    assert planned(recorded, Wishes(cache_type=("f16", "f16"))).wishes.cache_type == ("f16", "f16")
    odd = planned(model(kv_cache_type="q6_K"))
    assert odd.wishes.cache_type == ("f16", "f16")
    assert any("q6_K" in note for note in odd.notes)


@pytest.mark.parametrize(
    ("g", "wishes", "words"),
    [
        (model(), Wishes(cache_type=("q8_0", "q8_0"), flash_attn="off"), "quantized V cache requires flash_attn"),
        (model(head=80), Wishes(cache_type=("q8_0", "q8_0")), "does not divide n_embd_head_k=80"),
        (model("grok"), Wishes(cache_type=("f16", "q8_0")), "quantized V cache requires flash_attn"),
        (
            model(
                "deepseek2", attention__key_length_mla=64, attention__value_length_mla=64, attention__kv_lora_rank=32,
                attention__head_count_kv=1,
            ),
            Wishes(cache_type=("q8_0", "q4_0")),
            "does not support different K (q8_0) and V (q4_0)",
        ),
    ],
    ids=["flash attention off", "head size", "grok", "latent attention"],
)  # fmt: skip
def test_what_llama_cpp_would_refuse(g: GGUF, wishes: Wishes, words: str) -> None:
    plan = planned(g, wishes)
    assert ("cache", "error") in stopped(plan)
    [obstacle] = [o for o in plan.obstacles if o.where == "cache"]
    assert words in obstacle.message
    assert obstacle.remedy


def test_the_remedies_help() -> None:
    plan = planned(model(head=80), Wishes(cache_type=("q8_0", "q8_0")))
    assert plan.obstacles[0].remedy == "--cache-type f16"
    assert stopped(planned(model(head=80), Wishes(cache_type=("f16", "f16")))) == []


def test_slow_pairs_are_told() -> None:
    assert any("q8_0-q4_0" in note for note in planned(model(), Wishes(cache_type=("q8_0", "q4_0"))).notes)
    without = planned(model(), Wishes(cache_type=("q8_0", "f16"), flash_attn="off"))
    assert not any("vector kernel" in note for note in without.notes), "it has none of these kernels then"


def test_a_slot_larger_than_the_files_context() -> None:
    plan = planned(model(), Wishes(ctx=8192))
    assert stopped(plan) == [("context", "warning")]
    assert "--ctx 4096" in plan.obstacles[0].remedy
    assert stopped(planned(model(), Wishes(ctx=8192, parallel=2))) == [], "each of two slots holds 4096"
    assert stopped(planned(model(), Wishes(ctx=8192, parallel=2, kv_unified=True))) == [("context", "warning")]


def test_divided_context_is_told() -> None:
    plan = planned(model(), Wishes(ctx=4096, parallel=4))
    assert any("each of 4 slots holds 1024" in note for note in plan.notes)
    assert plan.expected.slot_context == 1024


@pytest.mark.parametrize(
    ("g", "words"),
    [
        (GGUF().kv("general.architecture", "clip").tensor("v.x", (32,), "f32"), "multimodal projector"),
        (GGUF().kv("general.type", "adapter").kv("general.architecture", "llama").tensor("a", (32,), "f32"), "LoRA"),
        (GGUF().kv("general.architecture", "llama").kv("llama.context_length", 4096), "metadata without tensors"),
        (GGUF("llama").kv("tokenizer.ggml.model", "gpt2"), "vocabulary"),
    ],
    ids=["projector", "adapter", "metadata", "vocabulary"],
)
def test_what_is_no_model(g: GGUF, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        planned(g)
    assert words in str(caught.value)
    assert caught.value.hint


def test_unknown_architecture() -> None:
    assert ("model", "error") in stopped(planned(model("minimax-m9")))


def test_memory() -> None:
    tight = HostMemory(64 * MIB, 40 * MIB)
    wishes = Wishes(ctx=4096, parallel=1)
    assert stopped(planned(model(), wishes, host=HOST)) == []
    long = model(context=1 << 20)
    assert stopped(planned(long, Wishes(), host=tight)) == [("room", "warning")], "as plan: nobody named it"
    assert stopped(planned(long, Wishes(ram=40 * MIB), host=HOST)) == [("room", "error")]
    assert stopped(planned(model(context=1 << 20), Wishes(), host=None)) == [], "unknown memory is no reason"
    with_card = planned(long, Wishes(), devices=[GPU], host=HostMemory(4 << 30, 2 << 30))
    assert stopped(with_card) == [], "the card has room"
    assert with_card.expected.devices == ("CUDA0",)
    on_cpu = planned(model(), Wishes(device=("none",)), devices=[GPU], host=HOST)
    assert on_cpu.expected.devices == ()


def test_an_old_build_that_cannot_say_it() -> None:
    engine = Engine("llama-server", ("/old",), None, OLD)
    assert stopped(planned(model(), Wishes(ctx=1024), engine=engine)) == []
    plan = planned(model(), Wishes(ctx=1024, parallel=2, kv_unified=True), engine=engine)
    assert stopped(plan) == [("build", "error")]


def test_options_behind_the_dashes() -> None:
    plan = planned(model(), Wishes(ctx=1024, extra=("-c", "99999")))
    assert stopped(plan) == [("build", "error")]
    assert "--ctx" in plan.obstacles[0].message
    fine = planned(model(), Wishes(ctx=1024, extra=("--metrics", "--rope-freq-base", "5000")))
    assert stopped(fine) == []
    assert fine.expected.rope_freq_base is None, "the file's value no longer counts"


def test_an_open_address_without_a_key(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("k")
    assert any("everybody" in n for n in planned(model(), Wishes(host="0.0.0.0")).notes)
    assert not any("everybody" in n for n in planned(model(), Wishes(host="0.0.0.0", api_key_file=str(keys))).notes)


def test_rpc_servers() -> None:
    found = rpc("10.0.0.7:50052=24GiB, [fe80::1]:50052 ")
    assert found == (RpcServer("10.0.0.7:50052", 24 << 30), RpcServer("[fe80::1]:50052", None))
    for bad in ("host", "host:", ":1", "host:0", "host:99999", "host:x=3", "h:²", "h:1=lots", "fe80::1", "a b:1"):
        with pytest.raises(UsageError):
            rpc(bad)


def test_rpc_memory_becomes_shares() -> None:
    wishes = Wishes(rpc=(RpcServer("a:1", 8 << 30), RpcServer("b:1", 24 << 30)))
    plan = planned(model(), wishes, host=HOST)
    args = list(plan.command.args)
    assert args[args.index("--rpc") + 1] == "a:1,b:1"
    assert args[args.index("-ts") + 1] == "8192,24576"
    assert plan.expected.rpc == ("a:1", "b:1")


def test_print_is_the_default_without_an_engine(cli, smollm2: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("gguftool.programs.find", lambda *_, **__: None)
    monkeypatch.setattr("gguftool.run.embedded.available", lambda: None)
    result = cli("launch", smollm2, "--ctx", 4096, "--cache-type", "q8_0")
    assert result.code == 0
    assert result.out.startswith("llama-server -m ")
    assert " -c 4096 -ctk q8_0 -ctv q8_0 -fa on -np 1 --host 127.0.0.1 --port 8080 -lv 4\n" in result.out
    assert "build 11434" in result.err
    assert "not started: there is no llama-server and no xllamacpp on this machine" in result.err
    assert "hint: pip install 'gguftool[server]'" in result.err
    assert "not started" not in cli("launch", smollm2, "--print").err
    check = cli("launch", smollm2, "--check-only")
    assert check.code == 6
    assert "error: there is no llama-server and no xllamacpp on this machine" in check.err
    assert "hint: pip install 'gguftool[server]'" in check.err
    judged = cli("diagnose", smollm2, "--symptom", "gibberish").out
    assert "did not run: there is no llama-server and no xllamacpp on this machine (pip install" in judged
    for engine in ("llama-server", "library"):
        assert cli("launch", smollm2, "--engine", engine).code == 6


def test_what_is_printed_is_quoted(cli, smollm2: Path, tmp_path: Path) -> None:
    nasty = tmp_path / "it's a $HOME \x1b[31m`model`.gguf"
    nasty.symlink_to(smollm2)
    result = cli("launch", nasty, "--print", "--ctx", 512)
    assert "\x1b" not in result.out + result.err
    shell = subprocess.run(
        ["bash", "-c", f"set -- {result.out.strip()}; printf '%s' \"$3\""], capture_output=True, text=True, check=True
    )
    assert shell.stdout == str(nasty)


def test_findings_stop_the_start_and_force_says_what_it_ignores(cli, smollm2: Path, tmp_path: Path) -> None:
    odd = without_pre_tokenizer(smollm2, tmp_path / "odd.gguf")
    stop = cli("launch", odd, "--check-only", "--format", "json")
    assert stop.code == 1
    assert stop.json["ok"] is False
    assert {o["where"] for o in stop.json["obstacles"]} == {"lint"}
    assert "--force" in stop.err
    for words in ((odd,), (smollm2, "--cache-type", "q8_0", "--no-flash-attn")):
        for action in (("--print",), ("--emit", "systemd")):
            refused = cli("launch", *words, *action)
            assert refused.code == 1
            assert refused.out == "", "no command that a pipe would take for one that works"
            assert "--force goes on" in refused.err
    forced = cli("launch", smollm2, "--print", "--cache-type", "q8_0", "--no-flash-attn", "--force")
    assert forced.code == 0
    assert " -ctk q8_0 " in forced.out
    assert "is ignored" in forced.err


def without_pre_tokenizer(of: Path, path: Path) -> Path:
    """What changes every answer: llama.cpp splits the text as by default."""
    shutil.copyfile(of, path)
    with edit(path) as e:
        del e["tokenizer.ggml.pre"]
    return path


def test_what_llama_cpp_does_not_read_does_not_stop_a_stock_download(cli, smollm2: Path, gemma3: Path) -> None:
    """The records of the deploy contract that no download has: told in a note, and lint still demands them."""
    for model in (smollm2, gemma3):
        result = cli("launch", model, "--print")
        assert result.code == 0, result.err
        assert result.out.startswith("llama-server ") or "/llama-server" in result.out
        assert "changes nothing in this run, kv-cache-type-missing, rope-freq-scale-missing: " in result.err
        found = cli("lint", model, "--format", "json")
        assert found.code == 1
        assert {f["rule"] for f in found.json["files"][0]["findings"] if f["severity"] != "info"} == {
            "kv-cache-type-missing", "rope-freq-scale-missing",
        }  # fmt: skip


def test_a_projector_that_is_none(cli, smollm2: Path) -> None:
    result = cli("launch", smollm2, "--print", "--mmproj", smollm2)
    assert result.code == 1
    assert "no multimodal projector" in result.err


def test_a_truncated_file_is_noticed(cli, smollm2: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.gguf"
    short.write_bytes(smollm2.read_bytes()[: 40 * MIB])
    result = cli("launch", short, "--check-only")
    assert result.code == 1
    assert "missing" in result.err or "truncated" in result.err


def test_usage(cli, tmp_path: Path) -> None:
    assert cli("launch").code == 2
    assert cli("launch", tmp_path / "none.gguf", "--print").code == 2
    assert cli("launch", "x", "--rpc", "nowhere", "--print").code == 2


def test_the_library_engine_spells_as_llama_server_does() -> None:
    from gguftool.run.embedded import capabilities, flags

    for names in flags():
        assert known().takes(names[0]), names
    plan = planned(model(), Wishes(ctx=512), engine=Engine("library", (sys.executable,), None, capabilities()))
    assert stopped(plan) == []
    assert "-lv" in plan.command.args
    assert stopped(replace(plan)) == []


def test_the_options_of_plan(cli, smollm2: Path) -> None:
    result = cli(
        "launch", smollm2, "--print", "--ctx", 4096, "--parallel", "auto", "--vram", "8GiB", "--ram", "16GiB",
        "--no-kv-offload", "--n-cpu-moe", 3, "--override-tensor", "ffn_.*=CPU", "-ngl", 20, "--format", "json",
    )  # fmt: skip
    assert result.code == 0, result.err
    words = result.json["command"]
    assert words[words.index("-np") + 1] == "4"
    assert "-kvu" in words
    assert "-nkvo" in words
    assert words[words.index("-ncmoe") + 1] == "3"
    assert words[words.index("-ot") + 1] == "ffn_.*=CPU"
    assert words[words.index("-ngl") + 1] == "20"
    assert result.json["expected"]["devices"] == ["CUDA0"]
    assert result.json["context"]["per_slot"] == 4096, "the slots share it"
    short = cli("launch", smollm2, "--print", "--ram", "1MiB", "--format", "json")
    assert {o["where"] for o in short.json["obstacles"] if o["severity"] == "error"} == {"room"}
    assert short.code == 5
    assert cli("launch", smollm2, "--print", "--parallel", "0").code == 2
    assert cli("launch", smollm2, "--print", "--vram", "lots").code == 2


def test_a_printed_command_is_for_llama_server_also_where_there_is_none(cli, smollm2, monkeypatch) -> None:
    monkeypatch.setattr("gguftool.programs.find", lambda *args, **kwargs: None)
    words = cli("launch", smollm2, "--print", "--ctx", 4096, "--cache-type", "q8_0").out.split()
    assert words[:3] == ["llama-server", "-m", str(smollm2)]
    at = words.index("-ctk")
    assert words[at : at + 4] == ["-ctk", "q8_0", "-ctv", "q8_0"]
    assert words[words.index("-c") + 1] == "4096"
