"""The same words mean the same for `plan` and `launch`, figures, refusal and command; and for what is measured."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gguftool.errors import UsageError
from gguftool.memory.devices import HOST
from gguftool.model import from_source
from gguftool.run.deploy import Found, deploy, outcome, resolved
from gguftool.run.devices import FoundDevice, HostMemory
from gguftool.run.launch import expectations, plan_launch
from gguftool.run.log import read_log
from gguftool.run.proof import compare
from gguftool.run.wishes import RpcServer, Wishes
from gguftool.source import Memory
from tests.build import GGUF
from tests.memory.giants import giant, whole

GIB = 1 << 30
MIB = 1 << 20
TWO = ("--vram", "24GiB,16GiB", "--ram", "64GiB")
GRID = [
    ["--ram", "64GiB"],
    ["--vram", "none", "--ram", "64GiB"],
    ["--vram", "none", "--ram", "1GiB"],
    ["--vram", "none", "--ram", "6GiB"],
    ["--vram", "none", "--ram", "64GiB", "-c", "0"],
    ["--vram", "none", "--ram", "64GiB", "-c", "1000", "-np", "3"],
    ["--vram", "none", "--ram", "64GiB", "-c", "16384", "-np", "auto"],
    ["--vram", "none", "--ram", "64GiB", "-c", "16384", "-np", "4", "-kvu", "-ctk", "q8_0", "-ctv", "q4_0"],
    ["--vram", "none", "--ram", "64GiB", "--cache-type", "q8_0", "-fa", "off"],
    ["--vram", "none", "--ram", "64GiB", "-c", "8192", "-nr"],
    ["--vram", "none", "--ram", "64GiB", "-c", "8192", "-lm", "none", "-ub", "128", "-b", "256"],
    ["--vram", "none", "--ram", "64GiB", "--embeddings", "-c", "2048"],
    ["--vram", "none", "--ram", "64GiB", "-c", "8192", "--device", "none"],
    ["--vram", "none", "--ram", "64GiB", "-c", "8192", "--device", "CUDA7"],
    ["--vram", "8GiB", "--ram", "64GiB"],
    ["--vram", "8GiB", "--ram", "64GiB", "--reserve", "0", "-c", "8192"],
    ["--vram", "3GiB", "--ram", "64GiB", "-c", "8192"],
    ["--vram", "3GiB", "--ram", "64GiB", "-c", "8192", "-ngl", "99"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "-ngl", "0"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "-ngl", "-1"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "-ngl", "all"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "-ngl", "auto"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "-ngl", "20", "--no-host"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "-ngl", "20", "--no-op-offload"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "-nkvo"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "--backend", "vulkan", "-ncffn", "8"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "-ot", "ffn_up=CPU"],
    [*TWO, "-c", "8192"],
    [*TWO, "-c", "8192", "-ts", "3/1"],
    [*TWO, "-c", "8192", "-ts", "1e0,3"],
    [*TWO, "-c", "8192", "-ts", "3,1", "-ngl", "20"],
    [*TWO, "-c", "8192", "--device", "CUDA1"],
    [*TWO, "-c", "8192", "--device", "cuda1,CUDA0"],
    [*TWO, "-c", "8192", "-dev", "CUDA0,CUDA9"],
    [*TWO, "-c", "8192", "-sm", "none"],
    [*TWO, "-c", "8192", "-sm", "none", "-mg", "1"],
    [*TWO, "-c", "8192", "-sm", "none", "-mg", "2"],
    [*TWO, "-c", "8192", "-sm", "none", "-mg", "-1"],
    [*TWO, "-c", "8192", "-sm", "row"],
    [*TWO, "-c", "8192", "--rpc", "10.0.0.7:50052=8GiB"],
    ["--vram", "none", "--ram", "64GiB", "-c", "8192", "--rpc", "a:1=8GiB, b:2=24GiB"],
    ["--vram", "none", "--ram", "64GiB", "-c", "8192", "--rpc", "a:1,b:2"],
    [*TWO, "-c", "8192", "--rpc", "a:1=8GiB", "--device", "RPC0"],
    [*TWO, "-c", "8192", "--", "-cmoe", "-np", "2", "--temp", "0.5"],
    [*TWO, "-c", "8192", "--", "--device", "none"],
    [*TWO, "-c", "8192", "--", "-c", "4096"],
    [*TWO, "-c", "8192", "--", "-sm", "graph"],
    [*TWO, "-c", "8192", "--", "-hf", "a/b"],
    [*TWO, "-c", "8192", "--", "-fitt", "2048"],
    [*TWO, "-c", "8192", "--kv-unified-per-slot", "2048", "-np", "2"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "--mmproj", "MMPROJ"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "--mmproj", "MMPROJ", "--no-mmproj-offload"],
    [*TWO, "-c", "8192", "--mmproj", "MMPROJ", "-mmdev", "CUDA1"],
    ["--vram", "none", "--ram", "64GiB", "-c", "8192", "--mmproj", "MMPROJ", "--lora", "MMPROJ"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "-md", "MODEL", "--spec-type", "draft-simple"],
    ["--vram", "8GiB", "--ram", "64GiB", "-c", "8192", "-md", "MODEL", "--spec-type", "draft-simple", "-ngld", "0"],
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole("llama-3.1-8b", tmp_path_factory.mktemp("giants"))


@pytest.fixture(scope="module")
def mmproj(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mm") / "mmproj.gguf"
    path.write_bytes(GGUF("clip").tensor("v.patch_embd.weight", (1024, 1024), "f16").bytes())
    return path


@pytest.mark.parametrize("words", GRID, ids=" ".join)
def test_plan_and_launch_say_the_same(
    cli, model: Path, mmproj: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gguftool.programs.find", lambda *args, **kwargs: None)
    # What else a launch looks at (lint, verify) is not about memory.
    monkeypatch.setattr("gguftool.api.launch.obstacles", lambda *args: [])
    said = [{"MMPROJ": str(mmproj), "MODEL": str(model)}.get(w, w) for w in words]
    at = said.index("--") if "--" in said else len(said)
    before, behind = said[:at], said[at:]
    plan = cli("plan", model, *before, "--format", "json", *behind)
    launch = cli("launch", model, "--print", *before, "--format", "json", *behind)
    assert plan.code == launch.code, (plan.err, launch.err)
    a, b = plan.json, launch.json
    for field in ("requested", "total", "per_slot", "usable", "slots", "unified"):
        assert a["context"][field] == b["context"][field], field
    assert (a["kv"]["type_k"], a["kv"]["type_v"], a["kv"]["bytes"]) == (
        b["kv"]["type_k"], b["kv"]["type_v"], b["kv"]["bytes"],
    )  # fmt: skip
    for field in ("devices", "placement", "fits", "expected"):
        assert a[field] == b[field], field
    for field in ("weights", "state", "compute", "total"):
        assert a[field]["bytes"] == b[field]["bytes"], field
    assert a["command"] == b["command"]


def test_what_the_grid_holds(cli, model: Path, mmproj: Path) -> None:
    """The values, worked out by hand or given by llama.cpp, so that both are not the same and wrong."""

    def plan(*words: object, code: int = 0) -> Any:
        result = cli("plan", model, "-c", 8192, *words, "--format", "json")
        assert result.code == code, result.err
        return result.json

    one = plan(*TWO, "--device", "CUDA1")
    assert [(d["name"], d["memory"]) for d in one["devices"]] == [("CUDA1", 16 * GIB), ("CPU", 64 * GIB)]
    swapped = plan(*TWO, "--device", "CUDA1,CUDA0")
    assert [d["name"] for d in swapped["devices"]] == ["CUDA1", "CUDA0", "CPU"]
    assert plan(*TWO, "-sm", "none", "-mg", "1")["devices"][0]["name"] == "CUDA1"
    # 33 layers with the output's; `llama-model.cpp`: layer i goes to the first device whose share passes i / 33.
    shares = plan(*TWO, "-ts", "3/1")["placement"]["layer_devices"]
    assert shares == ["CUDA0" if i / 33 < 0.75 else "CUDA1" for i in range(33)]
    assert plan(*TWO, "-ts", "1e0,3")["placement"]["tensor_split"] == [1.0, 3.0]
    bare = plan("--vram", "8GiB", "--ram", "64GiB")
    seen = plan("--vram", "8GiB", "--ram", "64GiB", "--mmproj", mmproj)
    assert seen["total"]["bytes"] - bare["total"]["bytes"] == 1024 * 1024 * 2
    assert seen["devices"][0]["mmproj"] == 1024 * 1024 * 2
    host = plan("--vram", "8GiB", "--ram", "64GiB", "--mmproj", mmproj, "--no-mmproj-offload")
    assert [d["mmproj"] for d in host["devices"]] == [0, 1024 * 1024 * 2]
    second = plan(*TWO, "--mmproj", mmproj, "-mmdev", "CUDA1")
    assert [d["mmproj"] for d in second["devices"]] == [0, 1024 * 1024 * 2, 0]
    draft = plan("--vram", "8GiB", "--ram", "64GiB", "-md", model, "--spec-type", "draft-simple", "-ngld", 0)
    # A second model of 32 layers with its own cache of 8192 tokens: 1 GiB in f16.
    assert draft["devices"][1]["beside"] > one["weights"]["tensors"] + GIB
    assert plan("--vram", "none", "--ram", "1GiB", code=5)["fits"] is False
    assert plan(*TWO, "-dev", "CUDA0,CUDA9", code=1)["refused"]


def test_the_processor_counts_for_both(cli, gemma3: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch once planned every host as one with AVX2."""
    words = ("--vram", "none", "--ram", "64GiB", "-c", 4096, "--format", "json")
    totals = {}
    for machine in ("aarch64", "x86_64"):
        monkeypatch.setattr("platform.machine", lambda machine=machine: machine)
        plan = cli("plan", gemma3, *words).json["devices"]
        assert plan == cli("launch", gemma3, "--print", *words).json["devices"]
        totals[machine] = plan[0]["weights"]
    # A tied matrix of Q8_0 is rearranged on ARM only, and is there twice then.
    assert totals["aarch64"] > totals["x86_64"] + 100 * MIB


