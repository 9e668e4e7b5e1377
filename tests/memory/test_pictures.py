"""What a projector takes beside its weights, beside what llama.cpp said of itself."""

from __future__ import annotations

import pytest

from gguftool.memory.devices import HOST, Device
from gguftool.memory.growth import PICTURES
from gguftool.memory.pictures import graphs
from gguftool.memory.plan import Machine, Planner, weights_of
from gguftool.memory.settings import Settings
from gguftool.memory.use import Side
from gguftool.memory.weights import Placement
from gguftool.model import Model, from_source
from gguftool.source import Memory
from tests.build import GGUF
from tests.memory.giants import giant
from tests.projectors import SOUND

MIB = 1 << 20
REAL = {
    "adapter": 202176,
    "cogvlm": 181632,
    "dots_ocr": 30118144,
    "gemma3": 156160,
    "gemma4v": 8263552,
    "glm4v": 31303424,
    "glma": 1205248,
    "idefics3": 217472,
    "internvl": 178048,
    "janus_pro": 164736,
    "kimivl": 3741696,
    "ldpv2": 2236064,
    "lfm2": 3734272,
    "lightonocr": 3734016,
    "llama4": 166464,
    "meralion": 1226752,
    "mlp": 183072,
    "musicflamingo": 1192192,
    "nemotron_v2_vl": 178048,
    "paddleocr": 11234816,
    "phi4": 1011456,
    "pixtral": 3738368,
    "qwen2.5o": 451474112,
    "qwen2.5vl_merger": 450139840,
    "qwen2a": 1183744,
    "qwen2vl_merger": 31298304,
    "qwen3vl_merger": 31334784,
    "resampler": 3542848,
    "ultravox": 1254400,
    "voxtral": 1203968,
}
"""Bytes of the weights and the graph on the CPU, as `mtmd_get_memory_usage` of b11434 gave them for these files."""
NEARLY = {"gemma4v": 64, "qwen2.5o": -150528}
"""Bytes that ours comes to more: the one that was measured with another build, and one of two encoders."""


def tower_27b() -> Model:
    """The projector of Qwen3.6-27B by the keys that llama.cpp printed of it (ollama #17482); only its header."""
    e, ff, out, layers = 1152, 4304, 5120, 27
    g = GGUF("clip")
    keys: dict[str, object] = {
        "general.type": "mmproj", "general.file_type": 1, "clip.has_vision_encoder": True, "clip.use_gelu": True,
        "clip.projector_type": "qwen3vl_merger", "clip.vision.image_size": 768, "clip.vision.patch_size": 16,
        "clip.vision.embedding_length": e, "clip.vision.feed_forward_length": ff, "clip.vision.projection_dim": out,
        "clip.vision.block_count": layers, "clip.vision.attention.head_count": 16,
        "clip.vision.attention.layer_norm_epsilon": 1e-6, "clip.vision.spatial_merge_size": 2,
        "clip.vision.image_mean": [0.5] * 3, "clip.vision.image_std": [0.5] * 3,
    }  # fmt: skip
    for key, value in keys.items():
        g.kv(key, value)

    def add(name: str, *shape: int, type: str = "f32") -> None:
        g.tensor(name, shape, type, b"")

    add("v.patch_embd.weight", 16, 16, 3, e)
    add("v.patch_embd.weight.1", 16, 16, 3, e)
    add("v.patch_embd.bias", e)
    add("v.position_embd.weight", e, 2304)
    for name, n, m in (("v.post_ln", e, 0), ("mm.0", 4 * e, 4 * e), ("mm.2", 4 * e, out)):
        add(f"{name}.weight", *((n, m) if m else (n,)), type="bf16" if m else "f32")
        add(f"{name}.bias", m or n)
    for i in range(layers):
        for name, n, m in (("attn_qkv", e, 3 * e), ("attn_out", e, e), ("ffn_up", e, ff), ("ffn_down", ff, e)):
            add(f"v.blk.{i}.{name}.weight", n, m, type="bf16")
            add(f"v.blk.{i}.{name}.bias", m)
        for name in ("ln1", "ln2"):
            add(f"v.blk.{i}.{name}.weight", e)
            add(f"v.blk.{i}.{name}.bias", e)
    return from_source(Memory(g.bytes()), strict=False)


def test_the_worst_case_that_llama_cpp_names() -> None:
    """llama.cpp #24694: the projector of the 27B model is counted with 1161.02 MiB on its device."""
    m = tower_27b()
    weights = sum(t.nbytes or 0 for t in m.tensors.values())
    use = graphs(m)
    assert use.known
    assert weights / MIB == pytest.approx(888.0, abs=0.05)
    assert (weights + use.start + use.inputs) / MIB == pytest.approx(1161.02, abs=0.01)
    # A picture of 4,096 tokens is larger than the one of 46 × 46 that it warms up with.
    assert use.most > use.start * 1.8


def test_it_is_in_the_plan_where_it_lies() -> None:
    text = giant("llama-3.1-8b")
    side = Side("mmproj", 100 * MIB, "", compute=10 * MIB, pictures=20 * MIB, inputs=3 * MIB)

    def plan(*devices: Device) -> dict[str, int]:
        p = Planner(text.arch, weights_of(text), Machine(devices), sides=(side,)).plan(Settings(4096))
        assert [(g.device, g.bytes) for g in p.growth if g.what == PICTURES] == [(p.devices[0].name, 20 * MIB)]
        return {d.name: d.projector // MIB for d in p.devices}

    assert plan() == {HOST: 110}
    assert plan(Device("CUDA0", "cuda", 24 << 30)) == {"CUDA0": 113, HOST: 3}


@pytest.mark.parametrize("kind", sorted(REAL))
def test_the_graph_is_as_large_as_the_real_one(kind: str) -> None:
    m = from_source(Memory(SOUND[kind]().gguf().bytes()))
    weights = sum(-(-(t.nbytes or 0) // 32) * 32 for t in m.tensors.values())
    use, real = graphs(m), REAL[kind] - weights
    assert use.known
    assert use.start - real == NEARLY.get(kind, 0)


def test_the_graph_of_the_27b_to_the_byte() -> None:
    # Of the same function, for the same file with data.
    assert graphs(tower_27b()).start == 260149504


def test_an_adapter_lies_where_the_layers_are_that_it_changes() -> None:
    text = giant("llama-3.1-8b")
    parts = (*((n, MIB) for n in range(32)), (-1, 5 * MIB), (32, 7 * MIB))
    side = Side("lora", 44 * MIB, layers=parts)

    def plan(layers: int | None) -> dict[str, int]:
        machine = Machine((Device("CUDA0", "cuda", 80 << 30),))
        p = Planner(text.arch, weights_of(text), machine, sides=(side,)).plan(Settings(4096), Placement(layers))
        return {d.name: d.beside // MIB for d in p.devices}

    # The token embedding stays on the host; the output counts as a layer.
    assert plan(None) == {"CUDA0": 39, HOST: 5}
    assert plan(11) == {"CUDA0": 17, HOST: 27}
    assert plan(0) == {"CUDA0": 0, HOST: 44}
