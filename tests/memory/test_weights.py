"""Weights by device against what the real library laid out, and against sums made by hand."""

from __future__ import annotations

import json

import pytest

from gguftool.errors import UsageError
from gguftool.memory.devices import Device
from gguftool.memory.plan import Machine, Planner, weights_of
from gguftool.memory.settings import Settings
from gguftool.memory.weights import Placement, Weight, Weights, layer_devices
from tests.memory.giants import NAMES, giant
from tests.memory.records import DATA
from tests.memory.test_kv import hparams

TWO = (Device("RPC0", "rpc", 1 << 30), Device("RPC1", "rpc", 1 << 30))
PLACEMENTS = json.loads((DATA / "placements.json").read_text())["runs"]


@pytest.mark.parametrize("name", NAMES)
def test_every_placement_to_the_byte(name: str):
    """b10434 over two ggml-rpc-servers: -ngl, -ts, -ncmoe; weights and caches by buffer."""
    m = giant(name)
    planner = Planner(m.arch, weights_of(m), Machine(TWO))
    runs = [r for r in PLACEMENTS if r["model"] == name]
    assert len(runs) >= 7
    for r in runs:
        plan = planner.plan(Settings(2048), Placement(r["gpu_layers"], r["cpu_moe"], split=tuple(r["split"])))
        assert plan.placed.buffers == r["weights"], r
        assert {d.name: d.kv + d.state for d in plan.devices if d.kv + d.state} == r["context"], r


@pytest.mark.parametrize("name", NAMES)
def test_host_alone_to_the_byte(name: str):
    """Without devices: the same runs with -ngl 0."""
    m = giant(name)
    (run,) = (r for r in PLACEMENTS if r["model"] == name and r["gpu_layers"] == 0)
    assert Weights(m.arch, weights_of(m)).place(Placement()).buffers == run["weights"]


def test_the_last_layers_go_to_the_device_and_the_output_counts_as_one():
    one = (Device("CUDA0", "cuda", 1),)
    assert layer_devices(4, one, Placement(0)) == ("CPU",) * 5
    assert layer_devices(4, one, Placement(1)) == ("CPU",) * 4 + ("CUDA0",)
    assert layer_devices(4, one, Placement(3)) == ("CPU", "CPU", "CUDA0", "CUDA0", "CUDA0")
    assert layer_devices(4, one, Placement(99)) == ("CUDA0",) * 5
    assert layer_devices(4, (), Placement(99)) == ("CPU",) * 5


def test_a_split_follows_memory_unless_given():
    two = (Device("CUDA0", "cuda", 3 << 30), Device("CUDA1", "cuda", 1 << 30))
    assert layer_devices(7, two, Placement()).count("CUDA0") == 6
    assert layer_devices(7, two, Placement(split=(1, 1))).count("CUDA0") == 4


def _tiny() -> tuple[Weight, ...]:
    rows = [
        Weight("token_embd.weight", "F16", (64, 100), 12800),
        Weight("output_norm.weight", "F32", (64,), 256),
        *(
            Weight(f"blk.{i}.{name}.weight", "Q4_0", (64, 64), 64 * 36)
            for i in range(2)
            for name in ("attn_q", "ffn_up", "ffn_gate_exps")
        ),
    ]
    return tuple(rows)


TINY = hparams("qwen2", block_count=2, embedding_length=64, attention__head_count=1)
CUDA = (Device("CUDA0", "cuda", 1 << 30),)


def test_a_tied_output_matrix_exists_twice_when_the_output_layer_is_elsewhere():
    w = Weights(TINY, _tiny(), CUDA)
    assert w.tied
    placed = w.place(Placement())
    assert placed.buffers["CPU"] == 12800
    assert placed.copies == 12800
    # CUDA: 2 x 3 quantised matrices, the last row of each padded by 448 elements = 14 blocks of 18 bytes, to 128
    assert placed.buffers["CUDA0"] == 12800 + 256 + 6 * 2560
    assert w.place(Placement(0)).copies == 0


def test_tied_on_the_host_is_one_matrix():
    w = Weights(TINY, _tiny(), repack="none")
    placed = w.place(Placement(repack="none"))
    assert placed.buffers == {"CPU": 12800 + 256 + 6 * 2304}
    assert placed.copies == 0


def test_patterns_and_cpu_moe_move_tensors():
    w = Weights(TINY, _tiny(), CUDA, [(r"blk\.0\.ffn_up", "CPU")])
    placed = w.place(Placement(cpu_moe=1))
    # the embedding, one ffn_up by pattern, the experts of layer 0
    assert placed.buffers["CPU"] == 12800 + 2304 + 2304
    assert placed.experts_on_host == 2304


def test_wrong_patterns_are_named():
    with pytest.raises(UsageError, match="no such device"):
        Weights(TINY, _tiny(), CUDA, [("x", "CUDA7")])
    with pytest.raises(UsageError, match="regular expression"):
        Weights(TINY, _tiny(), CUDA, [("(", "CPU")])


def test_next_token_prediction_layers_are_not_loaded():
    hp = hparams("glm4moe", block_count=2, embedding_length=64, attention__head_count=1, nextn_predict_layers=1)
    w = Weights(hp, _tiny())
    assert w.skipped == 3 * 2304
    assert w.tensor_bytes == 12800 + 256 + 6 * 2304
