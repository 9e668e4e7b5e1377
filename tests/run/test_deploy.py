"""What wishes mean for memory, for the proof, and for what is measured."""

from __future__ import annotations

import shlex
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gguftool.errors import UsageError
from gguftool.memory.devices import HOST
from gguftool.model import from_source
from gguftool.run.deploy import Found, deploy, outcome, resolved
from gguftool.run.devices import FoundDevice, HostMemory
from gguftool.run.expected import expectations
from gguftool.run.launch import plan_launch
from gguftool.run.log import read_log
from gguftool.run.proof import compare
from gguftool.run.wishes import RpcServer, Wishes
from gguftool.source import Memory
from tests.build import GGUF
from tests.memory.giants import giant

DATA = Path(__file__).parent.parent / "data" / "llamacpp"
GIB = 1 << 30
MIB = 1 << 20


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


def test_what_is_measured_is_the_plan() -> None:
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
    """A model of two layers."""
    return from_source(Memory(_small(context), "/m.gguf"))


@cache
def _small(context: int) -> bytes:
    g = GGUF("llama").kv("llama.context_length", context).kv("llama.block_count", 2).kv("llama.embedding_length", 256)
    g.kv("llama.attention.head_count", 4)
    return g.tensor("token_embd.weight", (256, 32), "f32").bytes()


def doubts(wishes: Wishes, tmp_path: Path) -> list[tuple[str, str]]:
    found = plan_launch(small(), wishes, host=HostMemory(8 * GIB, 7 * GIB)).obstacles
    return [(o.severity, o.message) for o in found if o.where != "pair"]


def test_a_draft_model_is_used(cli, tmp_path: Path) -> None:
    """Without a kind b11434 loads most drafts and never uses them (`arg.cpp`): the file says which it needs."""
    g = GGUF("llama").kv("llama.context_length", 512).kv("llama.block_count", 1).kv("llama.embedding_length", 64)
    g.kv("llama.attention.head_count", 1)
    plain, own, flash = (tmp_path / n for n in ("plain.gguf", "mtp.gguf", "dflash.gguf"))
    plain.write_bytes(g.tensor("token_embd.weight", (64, 32), "f32").bytes())
    g.kv("llama.nextn_predict_layers", 1)
    own.write_bytes(g.tensor("blk.0.nextn.eh_proj.weight", (64, 32), "f32").bytes())
    flash.write_bytes(GGUF("dflash").kv("dflash.context_length", 64).tensor("x", (32,), "f32").bytes())
    for path, kind in ((plain, "draft-simple"), (own, "draft-mtp"), (flash, "draft-dflash")):
        for wishes in (Wishes(draft=str(path)), Wishes(extra=("-md", str(path)))):
            plan = plan_launch(small(), wishes, host=HostMemory(8 * GIB, 7 * GIB))
            assert plan.argv[plan.argv.index("--spec-type") + 1] == kind
            assert any(kind in note for note in plan.notes)
        assert doubts(Wishes(draft=str(path)), tmp_path) == []
    assert doubts(Wishes(draft=str(plain), spec_type=("draft-simple",)), tmp_path) == []
    for said in (("none",), ("ngram-mod",), ("draft-simple", "none")):
        [(severity, message)] = doubts(Wishes(draft=str(plain), spec_type=said), tmp_path)
        assert severity == "warning"
        assert "never uses it" in message


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


def test_resolved_wishes_lead_to_the_same_plan() -> None:
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
    return d.settings, d.placement, d.machine, d.overrides, d.sides, plan.drafts, d.problems, expected


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
    drafted: dict[str, Any] = {"draft": str(drafter), "spec_type": ("draft-simple",)}
    more: dict[str, dict[str, Any]] = {
        "main_gpu": {"split_mode": "none"}, "backend": {"vram": (8 * GIB,)}, "kv_unified": {"parallel": 2},
        "fit": {"gpu_layers": 1}, "draft_type_k": {"ctx": 4096, **drafted}, "draft_type_v": {"ctx": 4096, **drafted},
            "ngram_mod_max": {"spec_type": ("ngram-mod",)}, "ngram_simple_m": {"spec_type": ("ngram-simple",)},
            "ngram_map_k_m": {"spec_type": ("ngram-map-k",)}, "ngram_map_k4v_m": {"spec_type": ("ngram-map-k4v",)},
            "lookup_static": {"spec_type": ("ngram-cache",)}, "lookup_dynamic": {"spec_type": ("ngram-cache",)},
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