def test_a_launch_on_one_of_two_devices_can_be_proven() -> None:
    two = [FoundDevice(f"CUDA{i}", "cuda", "a card", 24 * GIB, 23 * GIB, "test") for i in range(2)]
    plan = plan_launch(
        giant("llama-3.1-8b"), Wishes(ctx=4096, device=("CUDA1",)), None, two, HostMemory(64 * GIB, 60 * GIB)
    )
    assert plan.expected.devices == ("CUDA1",)
    assert list(plan.command.args)[plan.command.args.index("-dev") + 1] == "CUDA1"
    from gguftool.run.diagnose import judge

    lines = ("       CUDA1 model buffer size =  4403.49 MiB", "  CPU_Mapped model buffer size =   281.81 MiB")
    log = "".join(f"load_tensors: {line}\n" for line in lines)
    seen = {c.what: c.ok for c in compare(plan.expected, judge(log))}
    assert seen["weights on CUDA1"] is True
    assert "weights on CUDA0" not in seen
    assert read_log(log).buffers


def test_check_log_expects_what_was_launched(cli, smollm2: Path, server: str, tmp_path: Path) -> None:
    """Finding: the plan of the same words was another, and every line differed."""
    plan, log = tmp_path / "p.json", tmp_path / "l.log"
    words = ("--cache-type", "q8_0", "--parallel", 2)
    plan.write_text(cli("plan", smollm2, *words, "--format", "json").out)
    started = cli("launch", smollm2, *words, "--check-only", "--port", 0, "--force", "--log", log)
    assert started.code == 0, started.out
    judged = cli("check-log", log, "--expect", plan, "--format", "json")
    assert judged.code == 0, judged.out
    seen = {c["what"]: c["ok"] for c in judged.json["checks"]}
    assert seen["context"] is True
    assert seen["KV cache"] is True
    assert seen["tensors"] is True


