"""A grid of settings planned at once: its sums are the planner's figures, and it is bounded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gguftool.memory.devices import HOST
from gguftool.memory.settings import Settings
from gguftool.memory.shares import weight_shares
from gguftool.memory.turning import BUDGET, Spot, stops, turned
from gguftool.memory.weights import Placement
from gguftool.model import open_model
from gguftool.report.turned import splits
from tests.memory.giants import giant
from tests.memory.turned import differing, grid, planned, planners, points, row_of, settings


@pytest.mark.parametrize(
    ("name", "kind"),
    [("gpt-oss-20b", "cuda"), ("gpt-oss-20b", "vulkan"), ("mamba-2.8b", "cuda"), ("deepseek-v3", "cuda")],
)
def test_sums_are_what_the_planner_says(name, kind):
    t, every = grid(giant(name), kind, budget=4_000)
    assert differing(t, every, 12, seed=7) == []


def test_caches_on_the_host(gemma3):
    with open_model(gemma3) as m:
        t, every = grid(m, budget=4_000, kv_offload=False)
        assert differing(t, every, 15, 3, Placement(kv_offload=False)) == []


def test_placements_that_count_as_alike_are_alike(smollm2):
    with open_model(smollm2) as m:
        t, every = grid(m, most=1, budget=10_000)
    board = t.boards[1]
    spots = [x for x in board.spots if row_of(t, board, x, 0, 0, 0) >= 0]
    assert len(spots) > 20, "placements that were planned with one device, one slot and a cache of f16"
    for spot in spots:
        plan = planned(t, every, (1, spot, 2, 0, 0, 0))
        row = t.rows[row_of(t, board, spot, 0, 0, 0)]
        assert [t.series[i][2] for i in row] == [d.compute for d in plan.devices], spot


@pytest.mark.parametrize("name", ["llama-3.1-70b", "qwen3-30b-a3b", "gemma-3-27b"])
def test_weights_by_layer(name):
    planner = planners(giant(name), "vulkan", 2)[2]
    shares = weight_shares(planner, Placement())
    count = planner.weights.layer_count
    for layers, moved in ((0, 0), (1, 0), (count // 2, 3), (count, 0), (count + 1, count)):
        found = planner.weights.place(Placement(gpu_layers=layers, cpu_moe=moved, split=(2.0, 1.0)))
        want = {name: n for name, n in found.buffers.items() if n and name != "CPU_REPACK"}
        want[HOST] = found.host
        assert shares.on(found.layer_device, moved) == want


def test_what_is_laid_out_is_bounded():
    few, _ = grid(giant("qwen25-32b"), budget=500)
    more, _ = grid(giant("qwen25-32b"), budget=2_000)
    assert few.plans < more.plans < 200
    assert few.skipped > more.skipped > 0
    assert BUDGET <= 100_000


def test_nothing_is_there_that_was_not_planned(smollm2):
    with open_model(smollm2) as m:
        t, _ = grid(m, budget=0)
    assert [b.points for b in t.boards] == [()] * 4
    assert list(points(t)) == []


def test_a_pair_that_is_refused_is_no_point(smollm2):
    def off(slots: int, k: str, v: str) -> Settings:
        return replace(settings(slots, k, v), flash_attn="off")

    with open_model(smollm2) as m:
        t = turned(planners(m, most=0), off, Placement(), (2048,), (1,), ("f16", "q8_0"), 20_000)
    assert t.refused[0] == t.refused[2] == ""
    assert "requires flash_attn" in t.refused[1]
    assert t.boards[0].points[0][1] == -1
    assert t.boards[0].points[0][2] >= 0


def test_stops():
    assert stops(8192, 8192, halves=False) == (512, 1024, 2048, 4096, 8192)
    assert stops(40960, 5000, halves=False) == (1024, 2048, 4096, 5000, 8192, 16384, 32768, 40960)
    assert stops(131072, 131072, halves=True)[-4:] == (49152, 65536, 98304, 131072)
    assert stops(1 << 20, 4096, halves=True)[0] == 4096
    assert stops(0, 4096, halves=False)[-1] == 4096


def test_splits():
    assert list(splits(3, 0)) == [()]
    assert list(splits(3, 1)) == [(3,)]
    assert list(splits(4, 2)) == [(1, 3), (2, 2), (3, 1)]
    assert list(splits(4, 3)) == [(1, 1, 2), (1, 2, 1), (2, 1, 1)]
    assert Spot(0, 0, (1, 3)) != Spot(0, 0, (3, 1))
