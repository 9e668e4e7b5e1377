"""The numbers in docs/memory.md are those the code gives, and those worked out here by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from gguftool.facts.cachetypes import CACHE_TYPES
from gguftool.memory.devices import Device
from gguftool.memory.kv import kv_cache
from gguftool.memory.plan import Machine, Planner, memory, weights_of
from gguftool.memory.search import search
from gguftool.memory.settings import Settings
from gguftool.memory.weights import Placement
from tests.memory.giants import giant
from tests.memory.test_kv import QWEN2_7B, hparams

DOC = (Path(__file__).parents[2] / "docs" / "memory.md").read_text()
GIB = 1 << 30
QWEN35_27B = hparams(
    "qwen35",
    block_count=64,
    context_length=262144,
    embedding_length=5120,
    attention__head_count=24,
    attention__head_count_kv=4,
    attention__key_length=256,
    attention__value_length=256,
    ssm__conv_kernel=4,
    ssm__inner_size=6144,
    ssm__state_size=128,
    ssm__time_step_rank=48,
    ssm__group_count=16,
)


def said(text: str) -> None:
    assert text in DOC, text


def test_qwen2_7b():
    for name, shown in (("f16", "1.75 GiB"), ("q8_0", "0.93 GiB"), ("q4_0", "0.49 GiB")):
        size = kv_cache(QWEN2_7B, Settings(32768, name, name)).bytes
        said(f"{size:,} bytes = {shown}")
        assert shown == f"{size / GIB:.2f} GiB"
    assert 28 * 2 * 4 * 128 * 2 == 57344
    said("57,344 bytes = 56 KiB")
    assert 28 * 2 * 28 * 128 * 2 * 32768 / GIB == 12.25
    said("12.25 GiB")


def test_gemma3_27b_at_256k():
    hp = giant("gemma-3-27b").arch
    caches = {c.name: c for c in kv_cache(hp, Settings(262144)).caches}
    assert (len(caches["full"].layers), len(caches["window"].layers), caches["window"].cells) == (10, 52, 1536)
    assert 10 * 2 * 16 * 128 * 2 == 81920
    assert f"{caches['full'].bytes / GIB:.2f}" == "20.00"
    assert f"{caches['window'].bytes / GIB:.2f}" == "0.61"
    totals = [kv_cache(hp, Settings(262144, t, t)).bytes / GIB for t in ("f16", "q8_0", "q4_0")]
    said("f16 {:.2f} GiB · q8_0 {:.2f} GiB · q4_0 {:.2f} GiB".format(*totals))
    assert 62 * 2 * 16 * 128 * 2 * 262144 / GIB == 124
    said("124 GiB")
    m = giant("gemma-3-27b")
    planner = Planner(m.arch, weights_of(m), Machine((Device("CUDA0", "cuda", 16 * GIB),), 32 * GIB))
    assert f"{planner.weights.tensor_bytes / GIB:.1f}" == "14.2"
    plan = search(planner, Settings(262144), Placement()).plan
    assert plan.fits
    said(f"ends at a {plan.settings.type_k} cache with {plan.placement.gpu_layers} of 63 layers on the device")


def test_a_hybrid_27b_at_256k():
    plan = kv_cache(QWEN35_27B, Settings(262144))
    totals = [kv_cache(QWEN35_27B, Settings(262144, t, t)).kv_bytes / GIB for t in ("f16", "q8_0", "q4_0")]
    said("{:.2f} GiB f16 · {:.2f} GiB q8_0 · {:.2f} GiB q4_0".format(*totals))
    assert plan.state_bytes == 48 * 4 * (3 * 10240 + 128 * 6144)
    said(f"{plan.state_bytes / (1 << 20):.1f} MiB a slot")


def test_bytes_of_the_cache_types():
    row = next(line for line in DOC.splitlines() if line.startswith("| bytes of 32 elements"))
    names = next(line for line in DOC.splitlines() if line.startswith("| type | f32"))
    for cell, label in zip(row.split("|")[2:-1], names.split("|")[2:-1], strict=True):
        for name in label.replace(" ", "").split(","):
            assert CACHE_TYPES[name].row_bytes(32) == int(cell), name


@pytest.mark.real
def test_gemma3_270m(gemma3: Path):
    from gguftool.model import open_model

    with open_model(gemma3) as m:
        said(f"the estimate is {memory(m, 8192).compute:,} bytes")