def test_what_is_measured_is_the_plan(model: Path) -> None:
    """`llama-fit-params` once looked at another placement than the one whose numbers it replaced."""
    from gguftool.api.measured import fit_params_arguments

    wishes = Wishes(
        ctx=4096, vram=(24 * GIB, 16 * GIB), ram=64 * GIB, tensor_split=(3.0, 1.0), overrides=(("blk.0.", "CPU"),),
        kv_offload=False, repack=False, op_offload=False, cpu_ffn=2, load_mode="none", device=("CUDA1", "CUDA0"),
        rpc=(RpcServer("a:1", GIB),), split_mode="layer", swa_full=True, alias="x", threads=3, metrics=True,
        cache_type=("q8_0", "q8_0"), parallel=2, template=None, extra=("--temp", "0"),
    )  # fmt: skip
    m = giant("llama-3.1-8b")
    d = deploy(m, wishes, Found(host=HostMemory(64 * GIB, 60 * GIB)))
    planner = d.planner(m)
    plan = outcome(d, planner).plan
    words = fit_params_arguments("m.gguf", d, plan, planner)
    said = " ".join(words)
    for part in (
        "-m m.gguf", "-c 4096", "-ctk q8_0", "-ctv q8_0", "-np 2", "-ub 512", "-b 2048", "-ngl 33", "-ts 3,1",
        "-dev CUDA1,CUDA0", "-ot blk.0.=CPU", "-ncffn 2", "-nkvo", "-nr", "--no-op-offload", "-lm none", "--rpc a:1",
        "-sm layer", "--swa-full", "-fit off",
    ):  # fmt: skip
        assert f" {part} " in f" {said} ", part
    for part in ("--host", "--port", "-lv", "--alias", "-a ", "-t ", "--metrics", "--temp"):
        assert f" {part.strip()} " not in f" {said} ", part


