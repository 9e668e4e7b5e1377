"""Files of other programs and of old layouts: each is told what made it, what shows it, and what runs it.

The right program of each comes from that program's sources (`gguftool/facts/data/programs.json` names them), the sizes
of types from its own tables; nothing here is taken from what gguftool says.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from gguftool.facts.programs import tensor_types
from gguftool.format.types import TENSOR_TYPES
from gguftool.model import open_model
from gguftool.model.origin import SHARED, origin
from gguftool.model.role import role, way_on
from tests.build import GGUF, llama


def _typed(number: int, shape: tuple[int, int], nbytes: int, g: GGUF | None = None) -> GGUF:
    """A model with two tensors of a type, as long as that type makes them."""
    g = g or llama()
    return g.tensor("blk.0.a.weight", shape, number, bytes(nbytes)).tensor(
        "blk.0.b.weight", shape, number, bytes(nbytes)
    )


def _image(*names: str, arch: str | None = None, keys: bool = False) -> GGUF:
    g = GGUF(arch)
    if keys:
        g.kv("general.quantization_version", 2)
    for name in names:
        g.tensor(name)
    return g


def _arch(name: str) -> GGUF:
    return GGUF(name).tensor("w")


def _split(arch: str, experts: int) -> GGUF:
    g = GGUF(arch).kv(f"{arch}.expert_count", experts).tensor("token_embd.weight")
    for e in range(experts):
        for part in ("gate", "down", "up"):
            g.tensor(f"blk.0.ffn_{part}.{e}.weight")
    return g


def _merged(arch: str) -> GGUF:
    g = GGUF(arch).kv(f"{arch}.block_count", 1).tensor("token_embd.weight").tensor("blk.0.attn_q.weight")
    for name in (
        "v.patch_embedding.weight",
        "v.blk.0.attn_q.weight",
        "v.blk.0.attn_k.weight",
        "mm.mm_input_projection.weight",
    ):
        g.tensor(name)
    return g


# name -> (role, words of the program or the way on, file). Sizes: elements / block * bytes (and bytes before each row).
FILES: dict[str, tuple[str, str, Callable[[], GGUF]]] = {
    # ik_llama.cpp 8337e4cd: ggml-common.h, ggml.c:type_traits
    "ik IQ4_K": ("foreign", "ik_llama.cpp", lambda: _typed(139, (256, 2), 2 * 144)),
    "ik IQ2_K": ("foreign", "ik_llama.cpp", lambda: _typed(137, (256, 2), 2 * 76)),
    "ik IQ6_K": ("foreign", "ik_llama.cpp", lambda: _typed(141, (256, 2), 2 * 212)),
    "ik IQ4_KS": ("foreign", "ik_llama.cpp", lambda: _typed(144, (256, 2), 2 * (4 + 136))),
    "ik IQ2_KT": ("foreign", "ik_llama.cpp", lambda: _typed(153, (256, 2), 2 * (4 + 68))),
    "ik IQ2_KL": ("foreign", "ik_llama.cpp", lambda: _typed(157, (256, 2), 2 * (2 + 86))),
    "ik IQ1_BN": ("foreign", "ik_llama.cpp", lambda: _typed(134, (256, 2), 2 * (2 + 4 * 13))),
    "ik IQ2_BN": ("foreign", "ik_llama.cpp", lambda: _typed(135, (256, 2), 2 * (4 + 4 * 16))),
    "ik Q6_0": ("foreign", "ik_llama.cpp", lambda: _typed(133, (256, 2), 2 * 8 * 26)),
    "ik Q4_K_R4": ("foreign", "ik_llama.cpp", lambda: _typed(212, (256, 4), 4 * 144)),
    "ik IQ4_KS_R4": ("foreign", "ik_llama.cpp", lambda: _typed(344, (256, 4), 4 * (4 + 136))),
    "ik Q8_K_R8": ("foreign", "ik_llama.cpp", lambda: _typed(399, (256, 8), 8 * 258)),
    "ik Q8_KV": ("foreign", "ik_llama.cpp", lambda: _typed(151, (256, 2), 2 * (8 + 256))),
    "ik BF16_R16": ("foreign", "ik_llama.cpp", lambda: _typed(230, (256, 16), 16 * 512)),
    "ik IQ2_TN of 2024": ("foreign", "ik_llama.cpp", lambda: _typed(142, (256, 64), 64 * 66)),
    # bitnet.cpp: n / 4 + 32 for I2_S and TL1 (ggml.c:ggml_nbytes of its llama.cpp)
    "bitnet I2_S": ("foreign", "bitnet.cpp", lambda: _typed(36, (256, 2), 160, GGUF("bitnet-b1.58"))),
    "bitnet I2_S in a llama": ("foreign", "bitnet.cpp", lambda: _typed(36, (256, 2), 160)),
    "bitnet embedding in a qwen3": ("foreign", "bitnet.cpp", lambda: _typed(36, (256, 2), 160, GGUF("qwen3"))),
    "bitnet TL1": ("foreign", "bitnet.cpp", lambda: _typed(38, (256, 2), 160)),
    "bitnet TL2, the number of MXFP4": ("foreign", "bitnet.cpp", lambda: _typed(39, (1024, 4), 640 + 256 + 32)),
    "bitnet architecture": ("foreign", "bitnet.cpp", lambda: _arch("bitnet-25")),
    # llama.cpp before pull request 10446: blocks of 32 in 18 bytes
    "Q4_0_4_4": ("old", "Q4_0 or IQ4_NL", lambda: _typed(31, (256, 4), 4 * 144)),
    "Q4_0_4_8": ("old", "Q4_0 or IQ4_NL", lambda: _typed(32, (256, 4), 4 * 144)),
    "Q4_0_8_8": ("old", "Q4_0 or IQ4_NL", lambda: _typed(33, (256, 8), 8 * 144)),
    "IQ4_NL_4_4, the number of I2_S": ("old", "Q4_0 or IQ4_NL", lambda: _typed(36, (256, 4), 4 * 144)),
    # PrismML: 142 and 143 in groups of 128; before that 42 in groups of 128, 40 in groups of 32
    "prism PQ2_0, the number of IQ2_TN": ("foreign", "PrismML", lambda: _typed(142, (256, 2), 2 * 2 * 34)),
    "prism PTQ1_0": ("foreign", "PrismML", lambda: _typed(143, (256, 2), 2 * 2 * 28)),
    "prism Q2_0 of before, 42": ("foreign", "prism-v5", lambda: _typed(42, (1024, 4), 4 * 8 * 34)),
    "prism Q1_0 of before, 40": ("foreign", "prism-v5", lambda: _typed(40, (1024, 4), 4 * 32 * 6)),
    "prism rotated weights": ("foreign", "PrismML", lambda: llama().kv("prism.hadamard.version", 1)),
    # TheTom/llama-cpp-turboquant: 20 bytes; turbo-tan/llama.cpp-tq3: 16 bytes for 32, under the same number
    "turboquant TQ3_1S": ("foreign", "turboquant", lambda: _typed(45, (256, 2), 2 * 8 * 16)),
    "turboquant TQ4_1S": ("foreign", "turboquant", lambda: _typed(46, (256, 2), 2 * 8 * 20)),
    "tq3 TQ3_4S": ("foreign", "turbo-tan", lambda: _typed(46, (256, 2), 2 * 8 * 16)),
    "tq3 TQ3_0": ("foreign", "turbo-tan", lambda: _typed(200, (256, 2), 2 * 8 * 14)),
    "ROCmFP4": ("foreign", "ROCmFPX", lambda: _typed(100, (256, 2), 2 * 8 * 18)),
    "ROCmFPX Q6": ("foreign", "ROCmFPX", lambda: _typed(102, (256, 2), 2 * 8 * 26)),
    # one tensor for each expert (llama.cpp issue 10244)
    "mixtral of 2023": ("old", "convert it again", lambda: _split("llama", 8)),
    "grok of 2024": ("old", "convert it again", lambda: _split("grok", 8)),
    "qwen2moe of 2024": ("old", "convert it again", lambda: _split("qwen2moe", 4)),
    "latent attention of early 2025": (
        "foreign",
        "ik_llama.cpp",
        lambda: (
            GGUF("deepseek2")
            .tensor("blk.0.attn_kv_b.weight")
            .tensor("blk.0.attn_k_b.weight")
            .tensor("blk.0.attn_v_b.weight")
        ),
    ),
    # Ollama fb307609: convert/convert_*.go, llama/compat/README.md
    "mllama": ("foreign", "Ollama", lambda: _arch("mllama")),
    "gptoss": ("foreign", "Ollama", lambda: _arch("gptoss")),
    "qwen25vl": ("foreign", "Ollama", lambda: _arch("qwen25vl")),
    "deepseekocr": ("foreign", "Ollama", lambda: _arch("deepseekocr")),
    "glmocr": ("foreign", "Ollama", lambda: _arch("glmocr")),
    "glm4moelite": ("foreign", "Ollama", lambda: _arch("glm4moelite")),
    "olmo3": ("foreign", "Ollama", lambda: _arch("olmo3")),
    "nemotron_h_omni": ("foreign", "Ollama", lambda: _arch("nemotron_h_omni")),
    "gemma3 with its encoder": ("foreign", "Ollama", lambda: _merged("gemma3")),
    "mistral3 with its encoder": ("foreign", "Ollama", lambda: _merged("mistral3")),
    "qwen3vl with its encoder": ("foreign", "Ollama", lambda: _merged("qwen3vl")),
    "llama4 with its encoder": ("foreign", "Ollama", lambda: _merged("llama4")),
    # city96/ComfyUI-GGUF 795e4515: loader.py
    "flux": ("image", "ComfyUI-GGUF", lambda: _arch("flux")),
    "sdxl": ("image", "ComfyUI-GGUF", lambda: _arch("sdxl").kv("comfy.gguf.orig_shape.w", [4, 32])),
    "wan": ("image", "ComfyUI-GGUF", lambda: _arch("wan")),
    "qwen_image": ("image", "ComfyUI-GGUF", lambda: _arch("qwen_image")),
    "pig": ("image", "calcuis", lambda: _arch("pig")),
    "cow": ("image", "calcuis", lambda: _arch("cow")),
    "z_image": ("image", "stable-diffusion.cpp", lambda: _arch("z_image")),
    # leejet/stable-diffusion.cpp 97d29908: no key is written
    "sd.cpp checkpoint": (
        "image",
        "sd-cli",
        lambda: _image(
            "model.diffusion_model.input_blocks.0.0.weight",
            "first_stage_model.decoder.conv_in.weight",
            "cond_stage_model.transformer.x.weight",
        ),
    ),
    "sd.cpp flux": (
        "image",
        "sd-cli",
        lambda: _image("double_blocks.0.img_attn.qkv.weight", "single_blocks.0.linear1.weight"),
    ),
    "sd.cpp vae": ("image", "sd-cli", lambda: _image("decoder.conv_in.weight", "encoder.conv_in.weight")),
    "sd.cpp text encoder": ("image", "sd-cli", lambda: _image("text_model.encoder.layers.0.mlp.fc1.weight")),
    "diffusion model without architecture": (
        "image",
        "ComfyUI",
        lambda: _image("transformer_blocks.0.attn.to_q.weight", keys=True),
    ),
    # mmwillet/TTS.cpp 724d97fc, CrispStrobe/CrispASR 72d3c389
    "parler-tts": ("audio", "TTS.cpp", lambda: _arch("parler-tts")),
    "kokoro": ("audio", "TTS.cpp", lambda: _arch("kokoro")),
    "dia": ("audio", "TTS.cpp", lambda: _arch("dia")),
    "orpheus": ("audio", "TTS.cpp", lambda: _arch("orpheus")),
    "outetts": ("audio", "crispasr", lambda: _arch("outetts")),
    "snac": ("audio", "crispasr", lambda: _arch("snac")),
    "wavtokenizer": ("audio", "crispasr", lambda: _arch("wavtokenizer")),
    "chatterbox": ("audio", "crispasr", lambda: _arch("chatterbox")),
    "parakeet": ("audio", "crispasr", lambda: _arch("parakeet")),
    "whisper as GGUF": ("audio", "crispasr", lambda: _arch("whisper")),
    "qwen3tts_tokenizer": ("audio", "crispasr", lambda: _arch("qwen3tts_tokenizer")),
    "qwen3tts of CrispASR": ("audio", "crispasr", lambda: GGUF("qwen3tts").tensor("talker.blk.0.attn_q.weight")),
    "nemotron of CrispASR": ("audio", "crispasr", lambda: GGUF("nemotron").tensor("encoder.layers.0.x.weight")),
    "mimi": ("audio", "speech program", lambda: _arch("mimi")),
    "whisper without architecture": ("audio", "speech program", lambda: _image("encoder.blocks.0.attn.query.weight")),
    "something else": ("foreign", "not known", lambda: GGUF().kv("training.x", 1).tensor("training.tensor.0")),
}


def test_there_are_enough() -> None:
    assert len(FILES) >= 60


@pytest.mark.parametrize("name", FILES, ids=[n.replace(" ", "-") for n in FILES])
def test_is_named_with_what_runs_it(name: str, tmp_path: Path, cli) -> None:
    wanted, words, build = FILES[name]
    path = build().write(tmp_path / "f.gguf")
    with open_model(path, strict=False) as m:
        assert role(m) == wanted
        found = origin(m)
        assert found is not None
        assert words in f"{found.program.name} {way_on(m)}"
        way = way_on(m)
    screen = cli("dump", "--overview", str(path)).out
    assert found.program.name in screen.splitlines()[0]
    assert way in screen
    said = cli("lint", str(path)).out
    assert way in said
    assert "a newer llama.cpp" not in screen + said
    for command in ("plan", "launch --print --ctx 32"):
        result = cli(*command.split(), str(path))
        assert result.code == 2
        assert f"hint: {way}" in result.err


@pytest.mark.parametrize("name", ["ik IQ4_K", "mixtral of 2023", "Q4_0_4_4", "mllama", "flux", "kokoro"])
def test_the_other_commands_say_it_too(name: str, tmp_path: Path, cli) -> None:
    wanted, _, build = FILES[name]
    path = build().write(tmp_path / "f.gguf")
    with open_model(path, strict=False) as m:
        way = way_on(m)
    [row] = cli("scan", "--format", "json", str(path)).json["models"]
    assert row["facts"]["role"] == wanted
    assert way in cli("verify", str(path)).out
    assert way in cli("fix", "--set", "general.name=x", "--dry-run", str(path)).err
    made = cli("quantize", "--engine", "builtin", "--dry-run", str(path), str(tmp_path / "o.gguf"), "Q8_0")
    if wanted in ("old", "foreign"):
        assert made.code == 4
        assert way in made.err
    else:
        assert "which tensors that program wants" in made.err


def test_dump_names_the_types_of_a_fork_and_measures_them(tmp_path: Path, cli) -> None:
    g = _typed(139, (256, 4), 4 * 144, GGUF("llama").kv("general.file_type", 140))
    body = cli("dump", "--format", "json", str(g.write(tmp_path / "f.gguf"))).json["summary"]
    assert body["file_type"] == "IQ4_K"
    assert body["types"] == [{"type": "IQ4_K", "tensors": 2, "elements": 2048, "bytes": 1152}]
    assert body["bits_per_weight"] == 4.5
    assert body["about"]["told by"] == "tensors of type IQ4_K (139)"
    path = FILES["bitnet I2_S"][2]().write(tmp_path / "b.gguf")
    rows = cli("dump", "--format", "json", str(path)).json["tensors"]
    assert [(t["type"], t["type_id"], t["bytes"]) for t in rows] == [("I2_S", 36, 160)] * 2
    table = cli("dump", "--no-metadata", str(path)).out
    assert "I2_S" in table
    assert "IQ4_NL_4_4" not in table


def test_lint_follows_the_sizes_of_a_fork(tmp_path: Path, cli) -> None:
    """Also where the number is llama.cpp's own: no offset is called wrong that the fork's sizes explain."""
    for name in ("ik IQ4_KS", "bitnet TL2, the number of MXFP4", "prism Q2_0 of before, 42"):
        report = cli("lint", "--format", "json", str(FILES[name][2]().write(tmp_path / "f.gguf"))).json["files"][0]
        assert not [f for f in report["findings"] if f["rule"].startswith("tensor-offset")]
        assert not [s for s in report["not_evaluated"] if "tensor-offset" in str(s["rule"])]
        checked = cli("verify", "--format", "json", str(tmp_path / "f.gguf")).json["files"][0]
        assert checked["problems"] == []
        assert [n["kind"] for n in checked["notes"]] == ["fork-types", "role"]
        assert cli("dump", "--format", "json", str(tmp_path / "f.gguf")).json["summary"]["complete"]


def test_a_fork_file_that_is_cut_off_is_told(tmp_path: Path, cli) -> None:
    g = _typed(139, (256, 4), 4 * 144).tensor("blk.0.c.weight", (256, 4), 139, bytes(576))
    whole = cli("verify", "--format", "json", str(g.write(tmp_path / "f.gguf"))).json["files"][0]
    assert [n["kind"] for n in whole["notes"]] == ["fork-types", "role"]
    cut = cli("verify", "--format", "json", str(g.truncate(-100).write(tmp_path / "g.gguf"))).json["files"][0]
    assert [f["kind"] for f in cut["problems"]] == ["truncated"]
    assert "100 are missing" in cut["problems"][0]["message"]


def test_a_sound_model_has_no_origin(tmp_path: Path) -> None:
    """Numbers that a fork uses too, at llama.cpp's own sizes: MXFP4, NVFP4, Q1_0, Q2_0."""
    for number in (39, 40, 41, 42):
        kind = TENSOR_TYPES[number]
        size = 4 * 1024 // kind.block_size * kind.block_bytes
        with open_model(_typed(number, (1024, 4), size).write(tmp_path / "m.gguf"), strict=False) as m:
            assert origin(m) is None


