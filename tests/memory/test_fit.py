"""The search: order of sacrifice, never what llama.cpp refuses, and what is given back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gguftool.facts.cachetypes import refusals
from gguftool.memory.advice import advise, refine
from gguftool.memory.devices import Device
from gguftool.memory.fit import Free, contexts, largest_context
from gguftool.memory.plan import Machine, MemoryPlan, Planner, weights_of
from gguftool.memory.search import admissible, search
from gguftool.memory.settings import Settings
from gguftool.memory.weights import Placement, Weight
from tests.memory.giants import giant
from tests.memory.test_cachetypes import HEADS_OF_80
from tests.memory.test_kv import QWEN2_7B

GIB = 1 << 30


def planner(name: str, vram: float | None, ram: float | None = 512) -> Planner:
    m = giant(name)
    devices = (Device("CUDA0", "cuda", int(vram * GIB)),) if vram else ()
    return Planner(m.arch, weights_of(m), Machine(devices, None if ram is None else int(ram * GIB)))


def run(name: str, ctx: int, vram: float, ram: float = 512, free: Free | None = None):
    return search(planner(name, vram, ram), Settings(ctx), Placement(), free)


def whats(fit) -> list[str]:
    return [x.what for x in fit.steps]


def test_nothing_is_changed_when_it_fits():
    fit = run("llama-3.1-8b", 8192, 24)
    assert fit.fits
    assert fit.plan.settings == Settings(8192)
    assert whats(fit) == ["as asked"]


def test_the_cache_type_goes_first_and_no_further_than_needed():
    # 16 GiB of f16 cache do not fit beside 4 GiB of weights, 8.5 GiB of q8_0 do
    fit = run("llama-3.1-8b", 131072, 16)
    assert fit.fits
    assert (fit.plan.settings.type_k, fit.plan.settings.type_v) == ("q8_0", "q8_0")
    assert fit.plan.placement.gpu_layers is None
    assert whats(fit) == ["as asked", "cache type q8_0"]


def test_then_experts_then_layers():
    moe = run("qwen3-30b-a3b", 40960, 12)
    assert moe.fits
    assert 0 < moe.plan.placement.cpu_moe < 48
    assert moe.plan.placement.gpu_layers is None
    one_less = replace(moe.plan.placement, cpu_moe=moe.plan.placement.cpu_moe - 1)
    assert planner("qwen3-30b-a3b", 12).plan(moe.plan.settings, one_less).fits is False
    dense = run("llama-3.1-70b", 32768, 24)
    assert dense.fits
    assert 0 < dense.plan.placement.gpu_layers < 81
    one_more = replace(dense.plan.placement, gpu_layers=dense.plan.placement.gpu_layers + 1)
    assert planner("llama-3.1-70b", 24).plan(dense.plan.settings, one_more).fits is False


def test_experts_move_before_the_cache_loses_quality():
    # 35 GiB of experts on the host keep q8_0 of a cache of 262,144 tokens; q4_0 would keep no layer more on the device
    for vram in (12, 16, 24):
        fit = run("qwen3-next-80b", 262144, vram, ram=64)
        assert fit.fits
        assert fit.plan.settings.type_k in ("f16", "q8_0")
        assert fit.plan.placement.cpu_moe > 0
    # where moving all of them is not enough, the smaller type is taken after all
    kept = run("qwen3-30b-a3b", 262144, 10, ram=64, free=Free(gpu_layers=False))
    assert kept.fits
    assert kept.plan.settings.type_k == "q4_0"


def test_what_turns_out_not_to_be_needed_is_given_back():
    # with its experts on the host DeepSeek-V3 has room for an f16 cache again
    fit = run("deepseek-v3", 32768, 24)
    assert fit.fits
    assert (fit.plan.settings.type_k, fit.plan.settings.ubatch) == ("f16", 512)
    assert "given back: cache type f16" in whats(fit)


def test_what_the_user_named_is_not_touched():
    fit = run("llama-3.1-8b", 131072, 16, free=Free(cache_type=False, ubatch=False, gpu_layers=False))
    assert fit.fits is False
    assert fit.plan.settings == Settings(131072)


def test_too_little_everywhere_says_so():
    fit = run("deepseek-v3", 8192, 24, ram=64)
    assert fit.fits is False
    # nothing is given up for nothing: the plan is the one asked for, the steps say what was tried
    assert fit.plan.settings == Settings(8192)
    assert fit.plan.placement.gpu_layers is None
    assert [x.kept for x in fit.steps] == [True] + [False] * (len(fit.steps) - 1)
    assert "over by CPU" in fit.steps[-1].result


def test_without_knowing_the_memory_nothing_is_claimed():
    fit = search(planner("llama-3.1-8b", None, None), Settings(8192), Placement())
    assert fit.fits is None
    assert fit.steps == ()
    assert largest_context(planner("llama-3.1-8b", None, None), Settings(8192), Placement()) is None


def test_every_proposal_is_one_llama_cpp_takes():
    for name, ctx, vram in (("llama-3.1-70b", 131072, 16), ("qwen3-next-80b", 262144, 24), ("deepseek-v3", 163840, 48)):
        s = run(name, ctx, vram).plan.settings
        assert refusals(giant(name).arch, s.type_k, s.type_v, s.flash_attn) == []


def test_heads_no_block_divides_are_never_proposed_a_quantised_cache():
    tensors = [Weight("token_embd.weight", "F16", (2560, 51200), 2560 * 51200 * 2)]
    p = Planner(HEADS_OF_80, tensors, Machine((Device("CUDA0", "cuda", 2 * GIB),), 64 * GIB))
    fit = search(p, Settings(65536), Placement())
    assert fit.plan.settings.type_k == "f16"
    (step, _) = [x for x in fit.steps if x.what.startswith("cache type")]
    assert "does not divide n_embd_head_k=80" in step.result


def test_slow_pairs_are_not_proposed_on_cuda():
    assert admissible(QWEN2_7B, ("q8_0", "q4_0"), "auto", {"cuda"}) is not None
    assert admissible(QWEN2_7B, ("q8_0", "q4_0"), "auto", set()) is None
    assert admissible(QWEN2_7B, ("q8_0", "q8_0"), "auto", {"cuda"}) is None


def test_the_largest_context_fits_and_the_next_does_not():
    p = planner("llama-3.1-8b", 12)
    most = largest_context(p, Settings(), Placement())
    assert most % 256 == 0
    assert p.plan(Settings(most)).fits
    assert p.plan(Settings(most + 256)).fits is False


def test_the_largest_context_stops_at_the_trained_one():
    assert largest_context(planner("llama-3.1-8b", 80), Settings(), Placement()) == 131072


def test_contexts_of_the_table():
    assert contexts(giant("llama-3.1-8b").arch, 8192) == [4096, 8192, 16384, 32768, 65536, 131072]
    assert 10000 in contexts(giant("llama-3.1-8b").arch, 10000)
    assert len(contexts(giant("qwen3-next-80b").arch, 300)) <= 8


def test_rpc_hosts_and_devices_share_the_layers():
    m = giant("llama-3.1-70b")
    machine = Machine((Device("RPC0", "rpc", 24 * GIB), Device("CUDA0", "cuda", 24 * GIB)), 64 * GIB)
    plan = Planner(m.arch, weights_of(m), machine).plan(Settings(8192))
    assert plan.fits
    assert {"RPC0", "CUDA0"} <= set(plan.placed.layer_device)


def _answers(factor: float):
    """A library that finds compute buffers this much larger than estimated."""

    def ask(p: MemoryPlan) -> dict[str, dict[str, int]]:
        return {d.name: {"model": 0, "context": 0, "compute": int(d.compute * factor)} for d in p.devices}

    return ask


def test_measuring_moves_layers_until_the_measured_sizes_fit():
    p = planner("llama-3.1-70b", 24)
    fit = search(p, Settings(32768), Placement())
    larger = refine(p, fit, _answers(6.0), may_move=True)
    assert larger.fits
    assert larger.plan.compute_basis == "measured"
    assert larger.plan.placement.gpu_layers < fit.plan.placement.gpu_layers
    smaller = refine(p, fit, _answers(0.1), may_move=True)
    assert smaller.plan.placement.gpu_layers > fit.plan.placement.gpu_layers


def test_measuring_leaves_layers_that_were_named():
    p = planner("llama-3.1-70b", 24)
    fit = search(p, Settings(32768), Placement(40), Free(gpu_layers=False))
    assert refine(p, fit, _answers(0.1), may_move=False).plan.placement.gpu_layers == 40


def test_a_refusal_while_measuring_is_no_answer():
    p = planner("llama-3.1-8b", 24)
    assert refine(p, search(p, Settings(8192), Placement()), lambda _: None, may_move=True) is None


def test_advice_names_the_largest_context_of_each_type():
    p = planner("llama-3.1-8b", 12)
    advice = advise(p, search(p, Settings(32768), Placement()))
    largest = dict(advice.largest)
    assert largest["f16", "f16"] < largest["q8_0", "q8_0"] <= largest["q4_0", "q4_0"]
    assert advice.per_token == 32 * 2 * 8 * 128 * (34 / 32 if advice.plan.settings.type_k == "q8_0" else 2)
    assert {"kv", "slots", "weights", "compute", "reserve"} <= {x.name for x in advice.assumptions}


@pytest.mark.parametrize("ctx", [256, 1000, 8192])
def test_all_devices_together_are_the_total(ctx: int):
    plan = planner("qwen3-next-80b", 24).plan(Settings(ctx, parallel=2))
    assert plan.total == plan.weights + plan.kv + plan.state + plan.compute + plan.output
    assert plan.kv == plan.cache.kv_bytes
    assert plan.state == plan.cache.state_bytes


def _two(name: str, first: float, second: float, ram: float = 512) -> Planner:
    m = giant(name)
    devices = (Device("CUDA0", "cuda", int(first * GIB)), Device("CUDA1", "cuda", int(second * GIB)))
    return Planner(m.arch, weights_of(m), Machine(devices, int(ram * GIB)))


def test_two_devices_are_filled_alike():
    # by memory alone, the light layers whose experts are on the host would all lie on the first device
    fit = search(_two("qwen3-30b-a3b", 8, 6), Settings(8192), Placement())
    assert fit.fits
    assert fit.plan.placement.cpu_moe > 0
    first, second, _ = fit.plan.devices
    assert abs(first.total / (first.memory - GIB) - second.total / (second.memory - GIB)) < 0.1
    # shares in layers: as many layers as they say lie on each device
    at = fit.plan.placed.layer_device
    assert tuple(fit.plan.placement.split) == (at.count("CUDA0"), at.count("CUDA1"))
    by_memory = _two("qwen3-30b-a3b", 8, 6).plan(fit.plan.settings, replace(fit.plan.placement, split=()))
    assert by_memory.fits is False


def test_named_shares_stay():
    fit = search(_two("llama-3.1-8b", 8, 8), Settings(8192), Placement(split=(3, 1)))
    assert fit.plan.placement.split == (3, 1)