def small(context: int = 4096) -> Any:
    g = GGUF("llama").kv("llama.context_length", context).kv("llama.block_count", 2).kv("llama.embedding_length", 256)
    g.kv("llama.attention.head_count", 4)
    return from_source(Memory(g.tensor("token_embd.weight", (256, 32), "f32").bytes(), "/m.gguf"))


def doubts(wishes: Wishes, tmp_path: Path) -> list[tuple[str, str]]:
    return [(o.severity, o.message) for o in plan_launch(small(), wishes, host=HostMemory(8 * GIB, 7 * GIB)).obstacles]


def test_a_draft_model_that_is_never_used(cli, tmp_path: Path) -> None:
    """b11434 loads it, and says at a level nobody sees that no kind of speculation was asked for (`arg.cpp`)."""
    g = GGUF("llama").kv("llama.context_length", 512).kv("llama.block_count", 1).kv("llama.embedding_length", 64)
    g.kv("llama.attention.head_count", 1)
    plain, own, flash = (tmp_path / n for n in ("plain.gguf", "mtp.gguf", "dflash.gguf"))
    plain.write_bytes(g.tensor("token_embd.weight", (64, 32), "f32").bytes())
    own.write_bytes(g.tensor("blk.0.nextn.eh_proj.weight", (64, 32), "f32").bytes())
    flash.write_bytes(GGUF("dflash").kv("dflash.context_length", 64).tensor("x", (32,), "f32").bytes())
    [(severity, message)] = doubts(Wishes(draft=str(plain)), tmp_path)
    assert severity == "warning"
    assert "never uses it" in message
    assert doubts(Wishes(draft=str(plain), spec_type=("draft-simple",)), tmp_path) == []
    assert doubts(Wishes(draft=str(own)), tmp_path) == [], "its own metadata name the kind"
    assert doubts(Wishes(draft=str(flash)), tmp_path) == []
    behind = plan_launch(small(), Wishes(extra=("-md", str(plain))), host=HostMemory(8 * GIB, 7 * GIB))
    assert any("--spec-type draft-simple" in o.remedy for o in behind.obstacles)


def test_options_that_do_nothing_alone(tmp_path: Path) -> None:
    for wishes in (Wishes(draft_max=4), Wishes(draft_type_k="q8_0"), Wishes(mmproj_offload=False)):
        [(severity, message)] = doubts(wishes, tmp_path)
        assert severity == "warning"
        assert "without" in message