def test_one_stray_tensor_makes_no_file_of_ollama(tmp_path: Path) -> None:
    g = GGUF("command-r").tensor("token_embd.weight").tensor("v.blk.0.attn_q.weight")
    with open_model(g.write(tmp_path / "m.gguf")) as m:
        assert origin(m) is None


def test_a_projector_of_two_towers_is_told_apart(tmp_path: Path) -> None:
    g = GGUF("clip").kv("clip.has_vision_encoder", True).tensor("v.blk.0.attn_q.weight")
    with open_model(g.write(tmp_path / "m.gguf")) as m:
        assert role(m) == "mmproj"
    g = GGUF("clip").kv("clip.has_text_encoder", True).kv("clip.has_vision_encoder", True)
    g.tensor("t.blk.0.attn_q.weight").tensor("v.blk.0.attn_q.weight")
    with open_model(g.write(tmp_path / "m.gguf")) as m:
        assert role(m) == "foreign"
        assert "clip.cpp" in way_on(m)


def test_no_size_of_a_fork_is_that_of_two() -> None:
    """Where a number means two things, the sizes must be able to tell them apart, but for what never was in a file."""
    undecided = {(36, "llama.cpp-old-types", "tq3"), (42, "prism-v5", "turboquant")}
    for number, kinds in tensor_types().items():
        for a in kinds:
            for b in kinds:
                if a < b and (number, *sorted((a, b))) not in undecided:
                    assert kinds[a].nbytes((1024, 4)) != kinds[b].nbytes((1024, 4)), (number, a, b)


def test_what_is_looked_at_for_forks_are_the_numbers_that_they_share_with_llama_cpp() -> None:
    assert tensor_types().keys() & TENSOR_TYPES.keys() == SHARED


def test_row_sizes_are_those_of_the_fork() -> None:
    """Bits per weight as ik_llama.cpp's own tables give them (`llama-quantize --help`), the scale of a row left out."""
    table = {kind.name: kind for kinds in tensor_types().values() for kind in kinds.values()}
    for name, bits in {
        "IQ4_KS": 4.25,
        "IQ2_KS": 2.1875,
        "IQ4_K": 4.5,
        "IQ5_K": 5.5,
        "IQ6_K": 6.625,
        "IQ2_K": 2.375,
    }.items():
        kind = table[name]
        assert (kind.size * 8 / kind.block) == bits
    assert table["IQ4_KS"].nbytes((512, 3)) == 3 * (4 + 2 * 136)
    assert struct.calcsize("<e") == 2
