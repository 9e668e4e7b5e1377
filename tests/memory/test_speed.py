"""The estimate of speed, held against what others measured with llama.cpp's own bench."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gguftool.build.ftypes import target
from gguftool.build.plan import plan_quantize
from gguftool.errors import UsageError
from gguftool.facts.arch import Hparams
from gguftool.memory.devices import Device
from gguftool.memory.plan import Machine, Planner, weights_of
from gguftool.memory.settings import Settings
from gguftool.memory.speed.estimate import Speed, read, written
from gguftool.memory.speed.rates import Rate, known, parse, rate_of, rates, table
from gguftool.memory.speed.touched import usage
from gguftool.memory.weights import Placement, Weight
from gguftool.model import from_source, open_model
from gguftool.source import Memory
from tests.memory.dense import SIZES, dense, header
from tests.memory.giants import giant, whole
from tests.memory.records import DATA

GIB = 1 << 30
_TEST = re.compile(r"(pp|tg)(\d+)(?:@d(\d+))?")


@dataclass(frozen=True)
class Published:
    gpu: str
    backend: str
    model: str
    ftype: str
    test: str
    speed: float
    source: str
    cpu_moe: int = 0
    host: str = ""

    def __str__(self) -> str:
        return f"{self.gpu} {self.backend} {self.model} {self.ftype} {self.test}"


def published(name: str = "speed") -> list[Published]:
    """Figures that the ranges were fitted to; those that nothing was fitted to are ``speed_apart``."""
    return [Published(**json.loads(line)) for line in (DATA / f"{name}.jsonl").read_text().splitlines()]


@cache
def tensors(model: str, ftype: str) -> tuple[Weight, ...]:
    if not ftype:
        return tuple(weights_of(giant(model)))
    written_to = dense if model in SIZES else whole
    with TemporaryDirectory() as folder, open_model(written_to(model, Path(folder))) as m:
        steps = plan_quantize(m, target(ftype), allow_requantize=True).steps
    return tuple(Weight(x.name, x.choice.type, x.tensor.shape, x.new_bytes) for x in steps)


@cache
def shape(model: str) -> Hparams:
    return from_source(Memory(header(model).header()), strict=False).arch if model in SIZES else giant(model).arch


def estimated(x: Published) -> Speed:
    kind, tokens, depth = _TEST.fullmatch(x.test).groups()
    device = Device("GPU0", x.backend, 96 * GIB, x.gpu)
    planner = Planner(shape(x.model), tensors(x.model, x.ftype), Machine((device,), 512 * GIB))
    plan = planner.plan(Settings(65536), Placement(cpu_moe=x.cpu_moe))
    u = usage(planner, plan)
    fast = rates(plan.devices, [("CPU", x.host)] if x.host else [])
    at = int(depth or 0)
    if kind == "tg":
        return written(u, fast, at + int(tokens) // 2)
    found = read(u, fast, int(tokens), at)
    assert found is not None
    return found


@pytest.mark.parametrize("x", published(), ids=str)
def test_no_published_figure_is_above_the_bound(x: Published):
    assert x.speed <= estimated(x).most


def test_most_published_figures_are_what_is_likely():
    inside = [x for x in published() if estimated(x).low <= x.speed <= estimated(x).high]
    assert len(inside) >= 0.85 * len(published())
    assert len({(x.gpu, x.model) for x in published()}) >= 6


def test_figures_that_nothing_was_fitted_to_are_as_docs_say():
    """Ranges say what is likely, so the figures apart are counted, and the bound holds for each of them."""
    fitted = {(x.gpu, x.backend, x.model) for x in published()}
    counted = {"tg": [0, 0], "pp": [0, 0]}
    for x in published("speed_apart"):
        assert (x.gpu, x.backend, x.model) not in fitted
        e = estimated(x)
        assert x.speed <= e.most, x
        counted[x.test[:2]][0] += 1
        counted[x.test[:2]][1] += e.low <= x.speed <= e.high
    assert counted == {"tg": [26, 22], "pp": [18, 9]}
    told = " ".join((Path(__file__).parents[2] / "docs" / "speed.md").read_text().split())
    assert "Of 26 rates of writing 22 are within" in told
    assert "Of 18 rates of reading prompts only 9 are" in told


def test_devices_are_known_by_what_drivers_call_them():
    for about, memory, name, gigabytes in (
        ("NVIDIA GeForce RTX 4070 Ti SUPER", None, "RTX 4070 Ti SUPER", 672),
        ("NVIDIA GeForce RTX 4070", None, "RTX 4070", 504),
        ("AMD Radeon RX 7900 XTX (RADV NAVI31)", None, "RX 7900 XTX", 960),
        ("Apple M4 Max", None, "Apple M4 Max", 546),
        ("NVIDIA A100-SXM4-40GB", 40 * GIB, "A100", 1555),
        ("NVIDIA A100-SXM4-80GB", 80 * GIB, "A100", 2039),
        ("Tesla T4", None, "T4", 320),
    ):
        found = known(about, memory)
        assert found is not None, about
        assert (found.name, found.bandwidth) == (name, gigabytes)
    # another chip under the same name, and one that is not in the table
    assert known("NVIDIA GeForce RTX 4090 Laptop GPU") is None
    assert known("Adreno 740") is None
    assert len(table()) >= 80
    assert all(x.source and x.bandwidth > 0 and x.fastest >= x.fp16 for x in table())


def test_a_rate_is_a_number_modules_or_a_name():
    assert rate_of("936").bandwidth == 936e9
    assert rate_of("1.8TB/s").bandwidth == 1.8e12
    # 5,600 million transfers of 8 bytes on two channels
    assert rate_of("DDR5-5600x2").bandwidth == 89.6e9
    assert rate_of("ddr4-3200").bandwidth == 25.6e9
    assert rate_of("RTX 3090").compute == 142e12
    for wrong in ("fast", "0", "-3", "RTX 9999"):
        with pytest.raises(UsageError):
            rate_of(wrong)
    assert parse("CUDA0=936,CPU=DDR5-5600x2") == (("CUDA0", "936"), ("CPU", "DDR5-5600x2"))


def test_bytes_of_a_token_are_those_of_its_tensors():
    """A dense model reads all its tensors but the embedding; one with experts those that are used."""
    for name, used in (("llama-3.1-8b", 1.0), ("qwen3-30b-a3b", 8 / 128), ("gpt-oss-20b", 4 / 32)):
        planner = Planner(giant(name).arch, weights_of(giant(name)), Machine((), 512 * GIB))
        u = usage(planner, planner.plan(Settings(4096)))
        experts = sum(w.nbytes for w in planner.tensors if "_exps" in w.name)
        rest = sum(w.nbytes for w in planner.tensors if "_exps" not in w.name and not w.name.startswith("token_embd"))
        (host,) = u.parts
        assert host.dense + host.output + host.experts * u.share(1) == pytest.approx(rest + experts * used)
        # a batch of 512 needs nearly every expert
        assert u.share(512) == pytest.approx(1.0, abs=0.01)


def test_the_cache_is_read_as_deep_as_the_layers_look():
    planner = Planner(giant("gemma-3-27b").arch, weights_of(giant("gemma-3-27b")), Machine((), 512 * GIB))
    (host,) = usage(planner, planner.plan(Settings(32768))).parts
    # 62 layers, every sixth looks at everything, the others at 1,024 tokens; 16 heads of 128, K and V, two bytes
    cell = 16 * 128 * 2 * 2
    assert host.cache(512)[0] == 62 * 512 * cell
    assert host.cache(32768)[0] == (10 * 32768 + 52 * 1024) * cell


def test_layers_on_the_host_are_as_slow_as_the_host():
    m = giant("llama-3.1-8b")
    device = Device("CUDA0", "cuda", 24 * GIB, "NVIDIA GeForce RTX 3090")
    planner = Planner(m.arch, weights_of(m), Machine((device,), 64 * GIB))
    whole_there = planner.plan(Settings(4096), Placement())
    half = planner.plan(Settings(4096), Placement(gpu_layers=17))
    fast, slow = (written(usage(planner, p), rates(p.devices, [("CPU", "50")]), 0) for p in (whole_there, half))
    assert fast.most > 4 * slow.most
    assert slow.device == "CPU"


def test_small_models_run_here_as_is_likely(smollm2: Path, gemma3: Path):
    """Recorded: llama-bench b11434, one thread, and `--calibrate`, both in seconds of processor time on one machine."""
    here = Rate(30.8e9, 123e9, 4 * 123e9, "", "measured")
    for path, prompt, start, deep in ((smollm2, 243.8, 150.9, 82.7), (gemma3, 520.5, 77.2, 73.1)):
        with open_model(path) as m:
            planner = Planner(m.arch, weights_of(m), Machine((), 8 * GIB))
            u = usage(planner, planner.plan(Settings(2048)))
        for found, was in (
            (read(u, {"CPU": here}, 256), prompt),
            (written(u, {"CPU": here}, 16), start),
            (written(u, {"CPU": here}, 1040), deep),
        ):
            assert found is not None
            assert found.low <= was <= found.high <= found.most