def test_states_are_kept_for_rolling_back() -> None:
    """Finding: the log of a server with 4 drafted tokens shows five times the state (ollama #17482)."""
    g = GGUF("qwen35").kv("qwen35.context_length", 8192).kv("qwen35.block_count", 4).kv("qwen35.embedding_length", 256)
    for key, value in (("attention.head_count", 4), ("attention.key_length", 64), ("attention.value_length", 64),
                       ("ssm.conv_kernel", 4), ("ssm.inner_size", 512), ("ssm.state_size", 64),
                       ("ssm.group_count", 4), ("ssm.time_step_rank", 8), ("full_attention_interval", 4)):  # fmt: skip
        g.kv(f"qwen35.{key}", value)
    m = from_source(Memory(g.tensor("token_embd.weight", (256, 32), "f32").bytes(), "/m.gguf"))
    found = Found(host=HostMemory(1 << 40, 1 << 40))
    plain = outcome(d := deploy(m, Wishes(ctx=8192), found), d.planner(m)).plan
    kept = outcome(d := deploy(m, Wishes(ctx=8192, spec_type=("draft-mtp",), draft_max=4), found), d.planner(m)).plan
    assert kept.state == 5 * plain.state > 0
    ngram = outcome(d := deploy(m, Wishes(ctx=8192, spec_type=("ngram-mod",)), found), d.planner(m)).plan
    assert ngram.state == plain.state


def test_positions_that_are_no_longer_the_files() -> None:
    """YaRN on the command line raises the limit of a slot (`llama-context.cpp`, b11434) above the file's."""
    words = ("--rope-scaling", "yarn", "--rope-scale", "4")
    plan = plan_launch(small(), Wishes(ctx=16384, extra=words), host=HostMemory(8 * GIB, 7 * GIB))
    assert plan.obstacles == ()
    assert plan.expected.slot_context is None
    assert plan.expected.rope_freq_base is None
    assert [o.where for o in plan_launch(small(), Wishes(ctx=16384)).obstacles] == ["context"]


def test_a_context_nobody_named_gives_way_first() -> None:
    """As in llama.cpp's own fit; one that was named stays."""
    m = giant("llama-3.1-8b")
    found = Found(host=HostMemory(12 * GIB, 12 * GIB))
    d = deploy(m, Wishes(ram=12 * GIB, vram=()), found)
    plan = outcome(d, d.planner(m)).plan
    assert plan.fits
    assert plan.settings.type_k == "f16"
    assert 8192 < plan.cache.context.requested < 131072
    d = deploy(m, Wishes(ram=12 * GIB, vram=(), ctx=131072), found)
    named = outcome(d, d.planner(m)).plan
    assert named.cache.context.requested == 131072
    launched = plan_launch(m, Wishes(ram=12 * GIB, vram=()), host=HostMemory(12 * GIB, 12 * GIB))
    assert any("changed, so that it fits: context" in note for note in launched.notes)
    assert f"-c {plan.cache.context.requested} " in " ".join(launched.argv)


def test_resolved_wishes_lead_to_the_same_plan(model: Path) -> None:
    """What is printed, emitted and measured says everything: planned again it is the same."""
    m = giant("llama-3.1-8b")
    for wishes in (
        Wishes(vram=(3 * GIB,), ram=64 * GIB, ctx=8192), Wishes(vram=(8 * GIB, 4 * GIB), ram=64 * GIB),
        Wishes(vram=(), ram=10 * GIB), Wishes(vram=(), ram=64 * GIB, parallel=None, ctx=4096),
        Wishes(vram=(24 * GIB,), ram=64 * GIB, cpu_moe=3, reserve=0, ctx=100),
    ):  # fmt: skip
        d = deploy(m, wishes, Found())
        plan = outcome(d, planner := d.planner(m)).plan
        again = deploy(m, resolved(d, planner, plan), Found())
        same = outcome(again, again.planner(m)).plan
        assert same.total == plan.total, wishes
        assert [u.total for u in same.devices] == [u.total for u in plan.devices]
        assert expectations(m, same, again.wishes) == expectations(m, plan, resolved(d, planner, plan))


def test_a_pattern_without_such_a_device() -> None:
    with pytest.raises(UsageError, match="no such device"):
        d = deploy(small(), Wishes(overrides=(("x", "CUDA3"),)), Found())
        d.planner(small())
    assert deploy(small(), Wishes(overrides=(("x", HOST),)), Found()).overrides == (("x", HOST),)


