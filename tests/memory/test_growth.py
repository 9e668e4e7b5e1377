"""What grows after the start, beside what the real llama-server said of itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from gguftool.memory.growth import CHECKPOINTS, DRAFTING, PROMPTS, Growth, kept
from gguftool.memory.kv import kv_cache
from gguftool.memory.limit import Bounds, bounded, host_limit, overhead, room
from gguftool.memory.plan import Machine, MemoryPlan, Planner, weights_of
from gguftool.memory.settings import Settings
from gguftool.model import Model, open_model
from gguftool.run.deploy import Found, deploy, outcome, resolved
from gguftool.run.devices import HostMemory
from gguftool.run.grown import growth_notes
from gguftool.run.wishes import Wishes
from tests.memory.giants import giant
from tests.run.test_speculative import qwen35_27b

MIB, GIB = 1 << 20, 1 << 30


def planner(model: Model, ram: int | None = None) -> Planner:
    return Planner(model.arch, weights_of(model), Machine(ram=ram, ram_reserve=0))


def grown(plan: MemoryPlan, what: str) -> Growth | None:
    return next((g for g in plan.growth if g.what == what), None)


def test_a_checkpoint_of_a_hybrid_is_the_state_of_a_slot() -> None:
    # unsloth #11073: 149.6 MiB each, 32 a slot, 4 slots: 18.7 GiB.
    plan = planner(qwen35_27b()).plan(Settings(159744, "q4_0", "q4_0", parallel=4))
    found = grown(plan, CHECKPOINTS)
    assert found is not None
    assert found.each / MIB == pytest.approx(149.62, abs=0.01)
    assert found.count == 128
    assert found.bytes / GIB == pytest.approx(18.7, abs=0.01)


def test_copies_kept_to_roll_back_are_not_in_a_checkpoint() -> None:
    plan = planner(qwen35_27b()).plan(Settings(105216, snapshots=4, drafting=True))
    found = grown(plan, CHECKPOINTS)
    assert plan.state / MIB == pytest.approx(748.12, abs=0.01)
    assert found is not None
    assert found.each / MIB == pytest.approx(149.62, abs=0.01)
    assert grown(plan, DRAFTING) is None


def test_a_model_that_cannot_take_back_keeps_one_more_while_it_drafts() -> None:
    plan = planner(qwen35_27b()).plan(Settings(8192, drafting=True))
    found = grown(plan, DRAFTING)
    assert found is not None
    assert found.each / MIB == pytest.approx(149.62, abs=0.01)


def test_a_plain_cache_needs_no_checkpoints_and_a_window_does() -> None:
    plain = planner(giant("llama-3.1-8b")).plan(Settings(8192))
    assert [g.what for g in plain.growth] == [PROMPTS]
    window = planner(giant("gemma-3-27b")).plan(Settings(32768))
    assert grown(window, CHECKPOINTS) is not None
    assert grown(planner(giant("gemma-3-27b")).plan(Settings(32768, swa_full=True)), CHECKPOINTS) is None


def test_a_prompt_is_the_cells_it_fills() -> None:
    # llama 3.1 8B: 128 KiB of f16 cache a token, and 12 bytes about each cell.
    plan = planner(giant("llama-3.1-8b")).plan(Settings(8192))
    found = grown(plan, PROMPTS)
    assert found is not None
    assert found.bytes == 8192 * MIB
    assert found.each == 8192 * (128 * 1024 + 12)


@pytest.mark.parametrize(("cache_ram", "ckpt"), [(0, 32), (0, 0), (512, 0)])
def test_both_can_be_switched_off(cache_ram: int, ckpt: int) -> None:
    plan = planner(qwen35_27b()).plan(Settings(8192, cache_ram=cache_ram, checkpoints=ckpt))
    assert (grown(plan, PROMPTS) is None) == (cache_ram == 0)
    assert (grown(plan, CHECKPOINTS) is None) == (ckpt == 0)
    assert plan.grows() == sum(g.bytes for g in plan.growth)


def test_what_does_not_fit_is_bounded_and_the_limit_holds_it() -> None:
    p = planner(giant("llama-3.1-8b"), 8 * GIB)
    plan = bounded(p, p.plan(Settings(8192)), Bounds())
    assert 0 < plan.settings.cache_ram < 8192
    assert host_limit(plan) <= 8 * GIB
    assert host_limit(plan) > 8 * GIB - 64 * MIB
    # Nothing is left over: no checkpoint is needed, so all of the room is the cache's.
    assert room(plan) is not None
    assert plan.total + overhead(plan) < host_limit(plan)


def test_checkpoints_are_bounded_with_it() -> None:
    p = planner(qwen35_27b(), 12 * GIB)
    plan = bounded(p, p.plan(Settings(8192, parallel=4)), Bounds())
    assert 0 < plan.settings.checkpoints < 32
    assert plan.settings.cache_ram > 0
    assert host_limit(plan) <= 12 * GIB
    named = bounded(p, p.plan(Settings(8192, parallel=4)), Bounds(checkpoints=False))
    assert named.settings.checkpoints == 32


def test_a_large_host_changes_nothing() -> None:
    p = planner(giant("llama-3.1-8b"), 64 * GIB)
    assert bounded(p, p.plan(Settings(8192)), Bounds()).settings == Settings(8192)


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        (Wishes(ctx=8192, ram=8 * GIB), True),
        (Wishes(ctx=8192), True),  # the free memory of this machine
        (Wishes(ctx=8192, ram=64 * GIB), False),
        (Wishes(ctx=8192, ram=8 * GIB, cache_ram=8192), False),
    ],
)
def test_the_command_says_the_bound(wishes: Wishes, said: bool) -> None:
    model = giant("llama-3.1-8b")
    d = deploy(model, wishes, Found(host=HostMemory(8 * GIB, 8 * GIB)))
    p = d.planner(model)
    plan = outcome(d, p).plan
    rests = resolved(d, p, plan)
    notes = " ".join(growth_notes(d, plan))
    if said:
        assert rests.cache_ram == plan.settings.cache_ram < 8192
        assert f"--cache-ram {rests.cache_ram}" in notes
    else:
        assert rests.cache_ram == wishes.cache_ram
        # One that was asked for and does not fit is left, and told.
        assert ("may grow to" in notes) == (wishes.cache_ram is not None)


def test_sizes_are_those_of_the_log(gemma3: Path) -> None:
    """gemma-3-270m, ``-c 4096 -np 2``: the server logs 7.506 MiB for a checkpoint, 11.918 MiB for 1,500 tokens."""
    with open_model(gemma3) as m:
        s = Settings(4096, parallel=2)
        found = kept(m.arch, s, kv_cache(m.arch, s))
    assert found.needed
    assert not found.whole
    assert round(found.checkpoint / MIB, 3) == 7.506
    # What comes for each token are the three layers that see all of the context.
    cell = (found.prompt - found.checkpoint) // 2048
    assert round((1500 * cell + found.checkpoint) / MIB, 3) == 11.918