def test_the_documented_default_is_one(cli, smollm2: Path) -> None:
    plan = cli("plan", smollm2, "--format", "json").json
    launch = cli("launch", smollm2, "--print", "--format", "json").json
    assert plan["context"]["requested"] == launch["context"]["requested"] == plan["context"]["trained"]
    assert {d["reserve"] for d in plan["devices"]} == {GIB}
    for command in ("plan", "launch"):
        help = re.sub(r"\s+", " ", cli(command, "--help").out)
        assert "default, and 0: the file's context length" in help
        assert "Left free on each device. [default: 1GiB]" in help


def test_what_is_printed_is_what_is_meant(cli, smollm2: Path) -> None:
    words = shlex.split(cli("plan", smollm2, "-c", 512, "--alias", "it's", "--format", "text").out.splitlines()[-1])
    assert words[words.index("-a") + 1] == "it's"
    assert replace(Wishes(), alias="it's").alias == "it's"


def meaning(wishes: Wishes) -> object:
    """All that a plan and a proof rest on."""
    two = tuple(FoundDevice(f"CUDA{i}", "cuda", "", 24 * GIB, 23 * GIB, "test") for i in range(2))
    d = deploy(small(), wishes, Found(two, HostMemory(8 * GIB, 7 * GIB), "avx2"))
    planner = d.planner(small())
    plan = outcome(d, planner).plan
    said = resolved(d, planner, plan)
    expected = expectations(small(), plan, said)
    return d.settings, d.placement, d.machine, d.overrides, d.sides, d.problems, expected


def test_what_is_declared_to_touch_the_plan_does(tmp_path: Path) -> None:
    """And nothing else: an option of the table that is only carried says so."""
    from gguftool.run.options.table import options
    from tests.run.test_options import SAMPLES

    adapter = tmp_path / "a.gguf"
    adapter.write_bytes(GGUF("llama").tensor("a", (32, 32), "f32").bytes())
    drafter = tmp_path / "d.gguf"
    g = GGUF("llama").kv("llama.context_length", 4096).kv("llama.block_count", 2).kv("llama.embedding_length", 256)
    drafter.write_bytes(g.kv("llama.attention.head_count", 4).tensor("token_embd.weight", (256, 32), "f32").bytes())
    other = tmp_path / "text"
    other.write_text("x")
    needed: dict[str, dict[str, Any]] = {
        "mmproj": {"mmproj": str(adapter)}, "draft": {"draft": str(drafter), "spec_type": ("draft-simple",)},
        "spec_type": {"spec_type": ("draft-mtp",)}, "ssl_cert_file": {"ssl_cert_file": str(other)},
        "ssl_key_file": {"ssl_key_file": str(other)},
    }  # fmt: skip
    special: dict[str, Any] = {
        "overrides": (("x", "CPU"),), "mmproj_device": "CUDA1", "draft_device": ("CUDA1",), "draft_gpu_layers": 0,
        "main_gpu": 1, "lora": (str(adapter),), "lora_scaled": ((str(adapter), 0.5),), "verbosity": 1,
        "control_vector": (str(adapter),), "control_vector_scaled": ((str(adapter), 0.5),), "mmproj": str(adapter),
        "draft": str(adapter), "engine": "llama-server", "fit_target": (256,), "log": str(tmp_path / "log"), "ram": GIB,
    }  # fmt: skip
    more: dict[str, dict[str, Any]] = {
        "main_gpu": {"split_mode": "none"}, "backend": {"vram": (8 * GIB,)}, "kv_unified": {"parallel": 2},
        "fit": {"gpu_layers": 1}, "draft_type_k": {"ctx": 4096}, "draft_type_v": {"ctx": 4096},
        "slot_ctx": {"parallel": 2, "ctx": 4096},
    }  # fmt: skip
    wrong = []
    for o in options():
        if o.field in ("server", "fit"):
            continue  # who is asked for devices; whether llama.cpp may move what was planned
        value = special.get(o.field, str(other) if o.path else SAMPLES[o.field])
        if o.field == "slot_ctx":
            value = 1024
        base = {**needed.get(o.needs, {}), **more.get(o.field, {})}
        before, after = meaning(Wishes(**base)), meaning(Wishes(**{**base, o.field: value}))
        if (before != after) is not o.plan:
            wrong.append(o.field)
    assert wrong == []
